#include "io/process/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <unordered_map>

#include "base/text_parts.h"
#include "io/loop/descriptor.h"

namespace regroup::io {
namespace {

// The start of a small file of /proc; empty if it cannot be read. The view is into `buffer`.
template <std::size_t N>
std::string_view read_start(int directory, const char* path, std::array<char, N>& buffer) {
  const Descriptor fd(::openat(directory, path, O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  const ssize_t size = ::read(fd.get(), buffer.data(), buffer.size());
  return size > 0 ? std::string_view(buffer.data(), static_cast<std::size_t>(size))
                  : std::string_view();
}

// Takes the next field, up to a space or a line end.
std::string_view take_field(std::string_view& rest) {
  const auto from = rest.find_first_not_of(' ');
  if (from == std::string_view::npos) return rest = {};
  rest.remove_prefix(from);
  const std::string_view field = rest.substr(0, rest.find_first_of(" \n"));
  rest.remove_prefix(field.size());
  return field;
}

template <class T>
bool parse(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Large enough for every number of a stat line: the name is short, and 50 numbers have 20 digits.
using StatBuffer = std::array<char, 2048>;

enum class Verdict { Unknown, Asking, Stranger, Meant, Spared };

class Judge {
 public:
  Judge(const std::vector<ProcessInfo>& all, const Roots& roots) : all_(all), roots_(roots) {
    verdicts_.resize(all.size(), Verdict::Unknown);
    place_.reserve(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) place_.emplace(all[i].pid, i);
  }

  Verdict judge(std::size_t i) {
    if (verdicts_[i] == Verdict::Unknown) {
      // /proc is read over some time, in which a number may pass from one process to another: even
      // a cycle of parents is possible, and must not keep us for ever.
      verdicts_[i] = Verdict::Asking;
      verdicts_[i] = decide(all_[i]);
    }
    return verdicts_[i];
  }

 private:
  Verdict decide(const ProcessInfo& process) {
    if (roots_.spared.contains(process.pid)) return Verdict::Spared;
    if (roots_.reaper != 0 && process.pid == roots_.reaper) return Verdict::Stranger;
    if (roots_.marked.contains(process.pid)) return Verdict::Meant;
    // Leaders have a session of their own and cannot leave it. A process with a leader's number in
    // another session got the number later; so did a group of that number in another session.
    if (process.pid == process.session && roots_.leaders.contains(process.pid))
      return Verdict::Meant;
    const bool adopted = roots_.reaper != 0 && process.parent == roots_.reaper;
    if (!adopted) {
      const auto parent = place_.find(process.parent);
      const Verdict above = parent == place_.end() ? Verdict::Stranger : judge(parent->second);
      if (above == Verdict::Meant || above == Verdict::Spared) return above;
    }
    return adopted || roots_.leaders.contains(process.session) ? Verdict::Meant : Verdict::Stranger;
  }

  const std::vector<ProcessInfo>& all_;
  const Roots& roots_;
  std::vector<Verdict> verdicts_;
  std::unordered_map<pid_t, std::size_t> place_;
};

}  // namespace

std::optional<ProcessInfo> parse_process_stat(std::string_view line) {
  // The program chose its name, which may contain parentheses and spaces; only numbers follow it,
  // so the last parenthesis is the one that closes it.
  const auto open = line.find('(');
  const auto close = line.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
  ProcessInfo process;
  std::string_view before = line.substr(0, open);
  std::string_view rest = line.substr(close + 1);
  process.name = line.substr(open + 1, close - open - 1);
  const std::string_view state = take_field(rest);
  const bool good = parse(take_field(before), process.pid) && state.size() == 1 &&
                    parse(take_field(rest), process.parent) &&
                    parse(take_field(rest), process.group) &&
                    parse(take_field(rest), process.session);
  if (!good) return {};
  process.state = state[0];
  constexpr int kFieldsBeforeStart = 15;  // From tty_nr, the 7th, to itrealvalue, the 21st.
  for (int i = 0; i < kFieldsBeforeStart; ++i) take_field(rest);
  if (!parse(take_field(rest), process.start_time)) return {};
  return process;
}

std::optional<ProcessInfo> find_process(pid_t pid) {
  StatBuffer buffer;
  const std::string path = fmt::format("/proc/{}/stat", pid);
  return parse_process_stat(read_start(AT_FDCWD, path.c_str(), buffer));
}

std::vector<ProcessInfo> list_processes() {
  std::vector<ProcessInfo> all;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return all;
  const int directory = ::dirfd(proc);
  StatBuffer buffer;
  std::string path;
  while (const dirent* entry = ::readdir(proc)) {
    if (!is_all_digits(entry->d_name)) continue;
    path.assign(entry->d_name).append("/stat");
    if (auto process = parse_process_stat(read_start(directory, path.c_str(), buffer)))
      all.push_back(std::move(*process));
  }
  ::closedir(proc);
  return all;
}

bool has_in_environment(pid_t pid, std::string_view entry) {
  constexpr std::size_t kLongest = 1 << 20;  // What is behind that is not looked at.
  const Descriptor fd(::open(fmt::format("/proc/{}/environ", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || entry.empty()) return false;
  std::string text(1, '\0');  // Before the first, as between any two.
  std::array<char, 16 << 10> some;
  for (ssize_t size;
       text.size() < kLongest && (size = ::read(fd.get(), some.data(), some.size())) > 0;)
    text.append(some.data(), static_cast<std::size_t>(size));
  text += '\0';
  std::string whole(1, '\0');
  whole.append(entry).append(1, '\0');
  return text.find(whole) != std::string::npos;
}

std::optional<CommandLineArea> own_command_line() {
  StatBuffer buffer;
  const std::string_view line = read_start(AT_FDCWD, "/proc/self/stat", buffer);
  const auto close = line.rfind(')');
  if (close == std::string_view::npos) return {};
  std::string_view rest = line.substr(close + 1);
  constexpr int kFieldsBefore = 45;  // From the state, the 3rd, to start_brk, the 47th.
  for (int i = 0; i < kFieldsBefore; ++i) take_field(rest);
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  if (!parse(take_field(rest), begin) || !parse(take_field(rest), end) || begin == 0 ||
      end <= begin)
    return {};
  return CommandLineArea{begin, static_cast<std::size_t>(end - begin)};
}

std::string wait_channel(pid_t pid) {
  std::array<char, 256> buffer;
  const std::string path = fmt::format("/proc/{}/wchan", pid);
  const std::string_view channel = read_start(AT_FDCWD, path.c_str(), buffer);
  return channel == "0" ? "" : std::string(channel);
}

std::vector<ProcessInfo> belonging_to(const std::vector<ProcessInfo>& all, const Roots& roots) {
  Judge judge(all, roots);
  std::vector<ProcessInfo> meant;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool lives = all[i].state != 'Z' && all[i].state != 'X';
    if (lives && judge.judge(i) == Verdict::Meant) meant.push_back(all[i]);
  }
  return meant;
}

}  // namespace regroup::io
