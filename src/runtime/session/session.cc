#include "runtime/session/session.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include "base/byte_buffer.h"
#include "io/loop/clock.h"
#include "runtime/common/backoff.h"
#include "runtime/common/log.h"
#include "runtime/session/pulse.h"
#include "runtime/session/session_line.h"
#include "wire/session/session.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;

std::chrono::steady_clock::time_point until(Instant at) {
  return std::chrono::steady_clock::time_point(at.since_start);
}

// What the session's thread waits for. Shared, because a connect() may outlive the session.
struct Awaited {
  std::mutex mutex;
  std::condition_variable changed;
  bool ending = false;
  bool connecting = false;
  std::optional<OpenedSession> connected = {};
  std::string refused = {};                // Why the last try was refused for good.
  std::shared_ptr<SessionLine> line = {};  // Empty while it is lost.
  std::uint64_t pings = 0;                 // Numbers given to pings; none comes twice.
  std::uint64_t answered = 0;
};

class TheSession final : public Session {
 public:
  TheSession(OpenedSession first, SessionOptions options) : options_(std::move(options)) {
    awaited_->line = std::make_shared<SessionLine>(std::move(first));
  }

  Result<void> start_thread() {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      return fail(ErrorKind::Io, std::string("no thread for the session: ") + error.what());
    }
    return {};
  }

  ~TheSession() override {
    {
      const std::lock_guard lock(awaited_->mutex);
      awaited_->ending = true;
      if (awaited_->line) awaited_->line->shut_down();
    }
    awaited_->changed.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  void say(const FromAgent& message) override {
    if (const auto line = current()) line->say(message);
  }

  void flush(Duration limit) override {
    const Instant deadline = io::deadline_after(limit);
    const auto line = current();
    if (!line) return;
    // The coordinator reads in order: with the answer to the last it has heard all.
    const std::uint64_t number = ping(*line);
    std::unique_lock lock(awaited_->mutex);
    awaited_->changed.wait_until(lock, until(deadline), [&] {
      return awaited_->ending || awaited_->line != line || awaited_->answered >= number;
    });
  }

 private:
  void run() {
    for (auto line = current(); line; line = reconnect()) {
      line->introduce(options_.introduction());
      const std::string why = serve(*line);
      {
        const std::lock_guard lock(awaited_->mutex);
        awaited_->line.reset();
      }
      awaited_->changed.notify_all();
      // Whoever is in say() holds it, too; it must be over now, and not when he is through.
      line->shut_down();
      line.reset();
      if (refused_ || is_ending()) return;
      if (options_.on_lost) options_.on_lost(why);
    }
  }

  // Why the connection is lost.
  std::string serve(SessionLine& line) {
    Pulse pulse(options_.heartbeat_limit, io::now());
    ByteBuffer in;
    std::size_t at_least = 0;
    for (;;) {
      constexpr std::size_t kRoom = 16 * 1024;
      // It reads what is there even when the time has passed.
      auto got = line.receive(in.prepare(kRoom), pulse.next());
      if (got) {
        in.commit(*got);
        if (in.size() >= at_least)
          if (auto why = take_messages(line, in, at_least, pulse)) return *why;
        // A stranger that says something now and then is not the coordinator.
        if (!line.awaits_proof()) pulse.heard(io::now());
      } else if (got.error().kind != ErrorKind::Timeout) {
        return got.error().message;
      }
      switch (pulse.look(io::now())) {
        case Pulse::Due::Nothing:
          break;
        case Pulse::Due::Ping:
          ping(line);
          break;
        case Pulse::Due::Lost:
          return "the coordinator is silent";
      }
    }
  }

  // Hands on the whole frames. Why the connection cannot go on, if so.
  std::optional<std::string> take_messages(SessionLine& line, ByteBuffer& in, std::size_t& at_least,
                                           Pulse& pulse) {
    for (;;) {
      auto parsed = wire::parse_frame_from_coordinator(in.view());
      if (const auto* more = std::get_if<wire::NeedMore>(&parsed)) {
        at_least = more->at_least;
        // Nobody has to keep much for a stranger.
        if (line.awaits_proof() && at_least > wire::kLargestFrame) return not_proven();
        return std::nullopt;
      }
      if (const auto* wrong = std::get_if<wire::Malformed>(&parsed))
        return line.awaits_proof() ? not_proven() : complain(wrong->reason);
      auto* whole = std::get_if<wire::WholeFrame<FromCoordinator>>(&parsed);
      const std::size_t size = whole ? whole->size : std::get<wire::SkippedFrame>(parsed).size;
      FrameSealer* sealer = line.sealer();
      const std::size_t sealed_size = with_seal(sealer, size);
      if (in.size() < sealed_size) {
        at_least = sealed_size;
        return std::nullopt;
      }
      if (!seal_fits(sealer, in.view(), size))
        return complain("a frame without the seal of the coordinator");
      in.consume(sealed_size);
      if (!whole) continue;
      if (is_ending()) return "the session ends";
      if (line.awaits_proof() && !std::holds_alternative<Refused>(whole->message)) {
        if (!line.take_proof(whole->message)) return not_proven();
        continue;
      }
      if (const auto* pong = std::get_if<Pong>(&whole->message)) {
        heard_pong(pong->number);
        continue;
      }
      std::optional<std::string> refused;
      if (const auto* no = std::get_if<Refused>(&whole->message)) {
        if (line.awaits_proof() && was_served_) return "the coordinator refused: " + no->why;
        refused_ = no->lasting;
        refused = "the coordinator refused: " + no->why;
      } else {
        // Only whoever is served comes back quickly the next time.
        pauses_ = first_pauses();
        was_served_ = true;
      }
      if (const auto* welcome = std::get_if<Welcome>(&whole->message))
        pulse.set_limit(welcome->rules.heartbeat_limit);
      options_.on_message(std::move(whole->message));
      if (refused) return refused;
    }
  }

  // At first that is the end. Later somebody may have taken the place of a coordinator that is
  // being started again, and it is waited for.
  std::string not_proven() {
    if (!was_served_) {
      refused_ = true;
      options_.on_message(Refused{.why = kNotProven, .lasting = true});
    }
    return kNotProven;
  }

  // A server that says the same nonsense on every connection is complained about once.
  std::string complain(const std::string& reason) {
    std::string why = "the coordinator said what cannot be understood: " + reason;
    if (why != complaint_) log_warning("session: " + why + "; connecting again");
    complaint_ = why;
    return why;
  }

  // Empty: the session ends.
  std::shared_ptr<SessionLine> reconnect() {
    for (;;) {
      if (!pause(pauses_.next())) return nullptr;
      auto opened = try_to_connect();
      if (std::string why = take_refusal(); !why.empty()) {
        if (!was_served_) {
          options_.on_message(Refused{.why = std::move(why), .lasting = true});
          return nullptr;
        }
        if (options_.on_lost && why != refusal_) options_.on_lost(why);
        refusal_ = std::move(why);
      }
      const std::lock_guard lock(awaited_->mutex);
      if (awaited_->ending) return nullptr;
      if (!opened) continue;
      // From here on what is said waits for the introduction; until here it was dropped, and the
      // introduction that is asked for now knows of it.
      return awaited_->line = std::make_shared<SessionLine>(std::move(*opened));
    }
  }

  // Empty: it failed, or the session ends.
  std::optional<OpenedSession> try_to_connect() {
    std::unique_lock lock(awaited_->mutex);
    awaited_->connecting = true;
    try {
      std::thread([awaited = awaited_, connect = options_.connect] {
        auto made = connect();
        {
          const std::lock_guard own_lock(awaited->mutex);
          awaited->connecting = false;
          if (made && !awaited->ending) awaited->connected = std::move(*made);
          if (!made && made.error().kind == ErrorKind::Refused)
            awaited->refused = made.error().message;
        }
        awaited->changed.notify_all();
      }).detach();
    } catch (const std::system_error&) {
      return std::nullopt;  // There may be room for a thread the next time.
    }
    awaited_->changed.wait(lock, [&] { return awaited_->ending || !awaited_->connecting; });
    return std::exchange(awaited_->connected, std::nullopt);
  }

  // Empty: it was not, or nobody is to be told any more.
  std::string take_refusal() {
    const std::lock_guard lock(awaited_->mutex);
    return awaited_->ending ? std::string() : std::exchange(awaited_->refused, {});
  }

  // False: the session ends.
  bool pause(Duration length) {
    const Instant end = io::deadline_after(length);
    std::unique_lock lock(awaited_->mutex);
    return !awaited_->changed.wait_until(lock, until(end), [&] { return awaited_->ending; });
  }

  std::uint64_t ping(SessionLine& line) {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(awaited_->mutex);
      number = ++awaited_->pings;
    }
    line.say(Ping{number});
    return number;
  }

  void heard_pong(std::uint64_t number) {
    {
      const std::lock_guard lock(awaited_->mutex);
      if (number > awaited_->pings || number <= awaited_->answered) return;
      awaited_->answered = number;
    }
    awaited_->changed.notify_all();
  }

  std::shared_ptr<SessionLine> current() const {
    const std::lock_guard lock(awaited_->mutex);
    return awaited_->line;
  }

  bool is_ending() const {
    const std::lock_guard lock(awaited_->mutex);
    return awaited_->ending;
  }

  static Backoff first_pauses() { return {20ms, 1s}; }

  const SessionOptions options_;
  const std::shared_ptr<Awaited> awaited_ = std::make_shared<Awaited>();
  std::thread thread_;

  // The session's thread only.
  bool refused_ = false;     // For good.
  bool was_served_ = false;  // By a coordinator that was believed.
  std::string refusal_;      // What was told last.
  std::string complaint_;
  Backoff pauses_ = first_pauses();
};

}  // namespace

Result<std::unique_ptr<Session>> Session::start(OpenedSession first, SessionOptions options) {
  auto session = std::make_unique<TheSession>(std::move(first), std::move(options));
  if (auto started = session->start_thread(); !started) return tl::unexpected(started.error());
  return session;
}

}  // namespace regroup::runtime
