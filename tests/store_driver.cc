// Lets the Python tests drive the C++ stores: commands on stdin, one answer line each on stdout.
//
// Every text (key, value, path, prefix) is written as `x` and its bytes in hexadecimal, so that
// binary and empty texts are safe; a time is a whole number of milliseconds.
//
//   connect tcp HOST PORT TIMEOUT [WORLD_SIZE [wait]]
//   connect file PATH TIMEOUT [WORLD_SIZE]
//   connect memory TIMEOUT
//   prefix TEXT                     wraps the present store
//   use NAME                        the commands that follow go to the store of this name
//   clone NAME                      keeps a clone of the present store under that name
//   close                           destroys the present store
//   set K V | get K | add K DELTA | compare_set K EXPECTED DESIRED | check K... | wait LIMIT K...
//   delete_key K | num_keys | append K V | multi_get K... | multi_set K V ...
//   queue_push K V | queue_pop K | try_queue_pop K | queue_len K | list_keys
//   barrier K WORLD_SIZE LIMIT | timeout | set_timeout LIMIT
//   synchronize PREFIX RANK WORLD_SIZE VALUE LIMIT
//   gather PREFIX RANK WORLD_SIZE LIMIT
//   group_barrier PREFIX WORLD_SIZE LIMIT RANK|- TRACE_LIMIT
//
// Answers: `ok`, `none`, `true`, `false`, `number N`, `value X`, `values X...`, or `error KIND
// TEXT`, where KIND is one word.
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/store.h"
#include "regroup/store_helpers.h"

namespace {

using namespace regroup;
using Words = std::vector<std::string>;

// A command that makes no sense is a mistake of the test: say so and end.
[[noreturn]] void give_up(const std::string& why) {
  std::cerr << "store_driver: " << why << std::endl;
  std::exit(2);
}

std::string hex(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "x";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string to_text(const std::string& word) {
  if (word.empty() || word[0] != 'x' || word.size() % 2 == 0) give_up("no text: " + word);
  std::string out;
  for (std::size_t i = 1; i < word.size(); i += 2) {
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(&word[i], &word[i] + 2, byte, 16);
    if (error != std::errc{} || end != &word[i] + 2) give_up("no text: " + word);
    out += static_cast<char>(byte);
  }
  return out;
}

std::int64_t to_number(const std::string& word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) give_up("no number: " + word);
  return value;
}

Duration to_time(const std::string& word) { return std::chrono::milliseconds(to_number(word)); }

std::string line(const Error& error) {
  std::string out = "error ";
  for (const char c : to_string(error.kind)) out += c == ' ' ? '_' : c;
  out += ' ';
  for (const char c : error.message) out += c == '\n' ? ' ' : c;
  return out;
}

std::string line() { return "ok"; }
std::string line(bool value) { return value ? "true" : "false"; }
std::string line(std::int64_t value) { return "number " + std::to_string(value); }
std::string line(const std::string& value) { return "value " + hex(value); }
std::string line(const std::optional<std::string>& value) { return value ? line(*value) : "none"; }
std::string line(const std::vector<std::string>& values) {
  std::string out = "values";
  for (const std::string& value : values) out += " " + hex(value);
  return out;
}

template <class T>
std::string line(const Result<T>& result) {
  if (!result) return line(result.error());
  if constexpr (std::is_void_v<T>)
    return line();
  else
    return line(*result);
}

class Driver {
 public:
  std::string answer(const Words& words) {
    words_ = words;
    next_ = 0;
    const std::string command = word();
    std::string line = run(command);
    if (left()) give_up("too many words for " + command);
    return line;
  }

 private:
  bool left() const { return next_ < words_.size(); }
  const std::string& word() {
    if (!left()) give_up("too few words for " + words_[0]);
    return words_[next_++];
  }
  std::string text() { return to_text(word()); }
  std::int64_t number() { return to_number(word()); }
  Duration time() { return to_time(word()); }
  Store::Keys keys() {
    Store::Keys keys;
    while (left()) keys.push_back(text());
    return keys;
  }
  Store::Entries entries() {
    Store::Entries entries;
    while (left()) {
      std::string key = text();
      entries.emplace_back(std::move(key), text());
    }
    return entries;
  }
  Store& store() {
    const auto found = stores_.find(name_);
    if (found == stores_.end()) give_up("no store '" + name_ + "' for " + words_[0]);
    return *found->second;
  }

