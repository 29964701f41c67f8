// Lets the Python tests drive the rendezvous: commands on stdin, one line of JSON each on stdout.
//
//   rendezvous_driver handler backend=c10d endpoint=HOST:PORT run_id=ID min=N max=N
//                             [local_addr=A] [node_rank=N] [config=key=value,...]
//
// One handler in one process: one node of a run. The first line tells whether it could be made;
// then
//
//   next                 next_rendezvous(); what comes behind it waits, except interrupt
//   closed | waiting | status
//   close | leave | shutdown
//   set KEY VALUE        in the store of the last round
//   get KEY | has KEY    from there; has does not wait for the key
//   interrupt            for good; has no answer of its own
//   quit                 ends the process, as the end of the input does; that also interrupts
//
// What the handler waits for is told on stderr.
//
//   rendezvous_driver exchange endpoint=HOST:PORT prefix=KEYS world_size=N rank=R role=NAME
//   local_world_size=N
//
// exchanges ranks with the other nodes of a round, prints its four numbers, passes the exit
// barrier, prints "done".
//
//   rendezvous_driver decide
//
// The decision tables by themselves. A line is a row of key=value words; times are microseconds:
//
//   operation=join state=BASE64|- node=ADDRESS,PID,LOCAL_ID min=N max=N last_call=T
//   now=T give_up=T heartbeat_due=0|1 last_call_over=0|1 utc=T
//
// The answer has the action, as to_string() has it, and where the action changes the state, the
// state after it.
//
// An error is an answer: {"error": KIND, "message": TEXT}. Only a line that makes no sense, a
// mistake of the test, ends the process.
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/endpoint.h"
#include "core/rendezvous/decide.h"
#include "regroup/rendezvous.h"
#include "runtime/rendezvous/exchange.h"
#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace {

using namespace regroup;
using Words = std::vector<std::string>;

[[noreturn]] void give_up(const std::string& why) {
  std::cerr << "rendezvous_driver: " << why << std::endl;
  std::exit(2);
}

Words words_of(const std::string& line) {
  std::istringstream stream(line);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::int64_t to_number(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size())
    give_up("no number: " + std::string(word));
  return value;
}

// Words of the form key=value.
class Named {
 public:
  explicit Named(const Words& words) {
    for (const std::string& word : words) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) give_up("not of the form key=value: " + word);
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  std::optional<std::string> find(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string text(const std::string& key) const {
    const auto found = find(key);
    if (!found) give_up("not given: " + key);
    return *found;
  }
  std::int64_t number(const std::string& key) const { return to_number(text(key)); }
  std::chrono::microseconds time(const std::string& key) const {
    return std::chrono::microseconds(number(key));
  }

 private:
  std::map<std::string, std::string> values_;
};

// --- answers ------------------------------------------------------------------------------------

std::string json(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kDigits[c >> 4];
      out += kDigits[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}
std::string json(const std::string& text) { return json(std::string_view(text)); }
std::string json(bool value) { return value ? "true" : "false"; }
std::string json(std::int64_t value) { return std::to_string(value); }
std::string json(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out += (out.size() > 1 ? ", " : "") + json(text);
  return out + "]";
}
std::string json(const RendezvousInfo& info) {
  return "{\"round\": " + json(info.round) + ", \"rank\": " + json(info.rank) +
         ", \"world_size\": " + json(info.world_size) +
         ", \"address\": " + json(info.bootstrap.address) +
         ", \"port\": " + json(std::int64_t{info.bootstrap.port}) +
         ", \"nodes\": " + json(info.nodes) + "}";
}
std::string json(const RendezvousStatus& status) {
  return "{\"member\": " + json(status.member) + ", \"whole\": " + json(status.whole) +
         ", \"closed\": " + json(status.closed) + ", \"waiting\": " + json(status.waiting) +
         ", \"must_rejoin\": " + json(status.must_rejoin()) + "}";
}

std::string answer(const Error& error) {
  return "{\"error\": " + json(to_string(error.kind)) + ", \"message\": " + json(error.message) +
         "}";
}
std::string answer(const std::string& value) { return "{\"answer\": " + value + "}"; }

template <class T>
std::string answer(const Result<T>& result) {
  if (!result) return answer(result.error());
  if constexpr (std::is_void_v<T>)
    return answer(std::string("null"));
  else
    return answer(json(*result));
}

// --- handler ------------------------------------------------------------------------------------

// Lines from stdin, read by a thread of their own, so that an interrupt overtakes what is under
// way.
class Input {
 public:
  Input() : thread_([this] { read(); }) {}
  ~Input() { thread_.join(); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  std::shared_ptr<const std::atomic<bool>> interrupted() const { return interrupted_; }

  // None at the end.
  std::optional<Words> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || !lines_.empty(); });
    if (lines_.empty()) return std::nullopt;
    Words words = std::move(lines_.front());
    lines_.pop_front();
    return words;
  }

