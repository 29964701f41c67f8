// Any bytes in a session must be harmless to either end.
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "wire/session/session.h"

using namespace regroup;

namespace {

// The verdict on the front of the bytes comes as soon as the bytes it depends on are there, and
// stays.
template <class Message, class Parse>
void check_cuts(std::string_view bytes, const wire::ParsedFrame<Message>& parsed,
                std::size_t whole_size, const Parse& parse) {
  const auto check_cut = [&](std::size_t cut) {
    const auto part = parse(bytes.substr(0, cut));
    if (const auto* more = std::get_if<wire::NeedMore>(&part)) {
      CHECK(more->at_least > cut);
      // NeedMore never asks for more than the verdict takes, or a peer would wait for ever.
      if (!std::holds_alternative<wire::NeedMore>(parsed)) CHECK(more->at_least <= whole_size);
    } else {
      const auto* early = std::get_if<wire::Malformed>(&part);
      const auto* late = std::get_if<wire::Malformed>(&parsed);
      CHECK(early != nullptr && late != nullptr && early->reason == late->reason);
    }
  };
  // Every byte of the head, then fewer and fewer: nearly all of a long frame is text.
  for (std::size_t cut = 0; cut < whole_size; cut += 1 + cut / 16) check_cut(cut);
  if (whole_size > 0) check_cut(whole_size - 1);
}

template <class Message, class Parse>
void check_stream(std::string_view bytes, const Parse& parse) {
  for (;;) {
    const wire::ParsedFrame<Message> parsed = parse(bytes);
    std::size_t size = bytes.size();
    if (const auto* more = std::get_if<wire::NeedMore>(&parsed)) {
      CHECK(more->at_least > bytes.size() && more->at_least <= wire::kLargestReport);
    } else if (const auto* wrong = std::get_if<wire::Malformed>(&parsed)) {
      CHECK(!wrong->reason.empty());
    } else if (const auto* skipped = std::get_if<wire::SkippedFrame>(&parsed)) {
      size = skipped->size;
    } else {
      const auto& whole = std::get<wire::WholeFrame<Message>>(parsed);
      size = whole.size;
      ByteBuffer again;
      wire::append_frame(again, whole.message);
      // Fields that a newer peer has added are gone, those that an older one left out are there,
      // and nothing else has changed.
      const auto read = parse(again.view());
      const auto* same = std::get_if<wire::WholeFrame<Message>>(&read);
      CHECK(same != nullptr && same->size == again.size() && same->message == whole.message);
    }
    CHECK(size <= bytes.size());
    check_cuts<Message>(bytes, parsed, size, parse);
    if (parsed.index() > 1) return;
    CHECK(size > 4);
    bytes.remove_prefix(size);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_stream<core::coordinator::FromAgent>(bytes, wire::parse_frame_from_agent);
  check_stream<core::coordinator::FromCoordinator>(bytes, wire::parse_frame_from_coordinator);
  return 0;
}
