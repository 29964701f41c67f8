#include "runtime/store/store_host.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "io/loop/clock.h"
#include "io/loop/descriptor_limit.h"
#include "io/net/connection.h"
#include "io/net/listener.h"
#include "runtime/common/complaints.h"
#include "runtime/common/limits.h"
#include "runtime/coordinator/coordinator_host.h"
#include "wire/session/session.h"
#include "wire/store/store_protocol.h"

namespace regroup::runtime {
namespace {

using namespace core::store;

// The client id under which the coordinator sets keys; no real client has it.
constexpr ClientId kNobody{0};

bool asks_for_a_session(const Request& request) {
  const auto* check = std::get_if<Check>(&request);
  return check != nullptr && check->keys.size() == 1 && check->keys.front() == wire::kSessionKey;
}

// No answer is longer than what may be held at all.
StoreHostOptions with_short_replies(StoreHostOptions options) {
  options.limits.reply_bytes = std::min(options.limits.reply_bytes, options.limits.memory_bytes);
  return options;
}

class Host final : public StoreHost, private KeyAccess {
 public:
  Host(io::Loop& loop, const StoreHostOptions& options, std::unique_ptr<io::Listener> listener)
      : options_(with_short_replies(options)),
        loop_(loop),
        timer_(loop),
        keyspace_(options_.limits),
        parser_(options_.limits),
        coordinator_(options.coordinator
                         ? CoordinatorHost::make(loop, *this, options.sessions, options.secret)
                         : nullptr),
        listener_(std::move(listener)) {
    listener_->start([this](std::shared_ptr<io::Connection> c) { welcome(std::move(c)); },
                     [this](const std::string& trouble) {
                       complaints_.add(trouble);
                       gone_.clear();
                       close_first_stranger("a connection could not be accepted");
                     });
  }

  ~Host() override {
    for (const auto& [id, client] : clients_) client->connection->close();
  }

  std::uint16_t port() const override { return listener_->port(); }
  std::vector<std::string> addresses() const override { return listener_->addresses(); }

  CoordinatorHost* coordinator() override { return coordinator_.get(); }

  void clear() override {
    if (coordinator_ != nullptr) coordinator_->clear();
    for (const auto& [id, client] : clients_) client->connection->close();
    clients_.clear();
    gone_.clear();
    answered_.clear();
    strangers_.clear();
    held_ = 0;
    keyspace_ = Keyspace(options_.limits);
  }

  StoreCounters counters() const override {
    StoreCounters counters = counters_;
    counters.clients = clients_.size();
    counters.keys = keyspace_.keys();
    counters.queues = keyspace_.queues();
    counters.waiting = keyspace_.waiting();
    counters.memory = keyspace_.bytes() + held_;
    return counters;
  }

 private:
  enum class Step { Next, NeedMore, Session, Close };

  struct Client final : io::ConnectionOwner {
    Client(Host& h, ClientId i, std::shared_ptr<io::Connection> c)
        : host(h), id(i), connection(std::move(c)) {}
    void bytes_came() override { host.serve(*this); }
    void output_drained() override {
      if (session != nullptr) return host.count_buffers(*this);
      connection->resume_reading();
      host.serve(*this);  // Whole requests may have been left in the buffer.
    }
    void closed(const std::string&) override { host.drop(*this); }

    Host& host;
    ClientId id;
    std::shared_ptr<io::Connection> connection;
    bool greeted = false;
    bool has_asked = false;   // For anything; until then it is a stranger.
    bool is_gone = false;     // It is in Host::gone_.
    std::size_t held = 0;     // What its buffers hold, as far as it counts.
    bool answered = false;    // It has something to flush, and is in Host::answered_.
    wire::Progress progress;  // Of the message at the front of its input.
    std::size_t seen = 0;     // Bytes of its input that have been counted.
    // Once it is set, this is no client of the keyspace any more.
    std::unique_ptr<SessionPeer> session;
  };

