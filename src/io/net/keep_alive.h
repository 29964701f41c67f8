// A peer whose machine has vanished says nothing, for ever: the kernel asks it now and then.
#pragma once

namespace regroup::io {

// Two minutes of silence, with four questions in the second of them, and the connection is lost.
void keep_alive(int fd);

}  // namespace regroup::io
