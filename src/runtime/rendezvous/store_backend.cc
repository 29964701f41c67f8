// torchrun's c10d rendezvous backend: the run's state as base64 text under one key of a store.
#include <fmt/core.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/text.h"
#include "regroup/rendezvous_backend.h"
#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_keys.h"

namespace regroup {
namespace {

class StoreBackend final : public RendezvousBackend {
 public:
  StoreBackend(std::shared_ptr<Store> store, const std::string& run_id, StoreOpener reopen)
      : store_(std::move(store)),
        run_id_(run_id),
        key_(wire::state_key(run_id)),
        reopen_(std::move(reopen)) {}

  std::string name() const override { return "c10d"; }

  Result<void> make_key() {
    const auto made = noting_loss(store_->compare_set(key_, "", wire::kNoState));
    if (!made) return tl::unexpected(made.error());
    return {};
  }

  Result<std::optional<Present>> get_state() override {
    if (auto open = reopen_if_lost(); !open) return tl::unexpected(open.error());
    auto text = noting_loss(store_->get(key_));
    if (text) return decode(std::move(*text));
    // The key did not come: somebody has removed it. It is made again for the next call.
    if (text.error().kind == ErrorKind::Timeout) (void)make_key();
    return tl::unexpected(text.error());
  }

  Result<SetAnswer> set_state(std::string_view bytes,
                              const std::optional<std::string>& token) override {
    if (auto open = reopen_if_lost(); !open) return tl::unexpected(open.error());
    const std::string desired = wire::encode_base64(bytes);
    auto text = noting_loss(store_->compare_set(key_, token ? *token : wire::kNoState, desired));
    if (!text) return tl::unexpected(text.error());
    if (*text == desired) return SetAnswer{true, Present{std::string(bytes), std::move(*text)}};
    auto present = decode(std::move(*text));
    if (!present) return tl::unexpected(present.error());
    return SetAnswer{false, std::move(*present)};
  }

  void announce_left(std::string_view phase) override {
    if (!lost_) (void)noting_loss(store_->set(wire::left_key(run_id_, phase), "1"));
  }

  bool wait_until_left(std::string_view phase, Duration limit) override {
    const auto until = std::chrono::steady_clock::now() + limit;
    if (!lost_) {
      auto left = store_->wait({wire::left_key(run_id_, phase)}, limit);
      if (left) return true;
      // A limit that has passed is no loss here: the caller asked for it.
      if (left.error().kind != ErrorKind::Timeout) (void)noting_loss(std::move(left));
    }
    std::this_thread::sleep_until(until);
    return false;
  }

 private:
  template <class T>
  Result<T> noting_loss(Result<T> answer) {
    // Also when the limit has passed: a server that does not answer in time is gone or cut off, and
    // the connection is out of step for good. A new connection helps in every case.
    if (!answer && (reopen_ || answer.error().kind != ErrorKind::Timeout)) lost_ = true;
    return answer;
  }

  Result<void> reopen_if_lost() {
    if (!lost_ || !reopen_) return {};
    auto store = reopen_();
    if (!store) return tl::unexpected(store.error());
    store_ = std::move(*store);
    lost_ = false;
    return make_key();  // The host may have started again, with nothing in its store.
  }

  Result<std::optional<Present>> decode(std::string text) const {
    if (text == wire::kNoState) return std::nullopt;
    auto bytes = wire::decode_base64(text);
    if (!bytes)
      return fail(ErrorKind::Corrupt,
                  fmt::format("the key {} holds no rendezvous state: {}. It was left as it is; use "
                              "another run id, or delete the key if the run is over.",
                              printable(key_), bytes.error().message));
    return Present{std::move(*bytes), std::move(text)};
  }

  std::shared_ptr<Store> store_;
  const std::string run_id_;
  const std::string key_;
  const StoreOpener reopen_;
  bool lost_ = false;
};

}  // namespace

void RendezvousBackend::announce_left(std::string_view) {}

bool RendezvousBackend::wait_until_left(std::string_view, Duration limit) {
  std::this_thread::sleep_for(limit);
  return false;
}

Result<std::unique_ptr<RendezvousBackend>> make_store_backend(std::shared_ptr<Store> store,
                                                              const std::string& run_id,
                                                              StoreOpener reopen) {
  auto backend = std::make_unique<StoreBackend>(std::move(store), run_id, std::move(reopen));
  if (auto made = backend->make_key(); !made) return tl::unexpected(made.error());
  return backend;
}

}  // namespace regroup
