// The store client for TCP: regroup's servers and PyTorch's own. For callers that have connected
// already, in their own way; all others use connect_tcp_store.
#pragma once

#include <cstdint>
#include <memory>

#include "regroup/store.h"
#include "runtime/store/store_channel.h"

namespace regroup::runtime {

// `options` say what each call may take, and where clone() connects to.
std::shared_ptr<Store> make_tcp_store(const TcpStoreOptions& options, StoreChannel channel);

// Adds to the number of workers that have announced themselves, under PyTorch's key for it, which
// no other call can reach; returns the sum. The store must be one of the above.
Result<std::int64_t> add_workers(Store& tcp_store, std::int64_t more);

}  // namespace regroup::runtime
