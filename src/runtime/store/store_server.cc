// The public store server: a host on the thread that all servers of the process share.
#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "io/loop/loop.h"
#include "io/loop/thread_name.h"
#include "regroup/store.h"
#include "runtime/coordinator/coordinator_host.h"
#include "runtime/session/session_secret.h"
#include "runtime/store/store_host.h"

namespace regroup {
namespace {

// A node may serve two stores, that of the rendezvous and that of its workers. Neither needs a
// thread of its own: a request takes microseconds, and nothing that a store does ever waits.
class ServerThread {
 public:
  // The one thread of the process for this. It ends with its last server.
  static Result<std::shared_ptr<ServerThread>> get() {
    static std::mutex mutex;
    static std::weak_ptr<ServerThread> current;
    const std::lock_guard lock(mutex);
    if (auto there = current.lock()) return there;
    auto loop = io::Loop::open({.linger = runtime::kStoreLinger});
    if (!loop) return tl::unexpected(loop.error());
    try {
      auto started = std::make_shared<ServerThread>(std::move(*loop));
      current = started;
      return started;
    } catch (const std::system_error& error) {
      return fail(ErrorKind::Io, std::string("no thread for a store server: ") + error.what());
    }
  }

  explicit ServerThread(std::unique_ptr<io::Loop> loop)
      : loop_(std::move(loop)), thread_([this] {
          io::name_this_thread("store");
          loop_->run();
        }) {}
  ~ServerThread() {
    loop_->stop();
    thread_.join();
  }
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;

  io::Loop& loop() { return *loop_; }

  // From any thread but its own; returns when it is done.
  template <class Task>
  std::invoke_result_t<Task> run(Task task) {
    // Shared: the caller may be gone before set_value() has returned.
    auto done = std::make_shared<std::promise<std::invoke_result_t<Task>>>();
    auto answer = done->get_future();
    loop_->post([task = std::move(task), done]() mutable { done->set_value(task()); });
    return answer.get();
  }

 private:
  std::unique_ptr<io::Loop> loop_;
  std::thread thread_;
};

class ThreadedServer final : public StoreServer {
 public:
  ~ThreadedServer() override {
    if (host_ == nullptr) return;
    thread_->run([this] {
      host_.reset();
      return 0;
    });
  }

  Result<void> start(const StoreServerOptions& options) {
    runtime::StoreHostOptions served{.host = options.host,
                                     .port = options.port,
                                     .reserved_descriptors = runtime::kReservedDescriptors,
                                     .coordinator = options.coordinator};
    if (!options.secret_file.empty()) {
      if (!options.coordinator)
        return fail(ErrorKind::InvalidArgument,
                    "a secret is for sessions with a coordinator; a plain store has none");
      auto secret = runtime::Secret::read(options.secret_file);
      if (!secret) return tl::unexpected(secret.error());
      served.secret = std::make_shared<const runtime::Secret>(std::move(*secret));
    }
    if (!options.own_secret.empty())
      served.secret = std::make_shared<const runtime::Secret>(
          runtime::Secret::of_this_process(options.own_secret));
    auto thread = ServerThread::get();
    if (!thread) return tl::unexpected(thread.error());
    thread_ = std::move(*thread);
    return thread_->run([this, &served]() -> Result<void> {
      auto host = runtime::StoreHost::open(thread_->loop(), served);
      if (!host) return tl::unexpected(host.error());
      host_ = std::move(*host);
      return {};
    });
  }

  std::uint16_t port() const override { return host_->port(); }

  void clear() override {
    thread_->run([this] {
      host_->clear();
      return 0;
    });
  }

  std::size_t sessions() override {
    return thread_->run([this] {
      const auto* coordinator = host_->coordinator();
      return coordinator == nullptr ? std::size_t{0} : coordinator->presence().nodes;
    });
  }

 private:
  std::shared_ptr<ServerThread> thread_;
  std::unique_ptr<runtime::StoreHost> host_;
};

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::start(const StoreServerOptions& options) {
  auto server = std::make_unique<ThreadedServer>();
  if (auto started = server->start(options); !started) return tl::unexpected(started.error());
  return server;
}

}  // namespace regroup
