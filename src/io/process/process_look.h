// What a running process is doing, as far as /proc shows it. Takes no lock of the process and does
// not stop it, so it also answers for one that hangs in the kernel.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "regroup/time.h"

namespace regroup::io {

struct ProcessLook {
  char state = '?';
  int threads = 0;
  std::string wait_channel;  // Where in the kernel it sleeps; empty: it does not, or unknown.
  std::string system_call;   // "read"; "system call 451" for the rarer ones; empty: in none.
  std::string call_target;   // What its first argument is open on, if that is a descriptor.
  std::string kernel_stack;  // Only root may know.
  std::uint64_t caught = 0;  // Bit n-1: it has a handler for signal n.
  bool catches(int signal) const { return (caught >> (signal - 1) & 1) != 0; }
};

// Of its main thread. Empty: there is no such process.
std::optional<ProcessLook> look_at(pid_t pid);

// How often its main thread has gone to sleep.
std::uint64_t times_asleep(pid_t pid);

// Whether one of its threads waits for a disk or a device, or is held by a tracer.
bool has_held_thread(pid_t pid);

// How many bytes of programs and libraries it has mapped. 0: there is no such process, or we may not
// know.
std::uint64_t mapped_code(pid_t pid);

// What it has used since its start.
struct ProcessUse {
  std::uint64_t read = 0;  // Bytes, by whatever means that the kernel counts: files, pipes.
  std::uint64_t written = 0;
  std::uint64_t on_disk = 0;  // Read from and written to disk, also through mappings.
  Duration cpu{};
};
// Bytes are 0 where we are not allowed to know.
std::optional<ProcessUse> use_of(pid_t pid);

}  // namespace regroup::io