 private:
  void read() {
    bool quit = false;
    for (std::string line; !quit && std::getline(std::cin, line);) {
      Words words = words_of(line);
      if (words.empty()) continue;
      quit = words[0] == "quit";
      if (words[0] == "interrupt")
        *interrupted_ = true;
      else if (!quit)
        push(std::move(words));
    }
    if (!quit) *interrupted_ = true;
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_one();
  }
  void push(Words words) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(words));
    changed_.notify_one();
  }

  const std::shared_ptr<std::atomic<bool>> interrupted_ =
      std::make_shared<std::atomic<bool>>(false);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Words> lines_;
  bool ended_ = false;
  std::thread thread_;  // Last: it uses all of the above.
};

class Node {
 public:
  explicit Node(RendezvousHandler& handler) : handler_(handler) {}

  std::string run(const Words& words) {
    const std::string& command = words[0];
    if (command == "next") {
      auto info = handler_.next_rendezvous();
      if (info) store_ = info->store;
      return answer(info);
    }
    if (command == "closed") return answer(handler_.is_closed());
    if (command == "waiting") return answer(handler_.num_nodes_waiting());
    if (command == "status") return answer(handler_.status());
    if (command == "close") return answer(handler_.set_closed());
    if (command == "leave") return answer(handler_.leave());
    if (command == "shutdown") return answer(handler_.shutdown());
    if (!store_) give_up("no store before the first round: " + command);
    if (command == "set" && words.size() == 3) return answer(store_->set(words[1], words[2]));
    if (command == "get" && words.size() == 2) return answer(store_->get(words[1]));
    if (command == "has" && words.size() == 2) return answer(store_->check({words[1]}));
    give_up("no such command: " + command);
  }

 private:
  RendezvousHandler& handler_;
  std::shared_ptr<Store> store_;
};

RendezvousParameters parameters_of(const Named& flags) {
  RendezvousParameters parameters;
  parameters.backend = flags.text("backend");
  parameters.endpoint = flags.text("endpoint");
  parameters.run_id = flags.text("run_id");
  parameters.min_nodes = flags.number("min");
  parameters.max_nodes = flags.number("max");
  parameters.local_addr = flags.find("local_addr").value_or("");
  if (const auto rank = flags.find("node_rank")) parameters.node_rank = to_number(*rank);
  auto config = parse_rendezvous_config(flags.find("config").value_or(""));
  if (!config) give_up(config.error().message);
  parameters.config = std::move(*config);
  parameters.on_status = [](const std::string& text) { std::cerr << text << std::endl; };
  return parameters;
}

int run_handler(const Named& flags) {
  RendezvousParameters parameters = parameters_of(flags);
  Input input;
  parameters.interrupted = input.interrupted();
  auto handler = make_rendezvous(parameters);
  if (!handler) {
    // Nobody will ask anything; the end of the input ends the process.
    std::cout << answer(handler.error()) << std::endl;
    return 0;
  }
  std::cout << answer(json((*handler)->use_agent_store())) << std::endl;
  Node node(**handler);
  while (const auto words = input.next()) std::cout << node.run(*words) << std::endl;
  return 0;
}

