#include "cli/show/failure_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "base/headline.h"
#include "base/text.h"
#include "cli/flags/cli.h"
#include "regroup/error_file.h"

namespace regroup::cli {
namespace {

// How much of a worker's stderr a report shows. The rest is in the log file, if there is one.
constexpr int kTailLines = 20;
// The innermost frames of a stack tell the most.
constexpr int kStackLines = 16;
constexpr std::size_t kTailColumns = 400;
constexpr int kTracebackLines = 60;
constexpr std::size_t kWays = 10;  // How many kinds of other failures are listed.

std::string time_of_day(std::int64_t micros) {
  const std::time_t seconds = micros / 1'000'000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[16];
  std::strftime(text, sizeof text, "%H:%M:%S", &local);
  return text;
}

// Made safe for a terminal: without escape sequences, and no longer than a screen or two.
std::string printed(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    const bool begins_character = (byte & 0xc0) != 0x80;
    if (text.size() >= kTailColumns && begins_character) return text + "...";
    if (byte == 0x1b && i + 1 < line.size() && line[i + 1] == '[') {  // A colour, most likely.
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~')) ++i;
      continue;
    }
    if (byte == '\t' || (byte >= 0x20 && byte != 0x7f)) text += line[i];
  }
  return text;
}

// The last lines of a text, each indented, none longer than a screen or two.
std::string last_lines(std::string_view text, int most) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  std::string shown;
  const auto count = static_cast<std::ptrdiff_t>(lines.size());
  if (count > most) shown += fmt::format("    ... ({} lines before)\n", count - most);
  for (auto line = lines.end() - std::min<std::ptrdiff_t>(count, most); line != lines.end();
       ++line) {
    // Of a progress bar only its last state.
    const std::size_t carriage = line->find_last_of('\r');
    const auto visible = carriage == std::string_view::npos || carriage + 1 == line->size()
                             ? *line
                             : line->substr(carriage + 1);
    shown += "    " + printed(visible) + "\n";
  }
  return shown;
}

// The first lines of a text, each indented.
std::string first_lines(std::string_view text, int most) {
  std::string shown;
  for (; !text.empty() && most > 0; --most) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    shown += "    " + printed(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return text.empty() ? shown : shown + "    ...\n";
}

bool wrote_files(const WorkersResult& result) {
  return (result.cause && !result.cause->error_file.empty()) ||
         std::any_of(result.logs.workers.begin(), result.logs.workers.end(),
                     [](const WorkerRoutes& routes) {
                       return !routes.out.file.empty() || !routes.err.file.empty();
                     });
}

std::string cause_text(const ProcessFailure& cause, Paint paint) {
  std::string text = paint.cause("regroup: " + headline(cause.global_rank, cause.host,
                                                        first_line(cause.message))) +
                     "\n";
  if (names_nobody(cause.message)) {
    // What this one did is no more to the point than what any other did.
    return text + fmt::format("  rank {} (pid {}) was killed at {}, to end them all\n",
                              cause.global_rank, cause.pid, time_of_day(cause.time_micros));
  }
  text += fmt::format("  local rank {}, pid {}, at {}, {}\n", cause.local_rank, cause.pid,
                      time_of_day(cause.time_micros),
                      cause.signal_name.empty() ? fmt::format("exit code {}", cause.exit_code)
                                                : "killed by " + cause.signal_name);
  for (const std::string& line : cause.evidence) text += "  " + line + "\n";
  if (!cause.error_file.empty()) text += "  error file: " + cause.error_file + "\n";
  if (!cause.stack.empty())
    text += "  its Python stack, innermost first:\n" + first_lines(cause.stack, kStackLines);
  if (!cause.traceback.empty()) {
    text += last_lines(cause.traceback, kTracebackLines);
  } else if (cause.message.find('\n') != std::string::npos) {
    text += last_lines(cause.message, kTracebackLines);
  } else if (const std::string tail = last_lines(cause.tail, kTailLines); !tail.empty()) {
    text += std::string("  the last it wrote") + (cause.tail_of_both ? "" : " to stderr") + ":\n" +
            tail;
  }
  return text;
}

// Many failed alike: one line for each kind of failure.
std::string others_text(const WorkersResult& result) {
  std::map<std::string, std::vector<int>> alike;
  std::map<std::string, std::vector<int>> meanwhile;  // Stopped, with something to tell.
  std::vector<int> stopped;
  for (const ProcessFailure& failure : result.failures) {
    if (result.cause && failure.local_rank == result.cause->local_rank) continue;
    if (failure.survived) continue;  // Listed by themselves.
    if (failure.stopped_by_us && !failure.traceback.empty()) {
      meanwhile[first_line(failure.message)].push_back(failure.global_rank);
    } else if (failure.stopped_by_us) {
      stopped.push_back(failure.global_rank);
    } else {
      alike[first_line(failure.message)].push_back(failure.global_rank);
    }
  }
  std::string text;
  std::vector<int> otherwise;
  std::size_t ways = 0;
  const auto list = [&](const char* when, const std::map<std::string, std::vector<int>>& kinds) {
    for (const auto& [message, ranks] : kinds) {
      if (++ways <= kWays) {
        text += fmt::format("  {} failed {}: {}\n", ranks_in_words(ranks), when, message);
      } else {
        otherwise.insert(otherwise.end(), ranks.begin(), ranks.end());
      }
    }
  };
  list("after that", alike);
  list("as well", meanwhile);
  if (!otherwise.empty()) text += "  " + ranks_in_words(otherwise) + " failed in yet other ways\n";
  if (!stopped.empty())
    text += "  " + ranks_in_words(stopped) +
            (result.cause ? ": stopped because of it\n" : ": stopped\n");
  return text;
}

}  // namespace

