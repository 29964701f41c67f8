// A terminal for a worker whose output we pass on to ours, so that it still sees one: colours,
// progress bars, unbuffered lines.
#pragma once

#include "io/file/pipe.h"
#include "regroup/result.h"

namespace regroup::io {

struct PseudoTerminal {
  Descriptor master;  // Ours, to read from; does not block.
  Descriptor slave;   // The worker's. Never a controlling terminal: Ctrl-C stays with ours.
};

// Bytes come through unchanged, nothing is echoed, and the window is as large as that of `like`.
// Fails where the system has no terminal left; the caller then uses a pipe.
Result<PseudoTerminal> make_pseudo_terminal(int like);

// The window of `to` becomes as large as that of `from`, if both are terminals.
void copy_window_size(int from, int to);

// How many columns the window of this terminal has; 0: unknown.
int window_columns(int fd);

}  // namespace regroup::io
