#include "runtime/session/session_line.h"

#include "io/loop/clock.h"
#include "runtime/common/limits.h"
#include "wire/session/session.h"

namespace regroup::runtime {

using core::coordinator::FromAgent;
using core::coordinator::FromCoordinator;

void SessionLine::say(const FromAgent& message) {
  const std::lock_guard lock(mutex_);
  if (!introduced_) return meanwhile_.push_back(message);
  append(message);
  send();
}

void SessionLine::introduce(const std::vector<FromAgent>& introduction) {
  const std::lock_guard lock(mutex_);
  if (proofs_) proofs_->append_ours(out_);
  for (const FromAgent& message : introduction) append(message);
  for (const FromAgent& message : std::exchange(meanwhile_, {})) append(message);
  introduced_ = true;
  send();
}

void SessionLine::append(const FromAgent& message) {
  const std::size_t before = out_.size();
  wire::append_frame(out_, message);
  if (seals_) seals_->of_agent.seal(out_, before);
}

bool SessionLine::take_proof(const FromCoordinator& message) {
  if (!proofs_ || !proofs_->is_theirs(message)) return false;
  proofs_.reset();
  return true;
}

Result<std::size_t> SessionLine::receive(std::span<char> room, Instant deadline) {
  auto got = socket_.receive(room, deadline);
  if (got || got.error().kind == ErrorKind::Timeout) return got;
  // What ended it may have been our own writing.
  const std::lock_guard lock(mutex_);
  if (unsent_.empty()) return got;
  return fail(ErrorKind::Connection, unsent_);
}

void SessionLine::send() {
  if (unsent_.empty())
    if (auto sent = socket_.send(out_.view(), io::deadline_after(kSayLimit)); !sent) {
      unsent_ = "the coordinator does not take what is said: " + sent.error().message;
      // Whoever reads finds out, behind what has come already: it may say why.
      socket_.shut_down();
    }
  out_.clear();
}

}  // namespace regroup::runtime
