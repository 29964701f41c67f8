#include "wire/text/stack_dump.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "base/text_parts.h"

namespace regroup::wire {
namespace {

std::optional<int> number(std::string_view text) {
  const auto value = to_number<int>(text);
  return value >= 0 ? value : std::nullopt;
}

// `Thread 1234 (idle): "MainThread"`, `Thread 0x00007f12 [name] (most recent call first):`,
// `Current thread 0x00007f12 (most recent call first):`
std::optional<ThreadStack> thread_line(std::string_view line) {
  ThreadStack thread;
  constexpr std::string_view kCurrent = "Current thread 0x";
  if (line.starts_with(kCurrent)) {
    thread.current = true;
  } else if (!line.starts_with("Thread ")) {
    return {};
  }
  if (const std::size_t quote = line.find('"'); quote != std::string_view::npos) {
    thread.name = line.substr(quote + 1, line.rfind('"') - quote - 1);
    return thread;
  }
  if (line.find("(most recent call first)") == std::string_view::npos &&
      line.find_first_of("0123456789") != 7)
    return {};
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open != std::string_view::npos && close != std::string_view::npos && open < close)
    thread.name = line.substr(open + 1, close - open - 1);
  return thread;
}

// `    fetch (loader.py:12)`
std::optional<StackFrame> py_spy_frame(std::string_view line) {
  const std::string_view frame = trimmed(line, " \t\r");
  if (!frame.ends_with(')')) return {};
  const std::size_t open = frame.rfind(" (");
  const std::size_t colon = frame.rfind(':');
  if (open == std::string_view::npos || open == 0) return {};
  const std::string_view place = frame.substr(open + 2, frame.size() - open - 3);
  if (colon == std::string_view::npos || colon < open)  // Native frames may have no line.
    return StackFrame{std::string(frame.substr(0, open)), std::string(place), 0};
  const auto line_number = number(place.substr(place.rfind(':') + 1));
  if (!line_number) return {};
  return StackFrame{std::string(frame.substr(0, open)),
                    std::string(place.substr(0, place.rfind(':'))), *line_number};
}

// `  File "loader.py", line 12 in fetch`
std::optional<StackFrame> faulthandler_frame(std::string_view line) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = " in ";
  const std::string_view frame = trimmed(line, " \t\r");
  if (!frame.starts_with(kFile)) return {};
  const std::size_t after_file = frame.rfind(kLine);
  if (after_file == std::string_view::npos || after_file < kFile.size()) return {};
  const std::string_view rest = frame.substr(after_file + kLine.size());
  const std::size_t in = rest.find(kIn);
  if (in == std::string_view::npos) return {};
  const auto line_number = number(rest.substr(0, in));
  if (!line_number) return {};
  return StackFrame{std::string(rest.substr(in + kIn.size())),
                    std::string(frame.substr(kFile.size(), after_file - kFile.size())),
                    *line_number};
}

// Frames that wait for other ranks, by the names of torch.distributed.
bool is_collective(const StackFrame& frame) {
  static const std::set<std::string_view> names = {"all_gather",
                                                   "all_gather_coalesced",
                                                   "all_gather_into_tensor",
                                                   "all_gather_object",
                                                   "all_reduce",
                                                   "all_reduce_coalesced",
                                                   "all_to_all",
                                                   "all_to_all_single",
                                                   "barrier",
                                                   "batch_isend_irecv",
                                                   "broadcast",
                                                   "broadcast_object_list",
                                                   "destroy_process_group",
                                                   "gather",
                                                   "gather_object",
                                                   "init_process_group",
                                                   "monitored_barrier",
                                                   "new_group",
                                                   "recv",
                                                   "recv_object_list",
                                                   "reduce",
                                                   "reduce_scatter",
                                                   "reduce_scatter_tensor",
                                                   "scatter",
                                                   "scatter_object_list",
                                                   "send",
                                                   "send_object_list",
                                                   "wait"};
  // py-spy knows the class of a method: "Work.wait".
  const std::string_view function =
      std::string_view(frame.function).substr(frame.function.rfind('.') + 1);
  return frame.file.find("torch/distributed/") != std::string::npos && names.contains(function);
}

// The gradients of all ranks are exchanged inside it; Python shows no more of that.
bool is_backward(const StackFrame& frame) {
  return frame.file.find("torch/autograd/") != std::string::npos;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string place_of(const StackFrame& frame) {
  return fmt::format("{}:{} ({})", last_part(frame.file), frame.line, frame.function);
}

// A sleep, a file or a terminal. All else (a futex, a socket, a pipe) another rank may be behind.
bool waits_for_no_rank(const KernelView& kernel) {
  if (kernel.system_call == "sleep") return true;
  static constexpr std::string_view kFiles[] = {
      "folio_wait",          "fuse_",    "n_tty_read",  "nfs",
      "request_wait_answer", "rpc_wait", "wait_on_page"};
  return std::any_of(std::begin(kFiles), std::end(kFiles), [&](std::string_view channel) {
    return kernel.wait_channel.starts_with(channel);
  });
}

std::string state_in_words(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'D':
      return "waiting for a disk or a device";
    case 'T':
    case 't':
      return "suspended";
    default:
      return "asleep";
  }
}

}  // namespace

