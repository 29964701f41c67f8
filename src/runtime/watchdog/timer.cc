// The client side of the timers: what workers call.
#include "regroup/timer.h"

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <mutex>
#include <utility>

#include "io/file/fifo.h"
#include "io/loop/clock.h"
#include "runtime/common/limits.h"
#include "wire/text/timer_line.h"

namespace regroup {
namespace {

struct Configured {
  std::mutex mutex;
  std::shared_ptr<TimerClient> client;
};
// Never destroyed: guards may be destroyed at the very end of the program.
Configured& configured() {
  static auto* const the_one = new Configured;
  return *the_one;
}

Result<std::shared_ptr<TimerClient>> configured_client() {
  Configured& state = configured();
  const std::lock_guard lock(state.mutex);
  if (state.client == nullptr) {
    const char* path = ::getenv("TORCHELASTIC_TIMER_FILE");
    if (path == nullptr || *path == '\0')
      return fail(
          ErrorKind::InvalidArgument,
          "no timer can be set: no launcher watches over this process. Start it with 'regroup "
          "run --watchdog', or configure() a client.");
    state.client = std::make_shared<PipeTimerClient>(path);
  }
  return state.client;
}

double expiration_after(Duration after) {
  constexpr double kMicro = 1e-6;
  return std::max(0.0, static_cast<double>(io::utc_micros()) * kMicro +
                           static_cast<double>(after.count()) * 1e-9);
}

}  // namespace

PipeTimerClient::PipeTimerClient(std::string path, int signal)
    : path_(std::move(path)), signal_(signal) {}

Result<void> PipeTimerClient::acquire(const std::string& scope_id, double expiration_time) {
  return send({.worker_id = ::getpid(),
               .scope_id = scope_id,
               .expiration_time = expiration_time,
               .signal = signal_});
}

Result<void> PipeTimerClient::release(const std::string& scope_id) {
  return send({.worker_id = ::getpid(), .scope_id = scope_id, .expiration_time = -1, .signal = 0});
}

Result<void> PipeTimerClient::send(const TimerRequest& request) const {
  const std::string line = wire::encode_timer_line({.pid = request.worker_id,
                                                    .scope = request.scope_id,
                                                    .expiration = request.expiration_time,
                                                    .signal = request.signal});
  if (line.size() > wire::kWholeWrite)
    return fail(ErrorKind::InvalidArgument,
                fmt::format("the scope of a timer is too long: its line would have {} bytes, and a "
                            "pipe carries {} in one piece. Choose a shorter one.",
                            line.size(), wire::kWholeWrite));
  auto sent = io::write_to_fifo(path_, line, runtime::kTimerPatience);
  if (!sent)
    return fail(sent.error().kind, "cannot set or release a timer: " + sent.error().message);
  return {};
}

void configure(std::shared_ptr<TimerClient> client) {
  Configured& state = configured();
  const std::lock_guard lock(state.mutex);
  state.client = std::move(client);
}

ExpiresGuard::ExpiresGuard(std::shared_ptr<TimerClient> client, std::string scope)
    : client_(std::move(client)), scope_(std::move(scope)) {}

ExpiresGuard::~ExpiresGuard() {
  // If the server cannot be told, it cannot end us either.
  [[maybe_unused]] const auto ignored = release();
}

ExpiresGuard& ExpiresGuard::operator=(ExpiresGuard&& other) noexcept {
  if (this == &other) return *this;
  [[maybe_unused]] const auto ignored = release();
  client_ = std::move(other.client_);
  scope_ = std::move(other.scope_);
  return *this;
}

Result<void> ExpiresGuard::release() {
  const auto client = std::exchange(client_, nullptr);
  return client == nullptr ? Result<void>{} : client->release(scope_);
}

Result<ExpiresGuard> expires(Duration after, std::source_location here) {
  return expires(after, fmt::format("{}#{}", here.file_name(), here.line()));
}

Result<ExpiresGuard> expires(Duration after, std::shared_ptr<TimerClient> client,
                             std::source_location here) {
  return expires(after, fmt::format("{}#{}", here.file_name(), here.line()), std::move(client));
}

Result<ExpiresGuard> expires(Duration after, std::string scope,
                             std::shared_ptr<TimerClient> client) {
  if (client == nullptr) {
    auto found = configured_client();
    if (!found) return tl::unexpected(found.error());
    client = std::move(*found);
  }
  if (auto acquired = client->acquire(scope, expiration_after(after)); !acquired)
    return tl::unexpected(acquired.error());
  return ExpiresGuard(std::move(client), std::move(scope));
}

}  // namespace regroup
