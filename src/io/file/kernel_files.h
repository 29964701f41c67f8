// The small files in which the kernel tells of things and is told what to do: those of /proc, /sys
// and control groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace regroup::io {

// Empty: it cannot be read.
std::optional<std::string> read_text(const std::string& path);
// 0, or errno. One write, as the kernel wants it; never makes the file.
int write_text(const std::string& path, std::string_view text);

// The number behind a key, of lines like "oom_kill 3".
std::optional<std::uint64_t> number_of(std::string_view text, std::string_view key);

// Of a file that holds one number and nothing else.
std::optional<std::uint64_t> parse_number(std::string_view text);

bool has_word(std::string_view text, std::string_view word);  // Between blanks and line ends.

}  // namespace regroup::io
