#include "io/process/process_path.h"

namespace regroup::io {

std::string_view search_path(const std::vector<std::string>& environment) {
  constexpr std::string_view kName = "PATH=";
  for (const std::string& line : environment)
    if (line.starts_with(kName)) return std::string_view(line).substr(kName.size());
  return "/bin:/usr/bin";
}

std::vector<std::string> program_candidates(std::string_view program, std::string_view path) {
  if (program.empty() || program.find('/') != std::string_view::npos) return {std::string(program)};
  std::vector<std::string> candidates;
  for (;;) {
    const auto colon = path.find(':');
    const std::string_view folder = path.substr(0, colon);
    std::string candidate(folder.empty() ? std::string_view(".") : folder);
    if (candidate.back() != '/') candidate += '/';
    candidates.push_back(candidate.append(program));
    if (colon == std::string_view::npos) return candidates;
    path.remove_prefix(colon + 1);
  }
}

}  // namespace regroup::io
