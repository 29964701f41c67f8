#include <utility>

#include "regroup/store.h"

namespace regroup {
namespace {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> inner)
      : prefix_(std::move(prefix)), inner_(std::move(inner)) {}

  Result<void> set(std::string_view key, std::string_view value) override {
    return inner_->set(with_prefix(key), value);
  }
  Result<std::string> get(std::string_view key) override { return inner_->get(with_prefix(key)); }
  Result<std::int64_t> add(std::string_view key, std::int64_t delta) override {
    return inner_->add(with_prefix(key), delta);
  }
  Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired) override {
    return inner_->compare_set(with_prefix(key), expected, desired);
  }
  Result<bool> check(const Keys& keys) override { return inner_->check(with_prefix(keys)); }
  Result<void> wait(const Keys& keys, Duration limit) override {
    return inner_->wait(with_prefix(keys), limit);
  }
  Result<bool> delete_key(std::string_view key) override {
    return inner_->delete_key(with_prefix(key));
  }
  Result<std::int64_t> num_keys() override { return inner_->num_keys(); }
  Result<void> append(std::string_view key, std::string_view value) override {
    return inner_->append(with_prefix(key), value);
  }
  Result<std::vector<std::string>> multi_get(const Keys& keys) override {
    return inner_->multi_get(with_prefix(keys));
  }
  Result<void> multi_set(const Entries& entries) override {
    Entries prefixed;
    prefixed.reserve(entries.size());
    for (const auto& [key, value] : entries) prefixed.emplace_back(with_prefix(key), value);
    return inner_->multi_set(prefixed);
  }
  Result<void> queue_push(std::string_view key, std::string_view value) override {
    return inner_->queue_push(with_prefix(key), value);
  }
  Result<std::string> queue_pop(std::string_view key) override {
    return inner_->queue_pop(with_prefix(key));
  }
  Result<std::optional<std::string>> try_queue_pop(std::string_view key) override {
    return inner_->try_queue_pop(with_prefix(key));
  }
  Result<std::int64_t> queue_len(std::string_view key) override {
    return inner_->queue_len(with_prefix(key));
  }
  Result<std::vector<std::string>> list_keys() override {
    auto all = inner_->list_keys();
    if (!all) return all;
    const std::string front = with_prefix("");
    std::vector<std::string> mine;
    for (const std::string& key : *all)
      if (key.starts_with(front)) mine.push_back(key.substr(front.size()));
    return mine;
  }
  Result<void> barrier(std::string_view key, std::int64_t world_size, Duration limit) override {
    return inner_->barrier(with_prefix(key), world_size, limit);
  }
  Result<std::shared_ptr<Store>> clone() override {
    auto inner = inner_->clone();
    if (!inner) return inner;
    return make_prefix_store(prefix_, std::move(*inner));
  }
  Duration timeout() const override { return inner_->timeout(); }
  void set_timeout(Duration timeout) override { inner_->set_timeout(timeout); }

 private:
  std::string with_prefix(std::string_view key) const {
    std::string whole;
    whole.reserve(prefix_.size() + 1 + key.size());
    return whole.append(prefix_).append("/").append(key);
  }
  Keys with_prefix(const Keys& keys) const {
    Keys whole;
    whole.reserve(keys.size());
    for (const std::string& key : keys) whole.push_back(with_prefix(std::string_view(key)));
    return whole;
  }

  const std::string prefix_;
  const std::shared_ptr<Store> inner_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> inner) {
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(inner));
}

}  // namespace regroup