// --- decide -------------------------------------------------------------------------------------

namespace rdzv = core::rendezvous;

rdzv::Operation to_operation(const std::string& word) {
  static const std::map<std::string, rdzv::Operation> operations = {
      {"join", rdzv::Operation::Join},   {"exit", rdzv::Operation::Exit},
      {"leave", rdzv::Operation::Leave}, {"close", rdzv::Operation::Close},
      {"look", rdzv::Operation::Look},   {"keep_alive", rdzv::Operation::KeepAlive}};
  const auto found = operations.find(word);
  if (found == operations.end()) give_up("no such operation: " + word);
  return found->second;
}

rdzv::NodeId to_node(const std::string& text) {
  const std::size_t second = text.rfind(',');
  const std::size_t first =
      second == 0 || second == std::string::npos ? std::string::npos : text.rfind(',', second - 1);
  if (first == std::string::npos) give_up("no node: " + text);
  return {.address = text.substr(0, first),
          .pid = to_number(text.substr(first + 1, second - first - 1)),
          .local_id = to_number(text.substr(second + 1))};
}

Result<rdzv::State> to_state(const std::string& text) {
  if (text == "-") return rdzv::State{};
  const auto bytes = wire::decode_base64(text);
  if (!bytes) give_up("no base64: " + text);
  return wire::decode_state(*bytes);
}

std::string run_decide(const Named& row) {
  const auto state = to_state(row.text("state"));
  if (!state) return answer(state.error());
  rdzv::Settings settings;
  settings.run_id = "run";
  settings.min_nodes = row.number("min");
  settings.max_nodes = row.number("max");
  settings.last_call_timeout = row.time("last_call");
  const rdzv::Actor actor{.node = to_node(row.text("node")),
                          .claim = {.name = "name", .wish = {}, .held = {}},
                          .utc = {row.number("utc")}};
  const rdzv::Reading reading{.now = {row.time("now")},
                              .give_up = {row.time("give_up")},
                              .heartbeat_due = row.number("heartbeat_due") != 0,
                              .last_call_over = row.number("last_call_over") != 0};
  const rdzv::Action action =
      rdzv::decide(to_operation(row.text("operation")), *state, actor.node, settings, reading);
  std::string out = "{\"action\": " + json(rdzv::to_string(action));
  if (rdzv::changes_state(action)) {
    const rdzv::State after = rdzv::apply(*state, action, actor, settings);
    out += ", \"state\": " + json(wire::encode_base64(wire::encode_state(after)));
  }
  return answer(out + "}");
}

// --- exchange -----------------------------------------------------------------------------------

int run_exchange(const Named& flags) {
  const auto endpoint = parse_endpoint(flags.text("endpoint"));
  if (!endpoint) give_up(endpoint.error().message);
  auto store = connect_tcp_store({.host = endpoint->host, .port = endpoint->port});
  if (!store) give_up(store.error().message);
  const auto round = make_prefix_store(flags.text("prefix"), *store);
  const std::int64_t world_size = flags.number("world_size");
  const auto ranks = runtime::exchange_ranks(
      *round, world_size,
      {flags.text("role"), flags.number("rank"), flags.number("local_world_size")});
  if (!ranks) give_up(ranks.error().message);
  std::cout << ranks->base_global_rank << ' ' << ranks->global_world_size << ' '
            << ranks->base_role_rank << ' ' << ranks->role_world_size << std::endl;
  if (const auto all = runtime::exit_barrier(*round, world_size); !all)
    give_up(all.error().message);
  std::cout << "done" << std::endl;
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  Words words(arguments + 1, arguments + count);
  const std::string mode = words.empty() ? "" : words[0];
  if (mode == "handler") return run_handler(Named({words.begin() + 1, words.end()}));
  if (mode == "exchange") return run_exchange(Named({words.begin() + 1, words.end()}));
  if (mode != "decide") give_up("say handler, exchange or decide");
  for (std::string line; std::getline(std::cin, line);)
    std::cout << run_decide(Named(words_of(line))) << std::endl;
  return 0;
}
