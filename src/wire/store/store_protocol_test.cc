#include "wire/store/store_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/store/keyspace.h"

namespace regroup::wire {
namespace {

using namespace core::store;
using testing::HasSubstr;

// "01 02ff" → the bytes.
std::string from_hex(std::string_view text) {
  std::string bytes;
  std::string digits;
  for (const char c : text) {
    if (c == ' ') continue;
    digits += c;
    if (digits.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
    digits.clear();
  }
  return bytes;
}

// A connection in miniature: bytes go in by pieces, answers come out.
class Conversation {
 public:
  std::string hear(std::string_view bytes) {
    input_.append(bytes);
    ByteBuffer answers;
    while (!closed) {
      auto parsed = parser_.parse(input_.view(), progress_);
      if (auto* wrong = std::get_if<Malformed>(&parsed)) {
        closed = true;
        reason = wrong->reason;
      }
      auto* whole = std::get_if<Whole<Request>>(&parsed);
      if (whole == nullptr) break;
      Effects effects;
      if (!keyspace_.apply(ClientId{1}, whole->message, effects)) closed = true;
      for (const Effect& effect : effects) append_reply(answers, effect.reply);
      input_.consume(whole->size);
    }
    return std::string(answers.view());
  }

  bool closed = false;
  std::string reason;

 private:
  RequestParser parser_{Limits{}};
  Keyspace keyspace_;
  Progress progress_;
  ByteBuffer input_;
};

struct Golden {
  const char* what;
  const char* request;
  const char* answer;
};

// Recorded from PyTorch's own client and server. One story: each line finds what the earlier left.
constexpr Golden kGolden[] = {
    {"ping", "0d 7b140000", "7b140000"},
    {"set k=v", "01 0200000000000000 2f6b 0100000000000000 76", ""},
    {"wait k", "06 0100000000000000 0200000000000000 2f6b", "00"},
    {"get k", "03 0200000000000000 2f6b", "0100000000000000 76"},
    {"add c 5", "04 0200000000000000 2f63 0500000000000000", "0500000000000000"},
    {"add c -7", "04 0200000000000000 2f63 f9ffffffffffffff", "feffffffffffffff"},
    {"compare_set n1", "02 0300000000000000 2f6e31 0000000000000000 0100000000000000 41",
     "0100000000000000 41"},
    {"check k zz", "05 0200000000000000 0200000000000000 2f6b 0300000000000000 2f7a7a", "01"},
    {"wait zz, cancelled", "06 0100000000000000 0300000000000000 2f7a7a 0c", "01"},
    {"multi_set",
     "0b 0200000000000000 0300000000000000 2f6d31 0100000000000000 31 0300000000000000 2f6d32 "
     "0200000000000000 3232",
     ""},
    {"multi_get", "0a 0200000000000000 0300000000000000 2f6d31 0300000000000000 2f6d32",
     "0100000000000000 31 0200000000000000 3232"},
    {"num_keys", "07", "0500000000000000"},
    {"delete_key k", "08 0200000000000000 2f6b", "0100000000000000"},
    {"append m1", "09 0300000000000000 2f6d31 0100000000000000 32", ""},
    {"get m1", "03 0300000000000000 2f6d31", "0200000000000000 3132"},
    {"queue_push", "0e 0200000000000000 2f71 0100000000000000 78", ""},
    {"queue_len", "10 0200000000000000 2f71", "0100000000000000"},
    {"queue_pop", "0f 0200000000000000 2f71", "0100000000000000 0100000000000000 78"},
    {"queue_pop, empty", "0f 0200000000000000 2f71", "0000000000000000"},
    {"barrier b 1", "12 0200000000000000 2f62 0100000000000000", "00"},
    {"init/", "04 0500000000000000 696e69742f 0100000000000000", "0100000000000000"},
};

TEST(StoreProtocol, AnswersTheGoldenBytes) {
  Conversation conversation;
  for (const Golden& golden : kGolden)
    EXPECT_EQ(conversation.hear(from_hex(golden.request)), from_hex(golden.answer)) << golden.what;
}

TEST(StoreProtocol, AnswersTheSameHoweverTheBytesAreCut) {
  for (const Golden& golden : kGolden) {
    const std::string request = from_hex(golden.request);
    for (std::size_t cut = 1; cut < request.size(); ++cut) {
      Conversation conversation;
      for (const Golden& earlier : kGolden) {
        if (&earlier == &golden) break;
        conversation.hear(from_hex(earlier.request));
      }
      const std::string front = conversation.hear(std::string_view(request).substr(0, cut));
      const std::string back = conversation.hear(std::string_view(request).substr(cut));
      EXPECT_EQ(front + back, from_hex(golden.answer)) << golden.what << " cut at " << cut;
    }
  }
}

TEST(StoreProtocol, WritesTheRequestsThatItParses) {
  for (const Golden& golden : kGolden) {
    const std::string bytes = from_hex(golden.request);
    RequestParser parser{Limits{}};
    std::string_view rest = bytes;
    ByteBuffer written;
    while (!rest.empty()) {
      Progress progress;
      auto parsed = parser.parse(rest, progress);
      const auto& whole = std::get<Whole<Request>>(parsed);
      append_request(written, whole.message);
      rest.remove_prefix(whole.size);
    }
    EXPECT_EQ(written.view(), bytes) << golden.what;
  }
}

TEST(StoreProtocol, ReadsTheRepliesThatItWrites) {
  const std::string_view texts[] = {"a", "", "ccc"};
  const struct {
    ReplyShape shape;
    Reply reply;
  } cases[] = {
      {ReplyShape::Pong, Pong{7}},
      {ReplyShape::Value, Value{"abc"}},
      {ReplyShape::Number, Number{-3}},
      {ReplyShape::Ready, Ready{true}},
      {ReplyShape::Ready, Ready{false}},
      {ReplyShape::WaitEnded, WaitEnded{WaitEnd::Arrived}},
      {ReplyShape::WaitEnded, WaitEnded{WaitEnd::Cancelled}},
      {ReplyShape::Values, Values{texts}},
      {ReplyShape::Popped, Popped{}},
      {ReplyShape::Popped, Popped{2, "x"}},
      {ReplyShape::KeyList, KeyList{texts}},
  };
  for (const auto& [shape, reply] : cases) {
    ByteBuffer bytes;
    append_reply(bytes, reply);
    ReplyParser parser(1 << 20);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      Progress fresh;
      const auto parsed = parser.parse(shape, std::size(texts), bytes.view().substr(0, cut), fresh);
      ASSERT_TRUE(std::holds_alternative<NeedMore>(parsed)) << cut;
      EXPECT_GT(std::get<NeedMore>(parsed).at_least, cut);
      EXPECT_LE(std::get<NeedMore>(parsed).at_least, bytes.size());
    }
    Progress fresh;
    const auto parsed = parser.parse(shape, std::size(texts), bytes.view(), fresh);
    const auto& whole = std::get<Whole<Reply>>(parsed);
    EXPECT_EQ(whole.size, bytes.size());
    ByteBuffer again;
    append_reply(again, whole.message);
    EXPECT_EQ(again.view(), bytes.view());
  }
}

TEST(StoreProtocol, ClosesOnWhatCannotBe) {
  const struct {
    const char* bytes;
    const char* reason;
  } cases[] = {
      {"13", "unknown opcode, 19"},
      {"ff", "unknown opcode, 255"},
      {"00 cef7853c", "second greeting"},
      {"03 0120000000000000", "a key of 8193 bytes"},
      {"01 0100000000000000 6b 0100800000000000", "a value of 8388609 bytes"},
      {"06 0100020000000000", "131073 keys"},
      {"03 ffffffffffffffff", "a key of 18446744073709551615 bytes"},
      {"0b 0000000000000010", "keys in one request"},
  };
  for (const auto& [bytes, reason] : cases) {
    Conversation conversation;
    EXPECT_EQ(conversation.hear(from_hex(bytes)), "");
    EXPECT_TRUE(conversation.closed) << bytes;
    EXPECT_THAT(conversation.reason, HasSubstr(reason));
  }
}

TEST(StoreProtocol, TellsHowMuchIsMissing) {
  RequestParser parser{Limits{}};
  const auto at_least = [&](std::string_view hex) {
    const std::string bytes = from_hex(hex);
    Progress fresh;
    return std::get<NeedMore>(parser.parse(bytes, fresh)).at_least;
  };
  EXPECT_EQ(at_least(""), 1u);
  EXPECT_EQ(at_least("03"), 9u);
  EXPECT_EQ(at_least("03 0500000000000000 61"), 14u);
  EXPECT_EQ(at_least("06 0300000000000000"), 9u + 3 * 8);
  EXPECT_EQ(at_least("0b 0200000000000000"), 9u + 2 * 16);
}

TEST(StoreProtocol, LooksAtALongListOnceHoweverSlowlyItComes) {
  constexpr std::uint64_t kKeys = 100'000;
  ByteBuffer bytes;
  bytes.append_u8(6);
  bytes.append_u64(kKeys);
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    bytes.append_u64(1);
    bytes.append("k");
  }
  RequestParser parser{Limits{}};
  Progress progress;
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    const std::size_t before = progress.items;
    const auto parsed = parser.parse(bytes.view().substr(0, size), progress);
    ASSERT_TRUE(std::holds_alternative<NeedMore>(parsed));
    ASSERT_GE(progress.items, before);
  }
  EXPECT_EQ(progress.items, kKeys - 1);
  EXPECT_TRUE(std::holds_alternative<Whole<Request>>(parser.parse(bytes.view(), progress)));
  EXPECT_EQ(progress.items, 0u);  // Ready for the next message.
}