std::string first_line(const std::string& text) { return printed(text.substr(0, text.find('\n'))); }

std::string logs_of(const WorkersResult& result) {
  return !result.succeeded && wrote_files(result) ? result.logs.directory : "";
}

std::string survivors_report(const WorkersResult& result) {
  if (result.survivors.empty()) return "";
  std::string text = fmt::format(
      "regroup: {} {} cannot be killed; this machine may need a look before it is used again\n",
      result.survivors.size(), result.survivors.size() == 1 ? "process" : "processes");
  for (const Survivor& survivor : result.survivors)
    text += fmt::format("  pid {} ({}), state {}{}\n", survivor.pid, survivor.name, survivor.state,
                        survivor.wait_channel.empty() ? "" : ", waits in " + survivor.wait_channel);
  return text;
}

std::string failure_report(const WorkersResult& result, const Started& started, Paint paint) {
  std::string text;
  if (result.cause) text += cause_text(*result.cause, paint);
  if (!result.where.empty()) text += "  before the end: " + result.where + "\n";
  if (result.cause) text += others_text(result);
  text += survivors_report(result);
  if (const std::string logs = logs_of(result); !logs.empty())
    text += (text.empty() ? "regroup: logs: " : "  logs: ") + logs + "\n";
  if (!result.stacks_file.empty()) text += "  stacks of all: " + result.stacks_file + "\n";
  if (result.cause)
    for (const std::string& line : advice_for(*result.cause, started))
      text += paint.hint("  what to try: " + line) + "\n";
  return text;
}

int exit_code_of(const ProcessFailure& cause) {
  // It was ended for what it did, and its own handler exited with 0.
  if (cause.exit_code == 0) return kFailed;
  return cause.exit_code < 0 ? 128 - cause.exit_code : cause.exit_code;
}

namespace {

Result<void> write_for_our_launcher(
    const std::function<Result<void>(const std::string& path)>& write) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == 0) return {};
  return write(path);
}

}  // namespace

Result<void> pass_on_error_file(const ProcessFailure& cause) {
  if (!cause.error) return {};
  return write_for_our_launcher([&](const std::string& path) {
    return copy_error_file(path, *cause.error, cause.exit_code);
  });
}

Result<void> leave_error_file(const std::string& message) {
  return write_for_our_launcher(
      [&](const std::string& path) { return write_error_file(path, {.message = message}); });
}

}  // namespace regroup::cli
