// The public store server: a host, its loop, and the thread they live on.
#include <future>
#include <system_error>
#include <thread>
#include <type_traits>

#include "io/loop/loop.h"
#include "io/loop/thread_name.h"
#include "regroup/store.h"
#include "runtime/coordinator/coordinator_host.h"
#include "runtime/session/session_secret.h"
#include "runtime/store/store_host.h"

namespace regroup {
namespace {

class ThreadedServer final : public StoreServer {
 public:
  ~ThreadedServer() override {
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
  }

  Result<void> start(const StoreServerOptions& options) {
    auto loop = io::Loop::open({.linger = runtime::kStoreLinger});
    if (!loop) return tl::unexpected(loop.error());
    loop_ = std::move(*loop);
    runtime::StoreHostOptions served{
        .host = options.host, .port = options.port, .coordinator = options.coordinator};
    if (!options.secret_file.empty()) {
      if (!options.coordinator)
        return fail(ErrorKind::InvalidArgument,
                    "a secret is for sessions with a coordinator; a plain store has none");
      auto secret = runtime::Secret::read(options.secret_file);
      if (!secret) return tl::unexpected(secret.error());
      served.secret = std::make_shared<const runtime::Secret>(std::move(*secret));
    }
    auto host = runtime::StoreHost::open(*loop_, served);
    if (!host) return tl::unexpected(host.error());
    host_ = std::move(*host);
    try {
      thread_ = std::thread([this] {
        io::name_this_thread("store");
        loop_->run();
      });
    } catch (const std::system_error& error) {
      return fail(ErrorKind::Io, std::string("no thread for a store server: ") + error.what());
    }
    return {};
  }

  std::uint16_t port() const override { return host_->port(); }

  void clear() override {
    on_loop([this] {
      host_->clear();
      return 0;
    });
  }

  std::size_t sessions() override {
    return on_loop([this] {
      const auto* coordinator = host_->coordinator();
      return coordinator == nullptr ? std::size_t{0} : coordinator->presence().nodes;
    });
  }

 private:
  template <class Task>
  std::invoke_result_t<Task> on_loop(Task task) {
    // Shared: the caller may be gone before set_value() has returned.
    auto done = std::make_shared<std::promise<std::invoke_result_t<Task>>>();
    auto answer = done->get_future();
    loop_->post([task, done] { done->set_value(task()); });
    return answer.get();
  }

  std::unique_ptr<io::Loop> loop_;
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