TEST(StoreProtocol, RefusesARequestThatWouldFillTheMemory) {
  Limits limits;
  limits.request_bytes = 1000;
  RequestParser parser{limits};
  const std::string bytes = from_hex("01 0100000000000000 6b e803000000000000");
  Progress fresh;
  EXPECT_THAT(std::get<Malformed>(parser.parse(bytes, fresh)).reason,
              HasSubstr("more than 1000 bytes"));
  // Also when it is all there.
  const std::string whole = bytes + std::string(1000, 'v');
  fresh = {};
  EXPECT_TRUE(std::holds_alternative<Malformed>(parser.parse(whole, fresh)));
}

TEST(StoreProtocol, KnowsItsClientsByTheirGreeting) {
  ByteBuffer greeting;
  append_greeting(greeting);
  EXPECT_EQ(greeting.view(), from_hex("00cef7853c"));
  EXPECT_EQ(std::get<Whole<Greeting>>(parse_greeting(greeting.view())).size, 5u);
  for (std::size_t cut = 0; cut < 5; ++cut)
    EXPECT_TRUE(std::holds_alternative<NeedMore>(parse_greeting(greeting.view().substr(0, cut))));
}

TEST(StoreProtocol, NamesStrangers) {
  const auto reason = [](std::string_view bytes) {
    return std::get<Malformed>(parse_greeting(bytes)).reason;
  };
  EXPECT_THAT(reason("GET / HTTP/1.1\r\n"), HasSubstr("HTTP"));
  EXPECT_THAT(reason("\x16\x03\x01"), HasSubstr("TLS"));
  EXPECT_THAT(reason(from_hex("00 0200000000000000 2f6b")), HasSubstr("PyTorch 2.1 or older"));
  EXPECT_THAT(reason(from_hex("03 0200000000000000 2f6b")), HasSubstr("PyTorch 2.1 or older"));
  EXPECT_THAT(reason("\xff"), HasSubstr("first byte is 255"));
}

TEST(StoreProtocol, DoesNotBelieveAServerThatPromisesTooMuch) {
  const auto is_malformed = [](ReplyShape shape, std::string_view bytes) {
    ReplyParser parser(1000);
    Progress fresh;
    return std::holds_alternative<Malformed>(parser.parse(shape, 0, bytes, fresh));
  };
  const std::string huge = from_hex("ffffffffffffff7f");
  EXPECT_TRUE(is_malformed(ReplyShape::Value, huge));
  EXPECT_TRUE(is_malformed(ReplyShape::KeyList, huge));
  EXPECT_TRUE(is_malformed(ReplyShape::WaitEnded, "\x02"));
  const std::string negative = from_hex("ffffffffffffffff");
  EXPECT_TRUE(is_malformed(ReplyShape::Popped, negative));
}

}  // namespace
}  // namespace regroup::wire
