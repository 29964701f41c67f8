// Any bytes from a client must be harmless to the health port.
//
// The first eight bytes of an input choose how the rest is cut into reads. Beyond not crashing:
// - cut or whole, the same bytes give the same requests and the same refusal;
// - no request is longer than the limit, and what is asked for with GET is a path;
// - every refusal has a status that an answer can be made of.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/random.h"
#include "wire/text/http.h"

namespace {

using namespace regroup;

constexpr std::size_t kSmall = 256;

class Reader {
 public:
  void hear(std::string_view bytes) {
    if (refused_) return;
    input_.append(bytes);
    while (!refused_) {
      const auto parsed = wire::parse_http_request(input_, kSmall);
      if (std::holds_alternative<wire::HttpNeedMore>(parsed)) {
        CHECK(input_.size() < kSmall);
        return;
      }
      if (const auto* refusal = std::get_if<wire::HttpRefusal>(&parsed)) {
        CHECK(!wire::http_status_text(refusal->status).empty() && !refusal->reason.empty());
        heard_ += std::to_string(refusal->status) + " " + refusal->reason;
        refused_ = true;
        return;
      }
      const auto& whole = std::get<wire::HttpWhole>(parsed);
      CHECK(whole.size > 0 && whole.size <= kSmall);
      CHECK(!whole.request.method.empty());
      CHECK(whole.request.method != "GET" || whole.request.path.starts_with('/'));
      heard_ += std::string(whole.request.method) + " " + std::string(whole.request.path) +
                (whole.request.keep_alive ? " and on\n" : "\n");
      input_.erase(0, whole.size);
    }
  }

  const std::string& heard() const { return heard_; }

 private:
  std::string input_;
  std::string heard_;
  bool refused_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint64_t seed = 0;
  if (size < sizeof seed) return 0;
  std::memcpy(&seed, data, sizeof seed);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + sizeof seed,
                               size - sizeof seed);
  Reader whole;
  whole.hear(bytes);

  Reader cut;
  SeededRandom random(seed);
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t piece = 1 + random.below(std::min<std::size_t>(rest.size(), 24));
    cut.hear(rest.substr(0, piece));
    rest.remove_prefix(piece);
  }
  CHECK(whole.heard() == cut.heard());
  return 0;
}