  void welcome(std::shared_ptr<io::Connection> connection) {
    ++counters_.connections;
    gone_.clear();
    const std::string why = why_full(*connection);
    if (!why.empty() && !close_first_stranger(why)) {
      ++counters_.turned_away;
      complaints_.add(fmt::format("turned {} away: {}", connection->peer(), why));
      connection->close();
      return;
    }
    const ClientId id{next_client_++};
    auto client = std::make_unique<Client>(*this, id, std::move(connection));
    if (!client->connection->start(*client)) {
      complaints_.add("turned " + client->connection->peer() + " away: cannot watch its socket");
      return;
    }
    clients_.emplace(id, std::move(client));
    strangers_.emplace_back(io::now() + options_.greeting, id);
    if (!is_timer_set_) set_timer();
  }

  // Empty: there is room.
  std::string why_full(const io::Connection& newcomer) const {
    if (clients_.size() >= options_.clients)
      return fmt::format("{} clients are connected, which is the limit", clients_.size());
    const std::size_t limit = io::descriptor_limit();
    const std::size_t reserved = std::min(options_.reserved_descriptors, limit / 2);
    if (newcomer.descriptor() < 0 ||
        static_cast<std::size_t>(newcomer.descriptor()) < limit - reserved)
      return {};
    return fmt::format(
        "of {} open files {} are reserved for other things. Raise the limit (ulimit -n)", limit,
        reserved);
  }

  Client* find_stranger(ClientId id) const {
    const auto found = clients_.find(id);
    return found == clients_.end() || found->second->has_asked ? nullptr : found->second.get();
  }

  void close_stranger(Client& stranger, const std::string& why) {
    ++counters_.silent;
    complaints_.add(
        fmt::format("closed {}: it asked for nothing{}", stranger.connection->peer(), why));
    drop(stranger);
  }

  // False: there is none.
  bool close_first_stranger(const std::string& why) {
    while (!strangers_.empty()) {
      Client* first = find_stranger(strangers_.front().second);
      strangers_.pop_front();
      if (first == nullptr) continue;
      close_stranger(*first, ", and " + why);
      return true;
    }
    return false;
  }

  void set_timer() {
    while (!strangers_.empty() && find_stranger(strangers_.front().second) == nullptr)
      strangers_.pop_front();
    is_timer_set_ = !strangers_.empty();
    if (is_timer_set_) timer_.set(strangers_.front().first, [this] { close_late_strangers(); });
  }

  void close_late_strangers() {
    // What they sent while this process stood still counts.
    loop_.read_what_is_ready();
    gone_.clear();
    const Instant now = io::now();
    while (!strangers_.empty() && strangers_.front().first <= now) {
      Client* late = find_stranger(strangers_.front().second);
      strangers_.pop_front();
      // A client of PyTorch 2.4 greets, and may ask for nothing for a long time.
      if (late != nullptr && !late->greeted)
        close_stranger(*late, " for " + in_words(options_.greeting));
    }
    set_timer();
  }

  // Whole requests, one after the other, then one write for every client that got an answer.
  void serve(Client& client) {
    gone_.clear();
    if (client.session != nullptr) {
      client.session->bytes_came();
      return settle(client);
    }
    auto& input = client.connection->input();
    counters_.bytes_in += input.size() - client.seen;
    Step step = Step::Next;
    while (step == Step::Next) {
      step = take_requests(client);
      flush_answers();
      if (step == Step::Next && has_unread_answers(client)) {
        client.connection->pause_reading();
        break;
      }
    }
    client.seen = input.size();
    if (step == Step::Close) drop(client);
    if (step == Step::Session) begin_session(client);
    settle(client);
  }

