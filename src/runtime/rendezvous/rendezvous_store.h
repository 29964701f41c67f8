// Finds the store at the endpoint of a run, or hosts it.
//
// One of the nodes serves it, on the endpoint that all of them were given; no node needs to be told
// which. Both calls block the thread that makes them. What may hang (a name lookup, a connection to
// a machine that swallows packets) runs on a thread of its own, which is left to itself when the
// caller gives up.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/endpoint.h"
#include "regroup/rendezvous.h"
#include "regroup/result.h"
#include "regroup/store.h"
#include "regroup/time.h"

namespace regroup::runtime {

struct RendezvousStoreOptions {
  Endpoint endpoint = {};  // Port 0: any free port, for a host.
  // Empty: this machine hosts if the endpoint is one of its addresses and the port is free.
  std::optional<bool> is_host = {};
  std::string secret_file = {};     // Of the sessions with it, if this machine hosts; empty: none.
  std::string own_secret = {};      // The same, not from a file (StoreServerOptions); empty: none.
  std::string local_addr = {};      // The address to announce; empty: found.
  Duration connect_timeout = 600s;  // For resolving, connecting, and waiting for a host to appear.
  Duration read_timeout = 60s;      // For each call afterwards.
  // Is told what we wait for. May be empty.
  std::function<void(const std::string&)> on_status = {};
  // The same in few words, for a line that is always up to date. May be empty.
  std::function<void(const RendezvousWait&)> on_wait = {};
  // Once true: gives up within a quarter of a second.
  const std::atomic<bool>* cancelled = nullptr;
  const char* limit_name = "join_timeout";  // What users call connect_timeout.
  const char* host_advice =
      "Start the node that owns the endpoint, or pass is_host=true in --rdzv-conf on the node that "
      "is to host it.";
  Duration first_status = 5s;  // A shorter wait is not reported.
  Duration status_interval = 10s;
};

struct RendezvousStore {
  std::unique_ptr<StoreServer> server;  // Null: another process hosts it.
  std::shared_ptr<Store> store;
  Endpoint reached;            // Where the store is (the port that was really bound).
  std::string server_address;  // The address that was reached: needs no name service.
  std::string announced;       // This node's address as others can reach it.
};

// Who hosts: as is_host says, and then failing to bind is an error. Otherwise the first node that
// binds the endpoint, on a machine that owns it (localhost, this machine's name, or an address of
// one of its interfaces); bind() decides, so two nodes of one machine cannot both be host.
//
// What the host binds: a literal and localhost, just that; another name, all interfaces, because a
// machine's own name may mean 127.0.1.1 to itself and the real address to everybody else.
//
// What is announced, unless it is given: by a host, the address that it bound; by all others, and
// by a host that bound several, the address of the socket that reached the store. If that is
// loopback though the endpoint is not, the endpoint's host as it was typed. The name of an address
// is never looked up.
//
// A name that does not resolve, a refused connection, a network out of reach: tried again until
// connect_timeout, and each try decides again whether this machine hosts, because names and
// addresses may come late. ErrorKind::Timeout in the end; ErrorKind::Protocol at once if what
// listens there is no store; ErrorKind::Cancelled if told to stop.
Result<RendezvousStore> open_rendezvous_store(const RendezvousStoreOptions& options);

// The same store again after the connection was lost; never becomes host.
Result<std::shared_ptr<Store>> reopen_rendezvous_store(const Endpoint& reached,
                                                       const RendezvousStoreOptions& options);

}  // namespace regroup::runtime
