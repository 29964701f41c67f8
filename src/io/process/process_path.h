// Where a program may be found. For this room alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace regroup::io {

// The PATH of "NAME=value" lines; without one, where the system keeps its programs.
std::string_view search_path(const std::vector<std::string>& environment);

// What to try for `program`, in this order: itself if it contains a slash, else one file for every
// directory of the path. An empty directory in it means the working directory.
std::vector<std::string> program_candidates(std::string_view program, std::string_view path);

}  // namespace regroup::io
