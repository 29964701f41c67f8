// How sockets become connections on a loop: those that a listener has accepted, and those that a
// client has made.
#pragma once

#include <memory>

#include "io/loop/descriptor.h"
#include "io/loop/loop.h"
#include "io/net/address.h"
#include "io/net/client_socket.h"
#include "io/net/connection.h"

namespace regroup::io {

// For this room alone.
std::shared_ptr<Connection> adopt_connection(Loop& loop, Descriptor socket, const Address& peer);

// From now on it lives on the loop, and does not block.
std::shared_ptr<Connection> connection_of(Loop& loop, ClientSocket socket);

}  // namespace regroup::io
