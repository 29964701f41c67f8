// Where temporary files go.
#pragma once

#include <filesystem>

namespace regroup::runtime {

// The same places that Python looks at: TMPDIR, TEMP, TMP, /tmp and so on; the first that can be
// written to.
std::filesystem::path directory_for_temporaries();

}  // namespace regroup::runtime
