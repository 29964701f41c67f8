// What a person may try after a failure: a line or two, and only where the evidence is clear. A
// wrong guess costs the user's trust in the next one.
#pragma once

#include <string>
#include <vector>

#include "regroup/workers.h"

namespace regroup::cli {

// What was started, for advice that has to name it. Empty where it is not known.
struct Started {
  std::string interpreter = {};
  std::string directory = {};  // The directory in which the workers were started.
};

// Sentences without a full stop; at most two, often none.
std::vector<std::string> advice_for(const ProcessFailure& failure, const Started& started = {});

}  // namespace regroup::cli
