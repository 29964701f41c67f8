#include "cli/show/torchrun_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <vector>

namespace regroup::cli {
namespace {

constexpr std::size_t kWidest = 60;
constexpr const char* kNotAvailable = "<N/A>";

std::string time_text(const ProcessFailure& failure) {
  std::time_t seconds = failure.time_micros / 1'000'000;
  if (failure.error && failure.error->timestamp) seconds = *failure.error->timestamp;
  std::tm local{};
  char text[64] = "";
  if (localtime_r(&seconds, &local) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d_%H:%M:%S", &local);
  return text;
}

std::string indented(const std::string& text) {
  std::string lines;
  for (const char c : text) lines += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return lines;
}

std::string message_of(const ProcessFailure& failure) {
  if (failure.error && failure.error->structured) {
    if (!failure.error->call_stack.empty()) return indented(failure.error->call_stack);
    return failure.error->message.empty() ? kNotAvailable : indented(failure.error->message);
  }
  if (failure.error && !failure.error->message.empty()) return failure.error->message;
  if (failure.exit_code < 0)
    return fmt::format("Signal {} ({}) received by PID {}", -failure.exit_code, failure.signal_name,
                       failure.pid);
  return "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html";
}

std::string entry(std::size_t index, const ProcessFailure& failure) {
  return fmt::format(
      "[{}]:\n"
      "  time      : {}\n"
      "  host      : {}\n"
      "  rank      : {} (local_rank: {})\n"
      "  exitcode  : {} (pid: {}) {}\n"
      "  error_file: {}\n"
      "  traceback : {}",
      index, time_text(failure), failure.host, failure.global_rank, failure.local_rank,
      failure.exit_code, failure.pid,
      failure.signal_name.empty() ? "" : " (" + failure.signal_name + ")",
      failure.error_file.empty() ? kNotAvailable : failure.error_file, message_of(failure));
}

// In characters, not in bytes.
std::size_t longest_line(std::string_view text) {
  std::size_t longest = 0;
  std::size_t length = 0;
  for (const char c : text) {
    if (c == '\n') length = 0;
    if (c != '\n' && (static_cast<unsigned char>(c) & 0xc0) != 0x80) ++length;
    longest = std::max(longest, length);
  }
  return longest;
}

// Workers that failed by themselves come first, then those that were stopped; each by local rank.
std::vector<ProcessFailure> in_order(const WorkersResult& result) {
  std::vector<ProcessFailure> failures = result.failures;
  std::erase_if(failures, [](const ProcessFailure& failure) { return failure.survived; });
  std::sort(failures.begin(), failures.end(), [](const ProcessFailure& a, const ProcessFailure& b) {
    return a.stopped_by_us != b.stopped_by_us ? b.stopped_by_us : a.local_rank < b.local_rank;
  });
  return failures;
}

}  // namespace

std::string torchrun_report(const std::string& name, const WorkersResult& result) {
  if (!result.cause) return "";
  const std::string title = name + " FAILED";
  std::size_t width = longest_line(title);
  std::string root;
  std::string others;
  const auto failures = in_order(result);
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const std::string text = entry(i, failures[i]);
    width = std::max(width, longest_line(text));
    if (failures[i].local_rank == result.cause->local_rank)
      root = text;
    else
      others += text + "\n";
  }
  width = std::min(width, kWidest);
  const std::string border(width, '=');
  const std::string rule(width, '-');
  return fmt::format(
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
      "{border}\n"
      "{title}\n"
      "{rule}\n"
      "Failures:\n"
      "{others}{rule}\n"
      "Root Cause (first observed failure):\n"
      "{root}\n"
      "{border}\n",
      fmt::arg("border", border), fmt::arg("title", title), fmt::arg("rule", rule),
      fmt::arg("others", others.empty() ? "  <NO_OTHER_FAILURES>\n" : others),
      fmt::arg("root", root));
}

}  // namespace regroup::cli
