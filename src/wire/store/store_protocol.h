// PyTorch's TCPStore protocol, layouts C to G (PyTorch 2.2 to 2.14), for both ends.
//
// Plain little-endian bytes: an opcode, then fields; a string is a u64 length and its bytes. There
// is no framing, so where a message ends is known only by parsing it whole. Nothing here keeps
// bytes between calls: the same bytes give the same messages, however they were cut on their way.
//
// docs/protocol.md has the table of opcodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/byte_buffer.h"
#include "core/store/limits.h"
#include "core/store/messages.h"
#include "wire/bytes/text_list.h"

namespace regroup::wire {

template <class Message>
struct Whole {
  Message message;  // Holds views into the bytes, and into the parser until its next call.
  std::size_t size = 0;
};

// ---- The server's end ----

// What a client must say first. Clients of PyTorch 2.1 and older send no greeting; they, and
// strangers such as a web browser, are Malformed with a reason that names them.
struct Greeting {};
using ParsedGreeting = std::variant<Whole<Greeting>, NeedMore, Malformed>;
ParsedGreeting parse_greeting(std::string_view bytes);

using ParsedRequest = std::variant<Whole<core::store::Request>, NeedMore, Malformed>;

// One serves all connections: it keeps no bytes, only room for the lists of the latest message.
class RequestParser {
 public:
  explicit RequestParser(const core::store::Limits& limits) : limits_(limits) {}

  // `progress` belongs to the connection, and remembers how far the message at the front of `bytes`
  // was understood.
  ParsedRequest parse(std::string_view bytes, Progress& progress);

 private:
  core::store::Limits limits_;
  std::vector<std::string_view> keys_;
  std::vector<core::store::Entry> entries_;
};

void append_reply(ByteBuffer& out, const core::store::Reply& reply);

// ---- The client's end ----

void append_greeting(ByteBuffer& out);
void append_request(ByteBuffer& out, const core::store::Request& request);

// What the answer to a request looks like; the bytes alone do not tell.
enum class ReplyShape { None, Pong, Value, Number, Ready, WaitEnded, Values, Popped, KeyList };
ReplyShape reply_shape(const core::store::Request& request);

using ParsedReply = std::variant<Whole<core::store::Reply>, NeedMore, Malformed>;

class ReplyParser {
 public:
  // `most_bytes`: if a server announces a longer answer, the connection is given up.
  explicit ReplyParser(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // `count`: how many values were asked for; used for ReplyShape::Values alone. `progress` as
  // above.
  ParsedReply parse(ReplyShape shape, std::size_t count, std::string_view bytes,
                    Progress& progress);

 private:
  std::size_t most_bytes_;
  std::vector<std::string_view> views_;
};

}  // namespace regroup::wire
