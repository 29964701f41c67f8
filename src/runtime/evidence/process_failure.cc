#include "runtime/evidence/process_failure.h"

#include <fmt/core.h>

#include <csignal>

#include "io/process/signals.h"
#include "wire/text/traceback.h"

namespace regroup::runtime {
namespace {

using core::supervision::End;

std::string end_in_words(const EndedWorker& worker) {
  const auto end = worker.outcome.end;
  const auto& exit = worker.outcome.exit;
  if (end == End::Survived) return "cannot be killed";
  if (exit.signal == 0) return fmt::format("ended with exit code {}", exit.code);
  std::string text = "killed by " + io::signal_name(exit.signal);
  // "killed by SIGKILL (killed)" would say it twice.
  if (exit.signal != SIGKILL) text += " (" + io::signal_in_words(exit.signal) + ")";
  if (end == End::Stopped && exit.signal == worker.outcome.signalled) text += ", sent by us";
  return text;
}

}  // namespace

int python_exit_code(const core::supervision::Exit& exit) {
  return exit.signal != 0 ? -exit.signal : exit.code;
}

ProcessFailure failure_of(const EndedWorker& worker) {
  const auto& outcome = worker.outcome;
  ProcessFailure failure{.local_rank = worker.name.local_rank,
                         .global_rank = worker.name.global_rank,
                         .role = worker.name.role,
                         .host = worker.host,
                         .pid = worker.pid,
                         .exit_code = python_exit_code(outcome.exit),
                         .time_micros = worker.time_micros,
                         .stopped_by_us = outcome.end == End::Stopped,
                         .survived = outcome.end == End::Survived,
                         .message = end_in_words(worker)};
  if (outcome.exit.signal != 0) failure.signal_name = io::signal_name(outcome.exit.signal);
  return failure;
}

void explain(ProcessFailure& failure, const FailureFacts& facts) {
  failure.evidence = facts.evidence.lines;
  failure.out_of_memory = facts.evidence.out_of_memory != OutOfMemory::NoSign;
  failure.core_file = facts.evidence.core_file;
  failure.peak_rss_bytes = facts.evidence.peak_rss_bytes;
  failure.tail = facts.tail;
  failure.tail_of_both = facts.tail_of_both;
  if (!facts.error_file.empty()) {
    auto read = read_error_file(facts.error_file);
    if (!read) {
      failure.evidence.push_back("its error file cannot be read: " + read.error().message);
    } else if (*read) {
      failure.error_file = facts.error_file;
      failure.error = **read;
    }
  }
  if (failure.error && !failure.error->message.empty()) {
    failure.message = failure.error->message;
    failure.traceback = failure.error->call_stack;
  }
  if (failure.traceback.empty()) {
    const auto printed = wire::last_traceback(facts.tail);
    // A worker that we stopped may have failed before our signal came. One that the signal ended, or
    // that tells of it, has nothing else to tell.
    const bool is_of_our_signal =
        failure.stopped_by_us &&
        (!failure.signal_name.empty() || (printed && printed->last_line == "KeyboardInterrupt"));
    if (printed && !is_of_our_signal) {
      failure.traceback = printed->text;
      // A traceback says more than an exit code, but a signal has another cause.
      if (!failure.error && failure.signal_name.empty()) failure.message = printed->last_line;
    }
  }
}

void ended_for(ProcessFailure& failure, const std::string& why) {
  failure.message = why;
  failure.error_file.clear();
  failure.error.reset();
  failure.traceback.clear();
}

}  // namespace regroup::runtime
