// Who listens on a port of this machine.
#pragma once

#include <cstdint>
#include <string>

namespace regroup::io {

// How a failure to bind says that a port is taken, as long as nobody has looked by whom.
inline constexpr const char* kTakenBySomebody =
    "the port is taken, perhaps by a server left from an earlier run";

// "python3 (pid 4711)"; empty if it cannot be told, as for processes of other users. Looks at the
// descriptors of every process, so it is for messages only.
std::string port_holder(std::uint16_t port);

// The message of a failure to bind, with the holder in the place of the guess.
std::string name_port_holder(std::string message, std::uint16_t port);

}  // namespace regroup::io
