#include "runtime/health/health_server.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "io/loop/clock.h"
#include "io/loop/thread_name.h"
#include "io/net/connection.h"
#include "io/net/listener.h"
#include "runtime/common/limits.h"
#include "runtime/health/health_probe.h"
#include "wire/text/http.h"

namespace regroup::runtime {
namespace {

// Everything that happens on the server's thread.
class Host {
 public:
  Host(io::Loop& loop, io::Listener& listener, HealthProbe& probe,
       std::function<void(const std::string&)> warn)
      : loop_(loop), probe_(probe), warn_(std::move(warn)) {
    listener.start([this](std::shared_ptr<io::Connection> c) { welcome(std::move(c)); },
                   [this](const std::string& trouble) {
                     if (warn_ && !std::exchange(warned_, true)) warn_("health port: " + trouble);
                   });
  }

  ~Host() {
    for (const auto& [id, client] : clients_) client->connection->close();
  }

 private:
  // In the order in which they are closed to make room for others.
  enum class Doing {
    Ending,     // It has taken its answer; what it still sends is not looked at.
    Waiting,    // For a request, or the rest of one.
    Answering,  // The client has not taken all of the answer yet.
    Asking,     // The agent.
  };

  struct Client final : io::ConnectionOwner {
    Client(Host& h, std::uint64_t i, io::Loop& loop, std::shared_ptr<io::Connection> c)
        : host(h), id(i), connection(std::move(c)), deadline(loop) {}
    void bytes_came() override { host.serve(*this); }
    void output_drained() override {
      host.answered(*this);
      host.serve(*this);
    }
    void closed(const std::string&) override { host.drop(*this); }

    Host& host;
    std::uint64_t id;
    std::shared_ptr<io::Connection> connection;
    io::Timer deadline;
    Instant since{};  // When it began to do that.
    Doing doing = Doing::Waiting;
    // Of the request that is being answered.
    bool head_only = false;
    bool keep_alive = false;
  };

  void welcome(std::shared_ptr<io::Connection> connection) {
    if (clients_.size() >= kHealthClients) make_room();
    const std::uint64_t id = next_++;
    auto client = std::make_unique<Client>(*this, id, loop_, std::move(connection));
    if (!client->connection->start(*client)) return;
    Client& welcomed = *clients_.emplace(id, std::move(client)).first->second;
    begin(welcomed, Doing::Waiting, kHealthRequestLimit);
  }

  // A connection that is served already, or has said nothing for the longest time, is closed first.
  // Neither silent clients nor clients that keep asking and do not read may shut out a probe.
  void make_room() {
    const auto before = [](const auto& a, const auto& b) {
      return std::tie(a.second->doing, a.second->since) <
             std::tie(b.second->doing, b.second->since);
    };
    drop(*std::min_element(clients_.begin(), clients_.end(), before)->second);
  }

  void begin(Client& client, Doing doing, Duration limit) {
    client.doing = doing;
    client.since = io::now();
    client.deadline.set(client.since + limit, [this, &client] { too_late(client); });
  }

  void too_late(Client& client) {
    // A client that sent half a request is told why it is closed; a silent one is not.
    if (client.doing != Doing::Waiting || client.connection->input().empty()) return drop(client);
    client.head_only = client.keep_alive = false;
    answer(client, 408, kTextPage, "the request did not come in time\n");
    serve(client);
  }

  void serve(Client& client) {
    while (client.doing == Doing::Waiting && take_request(client)) {
    }
    auto& input = client.connection->input();
    if (client.doing == Doing::Ending) input.consume(input.size());
  }

  // False: it is not complete yet.
  bool take_request(Client& client) {
    auto& input = client.connection->input();
    const auto parsed = wire::parse_http_request(input.view());
    if (std::holds_alternative<wire::HttpNeedMore>(parsed)) return false;
    if (const auto* refusal = std::get_if<wire::HttpRefusal>(&parsed)) {
      client.head_only = client.keep_alive = false;
      answer(client, refusal->status, kTextPage, refusal->reason + "\n");
      return true;
    }
    const auto& [request, size] = std::get<wire::HttpWhole>(parsed);
    client.head_only = request.method == "HEAD";
    client.keep_alive = request.keep_alive;
    const bool may = client.head_only || request.method == "GET";
    const std::string path(request.path);
    input.consume(size);
    if (!may) {
      answer(client, 405, kTextPage, "only GET and HEAD are answered here\n");
    } else if (asks_for_health(path)) {
      ask(client, path);
    } else if (const auto page = health_page(path, {}, {}, {})) {
      answer(client, page->status, page->content_type, page->body);
    } else {
      answer(client, 404, kTextPage, "there is no such page; / lists those that there are\n");
    }
    return true;
  }