  std::string keep(const std::string& name, Result<std::shared_ptr<Store>> opened) {
    if (!opened) return line(opened.error());
    stores_[name] = std::move(*opened);
    return line();
  }

  std::string connect() {
    const std::string kind = word();
    if (kind == "tcp") {
      TcpStoreOptions options;
      options.host = word();
      options.port = static_cast<std::uint16_t>(number());
      options.timeout = time();
      if (left()) options.world_size = number();
      if (left()) options.wait_for_workers = word() == "wait";
      return keep(name_, connect_tcp_store(options));
    }
    if (kind == "file") {
      FileStoreOptions options;
      options.path = text();
      options.timeout = time();
      if (left()) options.world_size = number();
      return keep(name_, open_file_store(options));
    }
    if (kind == "memory") return keep(name_, make_memory_store(time()));
    give_up("no kind of store: " + kind);
  }

  std::string run(const std::string& command) {
    if (command == "connect") return connect();
    if (command == "use") {
      name_ = word();
      return line();
    }
    if (command == "clone") {
      const std::string name = word();
      return keep(name, store().clone());
    }
    if (command == "close") {
      store();
      stores_.erase(name_);
      return line();
    }
    if (command == "prefix") {
      store();
      stores_[name_] = make_prefix_store(text(), stores_[name_]);
      return line();
    }
    Store& s = store();
    if (command == "set") {
      const std::string key = text();
      return line(s.set(key, text()));
    }
    if (command == "get") return line(s.get(text()));
    if (command == "add") {
      const std::string key = text();
      return line(s.add(key, number()));
    }
    if (command == "compare_set") {
      const std::string key = text();
      const std::string expected = text();
      return line(s.compare_set(key, expected, text()));
    }
    if (command == "check") return line(s.check(keys()));
    if (command == "wait") {
      const Duration limit = time();
      return line(s.wait(keys(), limit));
    }
    if (command == "delete_key") return line(s.delete_key(text()));
    if (command == "num_keys") return line(s.num_keys());
    if (command == "append") {
      const std::string key = text();
      return line(s.append(key, text()));
    }
    if (command == "multi_get") return line(s.multi_get(keys()));
    if (command == "multi_set") return line(s.multi_set(entries()));
    if (command == "queue_push") {
      const std::string key = text();
      return line(s.queue_push(key, text()));
    }
    if (command == "queue_pop") return line(s.queue_pop(text()));
    if (command == "try_queue_pop") return line(s.try_queue_pop(text()));
    if (command == "queue_len") return line(s.queue_len(text()));
    if (command == "list_keys") return line(s.list_keys());
    if (command == "barrier") {
      const std::string key = text();
      const std::int64_t world_size = number();
      return line(s.barrier(key, world_size, time()));
    }
    if (command == "timeout")
      return line(
          std::int64_t{std::chrono::duration_cast<std::chrono::milliseconds>(s.timeout()).count()});
    if (command == "set_timeout") {
      s.set_timeout(time());
      return line();
    }
    return run_helper(command, s);
  }

  std::string run_helper(const std::string& command, Store& s) {
    if (command == "synchronize" || command == "gather") {
      Seat seat;
      seat.prefix = text();
      seat.rank = number();
      seat.world_size = number();
      if (command == "gather") return line(gather(s, seat, time()));
      const std::string value = text();
      return line(synchronize(s, seat, value, time()));
    }
    if (command == "group_barrier") {
      const std::string prefix = text();
      const std::int64_t world_size = number();
      BarrierOptions options;
      options.limit = time();
      const std::string rank = word();
      if (rank != "-") options.rank = to_number(rank);
      options.trace_limit = time();
      return line(barrier(s, prefix, world_size, options));
    }
    give_up("no such command: " + command);
  }

  Words words_;
  std::size_t next_ = 0;
  std::string name_ = "store";
  std::map<std::string, std::shared_ptr<Store>> stores_;
};

}  // namespace

int main() {
  Driver driver;
  std::string command;
  while (std::getline(std::cin, command)) {
    std::istringstream stream(command);
    Words words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) continue;
    std::cout << driver.answer(words) << std::endl;
  }
  return 0;
}
