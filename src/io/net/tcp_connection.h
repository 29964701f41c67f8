// How the listener makes connections of accepted sockets. For this room alone.
#pragma once

#include <memory>

#include "io/loop/descriptor.h"
#include "io/loop/loop.h"
#include "io/net/address.h"
#include "io/net/connection.h"

namespace regroup::io {

std::shared_ptr<Connection> adopt_connection(Loop& loop, Descriptor socket, const Address& peer);

}  // namespace regroup::io
