// What a person may try after a failure: a line or two, and only where the evidence is clear.
// Whoever guesses is not believed the next time.
#pragma once

#include <string>
#include <vector>

#include "regroup/workers.h"

namespace regroup::cli {

// What was started, for advice that has to name it. Empty where nobody knows.
struct Started {
  std::string interpreter = {};
  std::string directory = {};  // In which the workers were started.
};

// Sentences without a full stop; at most two, often none.
std::vector<std::string> advice_for(const ProcessFailure& failure, const Started& started = {});

}  // namespace regroup::cli
