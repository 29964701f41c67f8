#include "runtime/session/frame_reader.h"

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "core/coordinator/messages.h"

namespace regroup::runtime {
namespace {

using core::coordinator::FromAgent;
using core::coordinator::FromCoordinator;

template <class Message>
constexpr bool kIsFromAgent = std::is_same_v<Message, FromAgent>;

template <class Message>
wire::ParsedFrame<Message> parse(std::string_view bytes) {
  if constexpr (kIsFromAgent<Message>)
    return wire::parse_frame_from_agent(bytes);
  else
    return wire::parse_frame_from_coordinator(bytes);
}

// The size of the frame without its seal, as far as it is known.
template <class Message>
std::size_t known_size(const wire::ParsedFrame<Message>& parsed) {
  if (const auto* more = std::get_if<wire::NeedMore>(&parsed)) return more->at_least;
  if (const auto* skipped = std::get_if<wire::SkippedFrame>(&parsed)) return skipped->size;
  return std::get<wire::WholeFrame<Message>>(parsed).size;
}

template <class Message>
wire::Malformed wrong_seal() {
  return {kIsFromAgent<Message> ? "a frame without the seal of the node that has proven itself"
                                : "a frame without the seal of the coordinator"};
}

// Without a sealer (null) frames have no seal.
std::size_t with_seal(const FrameSealer* sealer, std::size_t size) {
  return sealer == nullptr ? size : size + kSealBytes;
}
bool seal_fits(FrameSealer* sealer, std::string_view bytes, std::size_t size) {
  return sealer == nullptr || sealer->fits(bytes.substr(0, size), bytes.substr(size, kSealBytes));
}

}  // namespace

template <class Message>
wire::ParsedFrame<Message> FrameReader<Message>::next(ByteBuffer& in,
                                                      const ExpectedFrame& expected) {
  if (in.size() < needs_) return wire::NeedMore{needs_};
  needs_ = 0;
  auto parsed = parse<Message>(in.view());
  if (std::holds_alternative<wire::Malformed>(parsed)) return parsed;
  const std::size_t size = known_size(parsed);
  if (expected.from_stranger && size > wire::kLargestFrame)
    return wire::Malformed{
        fmt::format("a frame of {} bytes, before it has proven itself; the limit is {}", size,
                    wire::kLargestFrame)};
  if (std::holds_alternative<wire::NeedMore>(parsed)) {
    needs_ = size;
    return parsed;
  }
  const std::size_t sealed_size = with_seal(expected.sealer, size);
  if (in.size() < sealed_size) {
    needs_ = sealed_size;
    return wire::NeedMore{needs_};
  }
  if (!seal_fits(expected.sealer, in.view(), size)) return wrong_seal<Message>();
  in.consume(sealed_size);
  return parsed;
}

template class FrameReader<FromAgent>;
template class FrameReader<FromCoordinator>;

}  // namespace regroup::runtime
