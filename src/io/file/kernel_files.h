// The small files by which the kernel reports and is configured: those of /proc, /sys and control
// groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace regroup::io {

// Empty: it cannot be read.
std::optional<std::string> read_text(const std::string& path);
// 0, or errno. One write, as the kernel wants it; never creates the file.
int write_text(const std::string& path, std::string_view text);

// The number after a key, in lines like "oom_kill 3".
std::optional<std::uint64_t> number_of(std::string_view text, std::string_view key);

// For a file that holds one number and nothing else.
std::optional<std::uint64_t> parse_number(std::string_view text);

// As a whole word, between blanks and line ends.
bool has_word(std::string_view text, std::string_view word);

}  // namespace regroup::io