  // The last step of what a client's bytes bring about: the memory of all connections is bounded.
  void settle(Client& client) {
    count_buffers(client);
    while (held_ > room_for_buffers()) {
      const auto most = std::max_element(
          clients_.begin(), clients_.end(),
          [](const auto& a, const auto& b) { return a.second->held < b.second->held; });
      Client& largest = *most->second;
      ++counters_.refused;
      complaints_.add(fmt::format(
          "closed {}: {} bytes of its requests and of answers that it has not read are held here; "
          "together with those of others that is beyond the limit on memory (--max-memory)",
          largest.connection->peer(), largest.held));
      drop(largest);
    }
  }

  void count_buffers(Client& client) {
    if (client.is_gone) return;
    // An empty buffer gives its memory back by itself.
    const auto size_of = [](const ByteBuffer& one) { return one.empty() ? 0 : one.capacity(); };
    const std::size_t size =
        size_of(client.connection->input()) + size_of(client.connection->output());
    held_ -= client.held;
    client.held = size > kUncountedBuffer ? size : 0;
    held_ += client.held;
  }

  std::size_t room_for_buffers() const {
    const std::size_t all = options_.limits.memory_bytes;
    return std::max(all / kLeastBufferShare, all - std::min(all, keyspace_.bytes()));
  }

  void begin_session(Client& client) {
    keyspace_.forget(client.id);
    client.session = coordinator_->open(client.connection, [this, &client] { drop(client); });
    // Bytes after the question belong to the session.
    if (!client.connection->input().empty()) client.session->bytes_came();
  }

  // As many requests as there are, or as its answers leave room for.
  Step take_requests(Client& client) {
    while (!has_unread_answers(client)) {
      const Step step = client.greeted ? serve_request(client) : serve_greeting(client);
      if (step != Step::Next) return step;
    }
    return Step::Next;
  }

  static bool has_unread_answers(const Client& client) {
    return client.connection->output().size() > kUnreadAnswers;
  }

  void flush_answers() {
    for (Client* one : answered_) {
      one->answered = false;
      one->connection->flush();
      count_buffers(*one);
    }
    answered_.clear();
  }

  Step serve_greeting(Client& client) {
    auto parsed = wire::parse_greeting(client.connection->input().view());
    if (const auto* whole = std::get_if<wire::Whole<wire::Greeting>>(&parsed)) {
      client.connection->input().consume(whole->size);
      client.greeted = true;
      return Step::Next;
    }
    return wait_or_close(client, parsed);
  }

  Step serve_request(Client& client) {
    auto parsed = parser_.parse(client.connection->input().view(), client.progress);
    const auto* whole = std::get_if<wire::Whole<Request>>(&parsed);
    if (whole == nullptr) return wait_or_close(client, parsed);
    ++counters_.requests[whole->message.index()];
    client.has_asked = true;
    bool is_about_a_run = false;
    if (coordinator_ != nullptr) {
      if (asks_for_a_session(whole->message)) {
        client.connection->input().consume(whole->size);
        answer(client, {client.id, Ready{true}});
        return Step::Session;
      }
      is_about_a_run = coordinator_->before(whole->message);
    }
    effects_.clear();
    const auto done = keyspace_.apply(client.id, whole->message, effects_);
    // Encoded before the input is consumed: answers may point into it.
    for (const Effect& effect : effects_) answer(client, effect);
    client.connection->input().consume(whole->size);
    if (is_about_a_run) coordinator_->after();
    if (done) return Step::Next;
    ++counters_.refused;
    complaints_.add(fmt::format("closed {}: {}", client.connection->peer(), done.error().message));
    return Step::Close;
  }

  template <class Parsed>
  Step wait_or_close(Client& client, const Parsed& parsed) {
    if (std::holds_alternative<wire::NeedMore>(parsed)) return Step::NeedMore;
    ++counters_.malformed;
    complaints_.add(fmt::format("closed {}: {}", client.connection->peer(),
                                std::get<wire::Malformed>(parsed).reason));
    return Step::Close;
  }

  void answer(Client& asking, const Effect& effect) {
    if (effect.client == asking.id)
      tell(asking, effect.reply);
    else
      answer(effect);
  }