std::vector<ThreadStack> parse_stack_dump(std::string_view text) {
  std::vector<ThreadStack> threads;
  bool inside = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (auto thread = thread_line(line)) {
      if (threads.size() == kThreadsOfDump) break;
      threads.push_back(std::move(*thread));
      inside = true;
      continue;
    }
    if (!inside || (!line.starts_with(' ') && !line.starts_with('\t'))) {
      inside = inside && trimmed(line, " \t\r").empty();
      continue;
    }
    auto frame = faulthandler_frame(line);
    if (!frame) frame = py_spy_frame(line);
    if (frame && threads.back().frames.size() < kFramesOfThread)
      threads.back().frames.push_back(std::move(*frame));
  }
  return threads;
}

const ThreadStack* main_thread(const std::vector<ThreadStack>& threads) {
  const auto first = [&](auto is) -> const ThreadStack* {
    const auto found = std::find_if(threads.begin(), threads.end(), is);
    return found == threads.end() ? nullptr : &*found;
  };
  if (const auto* named = first(
          [](const ThreadStack& one) { return one.name == "MainThread" && !one.frames.empty(); }))
    return named;
  // The program's own outermost frame; a thread's is in threading.py.
  if (const auto* module = first([](const ThreadStack& one) {
        return !one.frames.empty() && one.frames.back().function == "<module>";
      }))
    return module;
  if (const auto* current =
          first([](const ThreadStack& one) { return one.current && !one.frames.empty(); }))
    return current;
  return first([](const ThreadStack& one) { return !one.frames.empty(); });
}

Whereabouts whereabouts(const ThreadStack* stack, const KernelView& kernel) {
  const std::string call = kernel.system_call.empty()
                               ? state_in_words(kernel.state)
                               : "in " + std::string(kernel.system_call) + "()";
  using core::hang::Alone;
  const Alone alone = waits_for_no_rank(kernel) ? Alone::IfStill : Alone::Unknown;
  if (stack == nullptr || stack->frames.empty()) return {call, false, alone};
  const auto& frames = stack->frames;
  if (const auto found = std::find_if(frames.begin(), frames.end(), is_collective);
      found != frames.end())
    return {"in " + found->function, true};
  if (is_backward(frames.front())) return {"in the backward pass", true};
  const bool loading = std::any_of(frames.begin(), frames.end(), [](const StackFrame& frame) {
    return frame.file.ends_with("torch/utils/data/dataloader.py");
  });
  // The DataLoader wakes up now and then to see whether its own processes are alive.
  return {
      fmt::format("{} at {}{}", call, place_of(frames.front()), loading ? " under DataLoader" : ""),
      false, loading ? Alone::Certain : alone};
}

namespace {

// Behind the number of a rank, in a line of its own.
constexpr std::string_view kAlone = "alone";
constexpr std::string_view kBusy = "busy";

}  // namespace

std::string encode_ranks(const std::vector<RankAt>& ranks) {
  std::string text;
  for (const auto& [rank, at] : ranks) {
    text += fmt::format("{}{}{}\n", rank, at.collective ? " waits " : " is ", at.words);
    if (at.alone == core::hang::Alone::Certain) text += fmt::format("{} {}\n", rank, kAlone);
    if (at.busy) text += fmt::format("{} {}\n", rank, kBusy);
  }
  return text;
}

std::vector<RankAt> decode_ranks(std::string_view text) {
  constexpr std::string_view kWaits = "waits ";
  constexpr std::string_view kIs = "is ";
  std::vector<RankAt> ranks;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const auto rank = number(line.substr(0, space));
    line.remove_prefix(space + 1);
    const bool collective = line.starts_with(kWaits);
    if (rank && !ranks.empty() && ranks.back().rank == *rank) {
      if (line == kAlone) ranks.back().at.alone = core::hang::Alone::Certain;
      if (line == kBusy) ranks.back().at.busy = true;
    }
    if (!rank || (!collective && !line.starts_with(kIs))) continue;
    ranks.push_back(
        {*rank, {std::string(line.substr((collective ? kWaits : kIs).size())), collective}});
  }
  return ranks;
}

std::string stack_lines(const ThreadStack& stack) {
  std::string text;
  for (const StackFrame& frame : stack.frames)
    text += fmt::format("{}:{} in {}\n", frame.file, frame.line, frame.function);
  return text;
}

}  // namespace regroup::wire
