// How the listener makes connections of accepted sockets. For this room alone.
#pragma once

#include <memory>

#include "io/loop/loop.h"
#include "io/net/address.h"
#include "io/net/connection.h"

namespace regroup::io {

// Takes over the descriptor.
std::shared_ptr<Connection> adopt_connection(Loop& loop, int fd, const Address& peer);

}  // namespace regroup::io