  void answer(const Effect& effect) {
    const auto found = clients_.find(effect.client);
    if (found != clients_.end()) tell(*found->second, effect.reply);
  }

  void tell(Client& client, const Reply& reply) {
    auto& output = client.connection->output();
    const std::size_t before = output.size();
    wire::append_reply(output, reply);
    counters_.bytes_out += output.size() - before;
    if (client.answered) return;
    client.answered = true;
    answered_.push_back(&client);
  }

  std::string_view get(std::string_view key) override {
    Effects effects;
    (void)keyspace_.apply(kNobody, Get{key}, effects);
    return effects.empty() ? std::string_view{} : std::get<Value>(effects.front().reply).bytes;
  }

  void set(std::string_view key, std::string_view value) override {
    Effects effects;
    if (auto done = keyspace_.apply(kNobody, Set{key, value}, effects); !done)
      complaints_.add("cannot show the state of a run: " + done.error().message);
    for (const Effect& effect : effects) answer(effect);
    flush_answers();
  }

  void drop(Client& client) {
    if (client.is_gone) return;
    client.is_gone = true;
    held_ -= std::exchange(client.held, 0);
    client.connection->close();
    keyspace_.forget(client.id);
    // The client may be the one whose method is running; it is destroyed at the next event.
    const auto found = clients_.find(client.id);
    gone_.push_back(std::move(found->second));
    clients_.erase(found);
    if (client.session != nullptr) client.session->closed();
  }

  StoreHostOptions options_;
  io::Loop& loop_;
  io::Timer timer_;
  Keyspace keyspace_;
  wire::RequestParser parser_;
  std::unordered_map<ClientId, std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<Client>> gone_;
  std::vector<Client*> answered_;
  Effects effects_;
  // In the order of their arrival, with the end of their time to greet. Clients that have asked for
  // something since, or are gone, are in it until they are at the front.
  std::deque<std::pair<Instant, ClientId>> strangers_;
  bool is_timer_set_ = false;
  std::size_t held_ = 0;  // By the buffers of all clients.
  std::uint64_t next_client_ = 1;
  StoreCounters counters_;
  Complaints complaints_{"store"};
  std::unique_ptr<CoordinatorHost> coordinator_;
  std::unique_ptr<io::Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<StoreHost>> StoreHost::open(io::Loop& loop,
                                                   const StoreHostOptions& options) {
  auto listener = io::Listener::open(loop, options.host, options.port);
  if (!listener) return tl::unexpected(listener.error());
  return std::make_unique<Host>(loop, options, std::move(*listener));
}

std::string describe(const StoreCounters& c) {
  static constexpr std::string_view kNames[] = {
      "ping",        "set",        "compare_set", "get",       "add",       "check",
      "wait",        "num_keys",   "delete_key",  "append",    "multi_get", "multi_set",
      "cancel_wait", "queue_push", "queue_pop",   "queue_len", "list_keys", "barrier"};
  static_assert(std::size(kNames) == std::variant_size_v<Request>);
  std::uint64_t total = 0;
  std::string kinds;
  for (std::size_t i = 0; i < c.requests.size(); ++i) {
    total += c.requests[i];
    if (c.requests[i] == 0) continue;
    kinds += fmt::format("{}{} {}", kinds.empty() ? " (" : ", ", kNames[i], c.requests[i]);
  }
  if (!kinds.empty()) kinds += ")";
  return fmt::format(
      "clients {} now, {} ever; requests {}{}; keys {}, queues {}, waiting {}, memory {} bytes; in "
      "{} bytes, out {} bytes; closed: malformed {}, refused {}, silent {}, turned away {}",
      c.clients, c.connections, total, kinds, c.keys, c.queues, c.waiting, c.memory, c.bytes_in,
      c.bytes_out, c.malformed, c.refused, c.silent, c.turned_away);
}

}  // namespace regroup::runtime
