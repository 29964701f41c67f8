#include "runtime/evidence/evidence_core.h"

#include <fmt/core.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <vector>

namespace regroup::runtime {
namespace {

struct Word {
  std::string text;
  bool sure = true;
};

Word unknown() { return {.text = "*", .sure = false}; }

// What stands for "%x". A %x that the kernel does not know is left out.
Word word_for(char letter, const CoreOf& of) {
  // As the kernel cuts the name of a process. PyTorch, for one, renames its main thread.
  constexpr std::size_t kNameLength = 15;
  switch (letter) {
    case '%':
      return {"%"};
    case 'p':
      return {std::to_string(of.pid)};
    case 'P':
      return of.kernel_pid ? Word{std::to_string(*of.kernel_pid)} : unknown();
    case 's':
      return {std::to_string(of.signal)};
    case 'u':
      return {std::to_string(of.user)};
    case 'g':
      return {std::to_string(of.group)};
    case 'h':
      return {of.host};
    case 'e':
      return of.program.empty() ? unknown()
                                : Word{.text = of.program.substr(0, kNameLength), .sure = false};
    case 'd':
      return {.text = "1", .sure = false};
    case 'i':  // The thread, counted as %p.
    case 'I':  // The thread, counted as %P.
    case 'E':  // The path of the program, with ! for /.
    case 'f':  // Its last part; of a script that is its interpreter.
    case 't':  // When.
    case 'c':  // The limit of its size.
    case 'C':  // The processor.
      return unknown();
    default:
      return {""};
  }
}

std::string escaped_for_glob(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

CorePlace core_place(const CorePattern& pattern, const CoreOf& of) {
  std::string_view text = pattern.text;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (text.starts_with('|')) {
    text.remove_prefix(1);
    while (text.starts_with(' ')) text.remove_prefix(1);
    text = text.substr(0, text.find(' '));
    return {.handler = std::string(text.substr(text.rfind('/') + 1)), .expected = {}, .glob = {}};
  }
  CorePlace place;
  const auto add = [&place](const Word& word) {
    place.expected += word.text;
    place.glob += word.sure ? escaped_for_glob(word.text) : "*";
  };
  if (!text.starts_with('/') && !of.directory.empty()) add({of.directory + "/"});
  // An empty pattern with core_uses_pid gives ".<pid>", and without it nothing at all.
  bool has_pid = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      add({std::string(1, text[i])});
    } else if (++i < text.size()) {
      has_pid = has_pid || text[i] == 'p';
      add(word_for(text[i], of));
    }
  }
  if (pattern.uses_pid && !has_pid) add({fmt::format(".{}", of.pid)});
  return place;
}

std::optional<CoreFile> find_core(const std::string& pattern, std::int64_t not_before_wall_micros) {
  glob_t found{};
  std::optional<CoreFile> newest;
  timespec newest_time{};
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      struct stat about {};
      if (::stat(found.gl_pathv[i], &about) != 0 || !S_ISREG(about.st_mode)) continue;
      const timespec time = about.st_mtim;
      // A second of slack: file systems keep coarser times than clocks do.
      if (time.tv_sec + 1 < not_before_wall_micros / 1'000'000) continue;
      if (newest && (time.tv_sec < newest_time.tv_sec ||
                     (time.tv_sec == newest_time.tv_sec && time.tv_nsec < newest_time.tv_nsec)))
        continue;
      newest =
          CoreFile{.path = found.gl_pathv[i], .bytes = static_cast<std::uint64_t>(about.st_size)};
      newest_time = time;
    }
  }
  ::globfree(&found);
  return newest;
}

bool makes_core(int signal) {
  static const std::vector<int> all{SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,
                                    SIGFPE,  SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS};
  return std::find(all.begin(), all.end(), signal) != all.end();
}

}  // namespace regroup::runtime
