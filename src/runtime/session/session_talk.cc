#include "runtime/session/session_talk.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "wire/session/session.h"

namespace regroup::runtime {

using namespace core::coordinator;

SessionTalk::SessionTalk(std::optional<SessionProofs> proofs, std::optional<FrameSeals> seals,
                         const Settings& settings, Instant now)
    : proofs_(proofs),
      seals_(seals),
      pulse_(settings.heartbeat_limit, now),
      served_(settings.was_served) {}

void SessionTalk::introduce(const std::vector<FromAgent>& introduction, ByteBuffer& out) {
  if (proofs_) proofs_->append_ours(out);
  for (const FromAgent& message : introduction) say(message, out);
}

void SessionTalk::say(const FromAgent& message, ByteBuffer& out) {
  const std::size_t before = out.size();
  wire::append_frame(out, message);
  if (seals_) seals_->of_agent.seal(out, before);
}

std::uint64_t SessionTalk::ping(ByteBuffer& out) {
  say(Ping{++pings_}, out);
  return pings_;
}

SessionTalk::Heard SessionTalk::hear(ByteBuffer& in, Instant now) {
  Heard heard;
  while (!heard.end) {
    auto frame = reader_.next(in, {.sealer = seals_ && !proofs_ ? &seals_->of_coordinator : nullptr,
                                   .from_stranger = proofs_.has_value()});
    if (std::holds_alternative<wire::NeedMore>(frame)) break;
    if (std::holds_alternative<wire::SkippedFrame>(frame)) continue;
    if (const auto* wrong = std::get_if<wire::Malformed>(&frame)) {
      if (proofs_)
        end_unproven(heard);
      else
        heard.end =
            TalkEnd{.why = "the coordinator said what cannot be understood: " + wrong->reason,
                    .nonsense = true};
      break;
    }
    hear(std::move(std::get<wire::WholeFrame<FromCoordinator>>(frame).message), heard);
  }
  // What a server says before it has proven itself is no sign of life of the coordinator.
  if (!proofs_) pulse_.heard(now);
  return heard;
}

void SessionTalk::hear(FromCoordinator message, Heard& heard) {
  if (const auto* refused = std::get_if<Refused>(&message)) {
    const std::string why = "the coordinator refused: " + refused->why;
    const bool is_believed = !proofs_ || !served_;
    heard.end = TalkEnd{.why = why, .refused = is_believed && refused->lasting};
    if (is_believed) heard.messages.push_back(std::move(message));
    return;
  }
  if (proofs_) {
    if (!proofs_->is_theirs(message)) return end_unproven(heard);
    proofs_.reset();
    return;
  }
  if (const auto* pong = std::get_if<Pong>(&message)) {
    if (pong->number <= pings_) answered_ = std::max(answered_, pong->number);
    return;
  }
  served_ = served_here_ = true;
  if (const auto* welcome = std::get_if<Welcome>(&message))
    pulse_.set_limit(welcome->rules.heartbeat_limit);
  heard.messages.push_back(std::move(message));
}

void SessionTalk::end_unproven(Heard& heard) const {
  if (!served_) heard.messages.emplace_back(Refused{.why = kNotProven, .lasting = true});
  heard.end = TalkEnd{.why = kNotProven, .refused = !served_};
}

std::optional<TalkEnd> SessionTalk::on_time(Instant now, ByteBuffer& out) {
  switch (pulse_.look(now)) {
    case Pulse::Due::Nothing:
      break;
    case Pulse::Due::Ping:
      ping(out);
      break;
    case Pulse::Due::Lost:
      return TalkEnd{.why = "the coordinator is silent"};
  }
  return std::nullopt;
}

}  // namespace regroup::runtime