  void ask(Client& client, const std::string& path) {
    // We do not read from it meanwhile: a client that has sent everything and closed that direction
    // still gets the answer.
    client.connection->pause_reading();
    client.doing = Doing::Asking;
    client.since = io::now();
    client.deadline.cancel();
    probe_.ask([this, id = client.id, path](const HealthSnapshot& agent, const LoopHealth& loop) {
      const auto found = clients_.find(id);
      if (found == clients_.end()) return;
      Client& asking = *found->second;
      const auto page = health_page(path, agent, loop, {io::now(), io::utc_micros()});
      answer(asking, page->status, page->content_type, page->body);
      serve(asking);
    });
  }

  void answer(Client& client, int status, std::string_view content_type, std::string_view body) {
    wire::append_http_response(client.connection->output(), {.status = status,
                                                             .content_type = content_type,
                                                             .body = body,
                                                             .head_only = client.head_only,
                                                             .keep_alive = client.keep_alive});
    client.connection->pause_reading();
    begin(client, Doing::Answering, kHealthRequestLimit);
    client.connection->flush();
    if (client.connection->output().empty()) answered(client);
  }

  void answered(Client& client) {
    if (!client.keep_alive) client.connection->end_output();
    begin(client, client.keep_alive ? Doing::Waiting : Doing::Ending,
          client.keep_alive ? kHealthRequestLimit : kHealthGoodbyeLimit);
    client.connection->resume_reading();
  }

  void drop(Client& client) {
    client.connection->close();
    client.deadline.cancel();
    // It may be the one whose method is running.
    const auto found = clients_.find(client.id);
    gone_.push_back(std::move(found->second));
    clients_.erase(found);
    if (gone_.size() == 1) loop_.post([this] { gone_.clear(); });
  }

  io::Loop& loop_;
  HealthProbe& probe_;
  std::function<void(const std::string&)> warn_;
  bool warned_ = false;
  std::map<std::uint64_t, std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<Client>> gone_;
  std::uint64_t next_ = 1;
};

class ThreadedServer final : public HealthServer {
 public:
  ~ThreadedServer() override {
    *here_ = false;
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
  }

  Result<void> open(const HealthOptions& options, io::Loop& agent, Source source) {
    auto loop = io::Loop::open();
    if (!loop) return tl::unexpected(loop.error());
    loop_ = std::move(*loop);
    auto listener = io::Listener::open(*loop_, options.address, options.port);
    if (!listener) return tl::unexpected(listener.error());
    listener_ = std::move(*listener);
    probe_.emplace(*loop_, agent, options.limit, std::move(source.look), board_, here_);
    host_.emplace(*loop_, *listener_, *probe_, std::move(source.warn));
    try {
      thread_ = std::thread([this] {
        io::name_this_thread("health");
        loop_->run();
      });
    } catch (const std::system_error& error) {
      return fail(ErrorKind::Io, std::string("no thread for a health port: ") + error.what());
    }
    return {};
  }

  void publish(HealthSnapshot snapshot) override { board_->put(std::move(snapshot)); }
  std::uint16_t port() const override { return listener_->port(); }
  std::vector<std::string> addresses() const override { return listener_->addresses(); }

 private:
  std::shared_ptr<HealthBoard> board_ = std::make_shared<HealthBoard>();
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
  std::unique_ptr<io::Loop> loop_;
  std::unique_ptr<io::Listener> listener_;
  std::optional<HealthProbe> probe_;
  std::optional<Host> host_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HealthServer>> HealthServer::start(const HealthOptions& options,
                                                          io::Loop& agent, Source source) {
  auto server = std::make_unique<ThreadedServer>();
  if (auto opened = server->open(options, agent, std::move(source)); !opened)
    return tl::unexpected(opened.error());
  return server;
}

}  // namespace regroup::runtime
