// A store in a file that PyTorch's FileStore objects share. See wire/file_log.h for its format.
#include <fmt/core.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "core/store/number.h"
#include "io/file/locked_file.h"
#include "io/loop/clock.h"
#include "regroup/store.h"
#include "wire/store/file_log.h"

namespace regroup {
namespace {

using core::store::add_wrapping;
using core::store::parse_number;

constexpr std::string_view kObjects = "refcount/";   // How many objects are open,
constexpr std::string_view kDestroyed = "cleanup/";  // and how many have been destroyed.
constexpr Duration kLook = 10ms;                     // Between two looks of a waiting call.

std::string in_file(std::string_view key) { return "/" + std::string(key); }

class FileStore final : public Store {
 public:
  explicit FileStore(FileStoreOptions options)
      : options_(std::move(options)), timeout_(options_.timeout) {}

  ~FileStore() override {
    if (!registered_) return;
    const std::lock_guard lock(mutex_);
    auto file = sync(io::Lock::Exclusive);
    if (!file) return;
    const auto finished = count(*file, kDestroyed, 1);
    const auto left = count(*file, kObjects, -1);
    if (!finished || !left || !options_.world_size) return;
    if (*finished >= *options_.world_size && *left <= 0) [[maybe_unused]]
      const auto removed = io::remove_file(options_.path);
  }

  Result<void> enter() {
    const std::lock_guard lock(mutex_);
    auto file = sync(io::Lock::Exclusive);
    if (!file) return tl::unexpected(file.error());
    if (auto counted = count(*file, kObjects, 1); !counted) return tl::unexpected(counted.error());
    registered_ = true;
    return {};
  }

  Result<void> set(std::string_view key, std::string_view value) override {
    return multi_set({{std::string(key), std::string(value)}});
  }

  Result<std::string> get(std::string_view key) override {
    auto values = multi_get({std::string(key)});
    if (!values) return tl::unexpected(values.error());
    return std::move(values->front());
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t delta) override {
    const std::lock_guard lock(mutex_);
    auto file = sync(io::Lock::Exclusive);
    if (!file) return tl::unexpected(file.error());
    return count(*file, in_file(key), delta);
  }

  Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired) override {
    const std::lock_guard lock(mutex_);
    auto file = sync(io::Lock::Exclusive);
    if (!file) return tl::unexpected(file.error());
    const std::string k = in_file(key);
    const auto present = values_.find(k);
    const bool missing = present == values_.end();
    if (missing ? !expected.empty() : present->second != expected)
      return std::string(missing ? expected : present->second);
    if (auto put = write(*file, k, desired); !put) return tl::unexpected(put.error());
    return std::string(desired);
  }

  Result<bool> check(const Keys& keys) override {
    return check_by(keys, io::deadline_after(timeout_));
  }

  Result<void> wait(const Keys& keys, Duration limit) override {
    const Instant deadline = io::deadline_after(limit);
    for (;;) {
      auto there = check_by(keys, deadline);
      if (!there) return tl::unexpected(there.error());
      if (*there) return {};
      if (io::now() >= deadline)
        return fail(ErrorKind::Timeout,
                    fmt::format("wait for '{}' in {}: the time limit passed",
                                keys.empty() ? "" : keys.front(), options_.path));
      std::this_thread::sleep_for(kLook);
    }
  }

  Result<bool> delete_key(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    auto file = sync(io::Lock::Exclusive);
    if (!file) return tl::unexpected(file.error());
    const std::string k = in_file(key);
    ByteBuffer record;
    wire::append_file_deletion(record, k);
    if (auto put = append(*file, record); !put) return tl::unexpected(put.error());
    return values_.erase(k) != 0;
  }

  Result<std::int64_t> num_keys() override {
    const std::lock_guard lock(mutex_);
    if (auto file = sync(io::Lock::Shared); !file) return tl::unexpected(file.error());
    return static_cast<std::int64_t>(values_.size());
  }

  Result<void> append(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    auto file = sync(io::Lock::Exclusive);
    if (!file) return tl::unexpected(file.error());
    const std::string k = in_file(key);
    const auto present = values_.find(k);
    return write(
        *file, k,
        present == values_.end() ? std::string(value) : present->second + std::string(value));
  }

  Result<std::vector<std::string>> multi_get(const Keys& keys) override {
    const Instant deadline = io::deadline_after(timeout());
    for (;;) {
      if (auto there = wait(keys, deadline - io::now()); !there)
        return tl::unexpected(there.error());
      const std::lock_guard lock(mutex_);
      if (!all_there(keys)) continue;  // Another thread of ours has read a deletion since.
      std::vector<std::string> values;
      for (const std::string& key : keys) values.push_back(values_.find(in_file(key))->second);
      return values;
    }
  }

  Result<void> multi_set(const Entries& entries) override {
    for (const auto& [key, value] : entries)
      if (key.size() >= UINT32_MAX || value.size() > UINT32_MAX)
        return fail(ErrorKind::InvalidArgument, "a store in a file holds values up to 4 GiB");
    const std::lock_guard lock(mutex_);
    auto file = sync(io::Lock::Exclusive);
    if (!file) return tl::unexpected(file.error());
    ByteBuffer records;
    for (const auto& [key, value] : entries) wire::append_file_record(records, in_file(key), value);
    if (auto put = append(*file, records); !put) return put;
    for (const auto& [key, value] : entries) values_[in_file(key)] = value;
    return {};
  }

