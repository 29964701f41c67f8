#include "runtime/output/log_pump_stream.h"

#include <utility>

#include "runtime/common/limits.h"

namespace regroup::runtime {
namespace {

using core::output::CutRules;

// Without a prefix, unfinished lines are shown after a while everywhere: it is what users would see
// without us. With one, only on a terminal: half a line is of no use in a log. Of a progress bar a
// log gets a state now and then.
CutRules rules_for(const StreamPlan& plan) {
  if (plan.screen != nullptr && plan.screen->is_terminal()) return {.quiet = 50ms, .bar = 0s};
  if (!plan.prefixed) return {.quiet = 100ms, .bar = 1s};
  return {.last_segment_only = true, .bar_state = plan.bar_state};
}

}  // namespace

PumpStream::PumpStream(StreamPlan plan, PumpTurn& turn)
    : plan_(std::move(plan)),
      turn_(turn),
      cutter_(rules_for(plan_)),
      filter_cutter_({.last_segment_only = true}) {}

bool PumpStream::watch(io::ReadySet& set) {
  if (!set.add(plan_.from.get(), EPOLLIN, *this)) return false;
  set_ = &set;
  return true;
}

void PumpStream::ready(std::uint32_t) { read_once(); }

bool PumpStream::read_once() {
  if (!is_open()) return false;
  const io::Got got = io::read_available(plan_.from.get(), turn_.buffer);
  if (got.bytes > 0) pass_on({turn_.buffer.data(), got.bytes});
  if (got.end) {
    finish_lines();
    close();
  }
  const bool full = got.bytes == turn_.buffer.size();
  turn_.hurry = turn_.hurry || full || got.bytes > plan_.capacity / 2;
  return full && !got.end;
}

void PumpStream::read_rest() {
  // A worker that writes without a pause must not keep us here.
  constexpr std::size_t kReads = 4 * kOutputPipe / kOutputRead;
  for (std::size_t i = 0; i < kReads && read_once(); ++i) {
  }
}

void PumpStream::pass_on(std::string_view bytes) {
  turn_.bytes += bytes.size();
  if (plan_.file) {
    const std::uint64_t before = plan_.file->lost_bytes();
    plan_.file->append(bytes);
    turn_.lost_bytes += plan_.file->lost_bytes() - before;
  }
  if (plan_.keeps_tail) {
    const std::lock_guard lock(tail_mutex_);
    tail_.add(bytes);
  }
  if (plan_.filtered != nullptr) copy(filter_cutter_.push(bytes, turn_.now));
  if (plan_.screen != nullptr) show(cutter_.push(bytes, turn_.now));
}

void PumpStream::expire() { show(cutter_.expire(turn_.now)); }

void PumpStream::finish_lines() {
  if (plan_.filtered != nullptr) copy(filter_cutter_.finish());
  show(cutter_.finish());
}

void PumpStream::close() {
  if (set_ != nullptr && is_open()) set_->remove(plan_.from.get(), *this);
  plan_.from.close();
}

void PumpStream::show(const core::output::Cuts& cuts) {
  if (plan_.screen == nullptr || cuts.empty()) return;
  const core::output::Source source{plan_.number, plan_.prefixed, plan_.prefix.at(turn_.time)};
  for (const std::string_view text : cuts) plan_.screen->show(source, text);
}

void PumpStream::copy(const core::output::Cuts& cuts) {
  const std::string_view prefix = plan_.prefix.at(turn_.time);
  for (const std::string_view text : cuts)
    core::output::append_lines(prefix, text, plan_.filtered->filters, plan_.filtered->pending);
}

std::string PumpStream::tail() const {
  const std::lock_guard lock(tail_mutex_);
  return tail_.text();
}

}  // namespace regroup::runtime
