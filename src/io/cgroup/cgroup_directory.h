// Makes and removes directories of control groups.
#pragma once

#include <string>

#include "io/loop/descriptor.h"
#include "regroup/result.h"

namespace regroup::io {

// A new group. Where the name is taken it gets a number: "regroup-7.2". The error is of kind Io.
Result<std::string> make_group(const std::string& parent, const std::string& name);

// Groups that dead launchers left beside our own: named with this prefix, without processes, and
// with no owner that holds the lock.
void remove_abandoned_groups(const std::string& parent, const std::string& prefix);

// Marks the group as owned for as long as the descriptor is open, even while it is empty. None:
// another process owns it, or it cannot be opened.
Descriptor lock_group(const std::string& directory);

// With all groups below. The kernel removes only groups without processes, so nothing can be lost;
// processes that have just been killed get a few milliseconds. False: it is still there.
bool remove_group(const std::string& directory);

}  // namespace regroup::io