  Result<void> queue_push(std::string_view, std::string_view) override { return no_queues(); }
  Result<std::string> queue_pop(std::string_view) override { return no_queues(); }
  Result<std::optional<std::string>> try_queue_pop(std::string_view) override {
    return no_queues();
  }
  Result<std::int64_t> queue_len(std::string_view) override { return no_queues(); }

  Result<std::vector<std::string>> list_keys() override {
    const std::lock_guard lock(mutex_);
    if (auto file = sync(io::Lock::Shared); !file) return tl::unexpected(file.error());
    std::vector<std::string> keys;
    for (const auto& [key, value] : values_)
      if (key.starts_with('/')) keys.push_back(key.substr(1));
    return keys;
  }

  // The keys are those of PyTorch's fallback, so that both can meet here.
  Result<void> barrier(std::string_view key, std::int64_t world_size, Duration limit) override {
    const std::string last = std::string(key) + "/last_member";
    const auto come = add(std::string(key) + "/num_members", 1);
    if (!come) return tl::unexpected(come.error());
    if (*come == world_size) {
      if (auto opened = set(last, "1"); !opened) return opened;
    }
    return wait({last}, limit);
  }

  Result<std::shared_ptr<Store>> clone() override {
    FileStoreOptions options = options_;
    options.timeout = timeout();
    return open_file_store(options);
  }

  Duration timeout() const override { return timeout_; }
  void set_timeout(Duration timeout) override { timeout_ = timeout; }

 private:
  tl::unexpected<Error> no_queues() const {
    return fail(ErrorKind::Unsupported, "a store in a file (" + options_.path + ") has no queues");
  }

  Result<bool> check_by(const Keys& keys, Instant deadline) {
    const std::lock_guard lock(mutex_);
    if (auto file = sync(io::Lock::Shared, deadline); !file) return tl::unexpected(file.error());
    return all_there(keys);
  }

  bool all_there(const Keys& keys) const {
    for (const std::string& key : keys)
      if (!values_.contains(in_file(key))) return false;
    return true;
  }

  // Opens, locks, and reads what others have written since. Before a write, a torn record at the
  // end is cut off: under the exclusive lock no writer can still be at work on it.
  Result<io::LockedFile> sync(io::Lock lock) { return sync(lock, io::deadline_after(timeout_)); }

  Result<io::LockedFile> sync(io::Lock lock, Instant deadline) {
    auto file = io::LockedFile::open(options_.path, lock, deadline);
    if (!file) return file;
    if (!file->is(anchor_)) {  // The first time; or it was removed, and a new run is in it.
      auto anchor = file->anchor();
      if (!anchor) return tl::unexpected(anchor.error());
      anchor_ = std::move(*anchor);
      read_to_ = 0;
      values_.clear();
    }
    ByteBuffer fresh;
    if (auto read = file->read_from(read_to_, fresh); !read) return tl::unexpected(read.error());
    while (const auto record = wire::parse_file_record(fresh.view())) {
      if (record->deletes)
        values_.erase(std::string(record->key));
      else
        values_[std::string(record->key)] = record->value;
      read_to_ += record->size;
      fresh.consume(record->size);
    }
    if (read_to_ == 0 && !wire::may_begin_file(fresh.view()))
      return fail(ErrorKind::Corrupt,
                  printable(options_.path) + " is no file of a store; it was left as it is");
    if (!fresh.empty() && lock == io::Lock::Exclusive) {
      if (auto cut = file->truncate(read_to_); !cut) return tl::unexpected(cut.error());
    }
    return file;
  }

  Result<void> append(io::LockedFile& file, const ByteBuffer& records) {
    if (auto put = file.append(records.view()); !put) return put;
    read_to_ += records.size();
    return {};
  }

  Result<void> write(io::LockedFile& file, const std::string& key, std::string_view value) {
    ByteBuffer record;
    wire::append_file_record(record, key, value);
    if (auto put = append(file, record); !put) return put;
    values_[key] = value;
    return {};
  }

  Result<std::int64_t> count(io::LockedFile& file, std::string_view key, std::int64_t delta) {
    const std::string k(key);
    const auto present = values_.find(k);
    std::int64_t number = 0;
    if (present != values_.end() && !present->second.empty()) {
      const auto parsed = parse_number(present->second);
      if (!parsed)
        return fail(ErrorKind::Refused, "add to key '" + k + "': its value is no 64-bit number");
      number = *parsed;
    }
    number = add_wrapping(number, delta);
    if (auto put = write(file, k, std::to_string(number)); !put) return tl::unexpected(put.error());
    return number;
  }

  const FileStoreOptions options_;
  std::atomic<Duration> timeout_;  // Not under the lock, which a waiting call holds.
  std::mutex mutex_;               // Guards everything below.
  bool registered_ = false;
  io::FileAnchor anchor_;      // The file that values_ reflects,
  std::uint64_t read_to_ = 0;  // and how much of it.
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace

Result<std::shared_ptr<Store>> open_file_store(const FileStoreOptions& options) {
  auto store = std::make_shared<FileStore>(options);
  if (options.only_look) return store;
  if (auto entered = store->enter(); !entered) return tl::unexpected(entered.error());
  return store;
}

}  // namespace regroup
