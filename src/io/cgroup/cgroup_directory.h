// Makes and removes directories of control groups.
#pragma once

#include <string>

#include "io/loop/descriptor.h"
#include "regroup/result.h"

namespace regroup::io {

// A new group. Where the name is taken it gets a number: "regroup-7.2". The error is of kind Io.
Result<std::string> make_group(const std::string& parent, const std::string& name);

// What dead launchers left beside our own group: named with this prefix, nobody lives in it, and
// nobody holds its lock.
void remove_abandoned_groups(const std::string& parent, const std::string& prefix);

// Says for as long as the descriptor is open that the group has an owner, even while it is empty.
// None: somebody else said so before, or it cannot be opened.
Descriptor lock_group(const std::string& directory);

// With all groups below. The kernel removes only what nobody lives in, so nothing can be lost;
// those who have just been killed are waited for a few milliseconds. False: it is still there.
bool remove_group(const std::string& directory);

}  // namespace regroup::io
