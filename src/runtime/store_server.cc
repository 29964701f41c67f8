// The public store server: a host, its loop, and the thread they live on.
#include <thread>

#include "io/loop.h"
#include "regroup/store.h"
#include "runtime/store_host.h"

namespace regroup {
namespace {

class ThreadedServer final : public StoreServer {
 public:
  ~ThreadedServer() override {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Result<void> start(const StoreServerOptions& options) {
    auto host = runtime::StoreHost::open(loop_, {.host = options.host, .port = options.port});
    if (!host) return tl::unexpected(host.error());
    host_ = std::move(*host);
    thread_ = std::thread([this] { loop_.run(); });
    return {};
  }

  std::uint16_t port() const override { return host_->port(); }

 private:
  io::Loop loop_{{.linger = runtime::kStoreLinger}};
  std::unique_ptr<runtime::StoreHost> host_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::start(const StoreServerOptions& options) {
  auto server = std::make_unique<ThreadedServer>();
  if (auto started = server->start(options); !started) return tl::unexpected(started.error());
  return server;
}

}  // namespace regroup
