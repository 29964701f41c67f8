#include "core/coordinator/member.h"

#include <algorithm>

#include "base/check.h"

namespace regroup::core::coordinator {

std::vector<FromAgent> Member::introduction() const {
  Hello hello = hello_;
  const bool in_round = sealed_ && !join_;
  if (in_round)
    hello.running = Running{.place = {.round = sealed_->round,
                                      .rank = sealed_->rank,
                                      .world_size = sealed_->world_size},
                            .restart_count = sealed_->restart_count,
                            .done = done_};
  std::vector<FromAgent> messages{std::move(hello)};
  if (join_) messages.emplace_back(*join_);
  if (failed_) messages.emplace_back(*failed_);
  return messages;
}

FromAgent Member::join(const Bootstrap& bootstrap) {
  join_ = Join{.number = ++joins_, .bootstrap = bootstrap};
  failed_.reset();
  done_ = false;
  stop_.reset();
  progress_.reset();
  return *join_;
}

FromAgent Member::failed(Failure failure) {
  CHECK(sealed_ && !join_);
  failed_ = Failed{.round = sealed_->round, .failure = std::move(failure)};
  return *failed_;
}

FromAgent Member::done() {
  CHECK(sealed_ && !join_);
  done_ = true;
  return Done{.round = sealed_->round};
}

FromAgent Member::leave(std::string why, bool close) {
  join_.reset();
  return Leave{.why = std::move(why), .close = close};
}

void Member::on_message(FromCoordinator message) {
  if (auto* sealed = std::get_if<Sealed>(&message)) {
    if (!join_) return;
    join_.reset();
    hello_.restarts = std::max(hello_.restarts, sealed->restart_count);
    progress_.reset();
    hello_.claim.held = rendezvous::HeldRank{
        .round = sealed->round, .rank = sealed->rank, .world_size = sealed->world_size};
    sealed_ = std::move(*sealed);
  } else if (auto* stop = std::get_if<Stop>(&message)) {
    hello_.restarts = std::max(hello_.restarts, stop->restart_count);
    if (stop->why == Stop::Why::RunFailed || stop->why == Stop::Why::Closed) end_ = *stop;
    if (!sealed_ || join_ || stop->round != sealed_->round) return;
    failed_.reset();
    if (!stop_) stop_ = std::move(*stop);
  } else if (std::holds_alternative<Welcome>(message)) {
    hello_.again = true;
  } else if (std::holds_alternative<Over>(message)) {
    over_ = true;
  } else if (auto* refused = std::get_if<Refused>(&message)) {
    // A refusal that does not last is followed by another try.
    if (refused->lasting) refused_ = std::move(*refused);
  } else if (auto* progress = std::get_if<Progress>(&message)) {
    if (join_) progress_ = std::move(*progress);
  }
}

}  // namespace regroup::core::coordinator
