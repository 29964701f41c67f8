// The worst that any bytes from a client may do to a server is to get that client closed.
//
// The first eight bytes of an input choose how the rest is cut into reads. Beyond not crashing:
// - cut or whole, the same bytes give the same answers and the same end;
// - what was parsed is written again as the same bytes;
// - NeedMore never asks for less than is there, nor for more than the message turns out to have;
// - when everything is deleted again, the store holds nothing.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include "base/check.h"
#include "base/random.h"
#include "core/store/keyspace.h"
#include "wire/store/store_protocol.h"

namespace {

using namespace regroup;
using namespace regroup::core::store;

constexpr Limits kSmall{.key_bytes = 64,
                        .value_bytes = 512,
                        .keys_per_request = 32,
                        .request_bytes = 4096,
                        .keys = 32,
                        .memory_bytes = 16 * 1024,
                        .reply_bytes = 4096};

class Server {
 public:
  // Three clients take turns by request, so that waits of one are ended by another.
  void hear(std::string_view bytes) {
    input_.append(bytes);
    while (!closed_) {
      if (greeted_ ? !serve_request() : !serve_greeting()) return;
    }
  }

  void clean_up() {
    for (std::uint64_t client = 0; client < kClients; ++client) keyspace_.forget(ClientId{client});
    CHECK(keyspace_.waiting() == 0);
    CHECK(!keyspace_.next_deadline());
    Effects effects;
    for (const std::string& queue : queues_)
      while (keyspace_.queues() > 0) {
        effects.clear();
        CHECK(keyspace_.apply(ClientId{0}, QueuePop{queue}, effects));
        if (std::get<Popped>(effects[0].reply).length_before <= 1) break;
      }
    for (const std::string& key : keys_) {
      effects.clear();
      CHECK(keyspace_.apply(ClientId{0}, DeleteKey{key}, effects));
    }
    CHECK(keyspace_.keys() == 0 && keyspace_.queues() == 0 && keyspace_.bytes() == 0);
  }

  std::string end() const { return std::string(answers_.view()) + (closed_ ? " closed" : ""); }

 private:
  static constexpr std::uint64_t kClients = 3;

  template <class Parsed>
  bool wait_for_more(const Parsed& parsed) {
    if (const auto* more = std::get_if<wire::NeedMore>(&parsed)) {
      CHECK(more->at_least > input_.size());
    } else {
      closed_ = true;
    }
    return false;
  }

  bool serve_greeting() {
    if (input_.empty()) return false;
    auto parsed = wire::parse_greeting(input_.view());
    const auto* whole = std::get_if<wire::Whole<wire::Greeting>>(&parsed);
    if (whole == nullptr) return wait_for_more(parsed);
    input_.consume(whole->size);
    greeted_ = true;
    return true;
  }

  bool serve_request() {
    const std::size_t promised = progress_.at_least;
    auto parsed = parser_.parse(input_.view(), progress_);
    const auto* whole = std::get_if<wire::Whole<Request>>(&parsed);
    if (whole == nullptr) return wait_for_more(parsed);
    CHECK(whole->size >= promised && whole->size <= kSmall.request_bytes);
    ByteBuffer again;
    wire::append_request(again, whole->message);
    CHECK(again.view() == input_.view().substr(0, whole->size));
    remember(whole->message);
    Effects effects;
    const auto done = keyspace_.apply(ClientId{served_++ % kClients}, whole->message, effects);
    for (const Effect& effect : effects) {
      answers_.append_u8(static_cast<std::uint8_t>(effect.client.value));
      wire::append_reply(answers_, effect.reply);
    }
    CHECK(keyspace_.bytes() <= kSmall.memory_bytes);
    answers_.append_u8(done ? 'y' : 'n');
    input_.consume(whole->size);
    return true;
  }

  void remember(const Request& request) {
    if (const auto* r = std::get_if<Set>(&request)) keys_.emplace(r->key);
    if (const auto* r = std::get_if<CompareSet>(&request)) keys_.emplace(r->key);
    if (const auto* r = std::get_if<Add>(&request)) keys_.emplace(r->key);
    if (const auto* r = std::get_if<Append>(&request)) keys_.emplace(r->key);
    if (const auto* r = std::get_if<Barrier>(&request)) keys_.emplace(r->key);
    if (const auto* r = std::get_if<MultiSet>(&request))
      for (const Entry& entry : r->entries) keys_.emplace(entry.key);
    if (const auto* r = std::get_if<QueuePush>(&request)) queues_.emplace(r->key);
  }

  wire::RequestParser parser_{kSmall};
  Keyspace keyspace_{kSmall};
  ByteBuffer input_;
  ByteBuffer answers_;
  std::set<std::string> keys_;
  std::set<std::string> queues_;
  wire::Progress progress_;
  std::uint64_t served_ = 0;
  bool greeted_ = false;
  bool closed_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint64_t seed = 0;
  if (size < sizeof seed) return 0;
  std::memcpy(&seed, data, sizeof seed);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + sizeof seed,
                               size - sizeof seed);
  Server whole;
  whole.hear(bytes);

  Server cut;
  SeededRandom random(seed);
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t piece = 1 + random.below(std::min<std::size_t>(rest.size(), 24));
    cut.hear(rest.substr(0, piece));
    rest.remove_prefix(piece);
  }
  CHECK(whole.end() == cut.end());
  whole.clean_up();
  return 0;
}
