// Closes the descriptors that a new process must not inherit. For this room alone.
#pragma once

namespace regroup::io {

enum class Closing { Now, OnExec };

// Every descriptor from `first` on. Async-signal-safe: made for the time between fork and exec,
// when no other thread opens any.
void close_descriptors_from(int first, Closing when);

// The same, for kernels before 5.11 and sandboxes without that call: one by one, those that /proc
// lists, or without /proc every number up to the limit.
void close_each_descriptor_from(int first, Closing when);

}  // namespace regroup::io
