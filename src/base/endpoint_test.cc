#include "base/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup {
namespace {

using testing::HasSubstr;

constexpr std::uint16_t kDefault = 29400;

TEST(Endpoint, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(*parse_endpoint("node-1:29500"), (Endpoint{"node-1", 29500}));
  EXPECT_EQ(*parse_endpoint("[::1]:80"), (Endpoint{"::1", 80}));
}

TEST(Endpoint, SaysWhatIsWrong) {
  for (const char* text : {"", "node", ":80", "node:", "node:0", "node:65536", "node:80x", "::1:80",
                           "[]:80", "node:-1", "[::1]", " node:80", "[node]:80", "[::1]80",
                           "tcp://node:80", "::1", "node:+80", "node:000080"}) {
    const auto parsed = parse_endpoint(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::InvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr("HOST:PORT"));
    EXPECT_THAT(parsed.error().message, HasSubstr("'" + std::string(text) + "'"));
  }
}

TEST(Endpoint, OfARendezvousMayLeaveOutThePort) {
  const auto read = [](std::string_view text) { return *parse_endpoint(text, kDefault); };
  EXPECT_EQ(read(""), (Endpoint{"localhost", kDefault}));
  EXPECT_EQ(read(" \t\n"), (Endpoint{"localhost", kDefault}));
  EXPECT_EQ(read("node-1"), (Endpoint{"node-1", kDefault}));
  EXPECT_EQ(read(" node_1.cluster.local:1234 "), (Endpoint{"node_1.cluster.local", 1234}));
  EXPECT_EQ(read("localhost:0"), (Endpoint{"localhost", 0}));
  EXPECT_EQ(read("10.0.0.1:65535"), (Endpoint{"10.0.0.1", 65535}));
  EXPECT_EQ(read("node:00080"), (Endpoint{"node", 80}));
}

TEST(Endpoint, OfARendezvousMayBeABareIpv6Address) {
  const auto read = [](std::string_view text) { return *parse_endpoint(text, kDefault); };
  EXPECT_EQ(read("[fd00::2]"), (Endpoint{"fd00::2", kDefault}));
  EXPECT_EQ(read("[fd00::2]:80"), (Endpoint{"fd00::2", 80}));
  EXPECT_EQ(read("fd00::2"), (Endpoint{"fd00::2", kDefault}));
  EXPECT_EQ(read("::"), (Endpoint{"::", kDefault}));
  EXPECT_EQ(read("fe80::1%eth0"), (Endpoint{"fe80::1%eth0", kDefault}));
  EXPECT_EQ(read("[fe80::1%eth0.7]:80"), (Endpoint{"fe80::1%eth0.7", 80}));
  EXPECT_EQ(read("::ffff:10.0.0.1"), (Endpoint{"::ffff:10.0.0.1", kDefault}));
  EXPECT_EQ(read("fd00::2:8080"), (Endpoint{"fd00::2:8080", kDefault}));
  // No group has five digits, so this can only be a port; torchrun reads it so, too.
  EXPECT_EQ(read("fd00::2:29400"), (Endpoint{"fd00::2", 29400}));
  EXPECT_EQ(read("1:2:3:4:5:6:7:8:80"), (Endpoint{"1:2:3:4:5:6:7:8", 80}));
}

TEST(Endpoint, OfARendezvousIsRefusedWithHowToWriteIt) {
  for (const char* text :
       {":80", "node:", "node:65536", "node:123456", "node:80x", "node:-1", "[]:80", "[::1",
        "a:b:80", "tcp://node:80", "node,other", "no de", "[::1]:", "[::1]80", "node%eth0",
        "[fe80::1%]", "::1::2", "1:2:3:4:5:6:7:8:9:80"}) {
    const auto parsed = parse_endpoint(text, kDefault);
    ASSERT_FALSE(parsed) << text << " became " << parsed->host;
    EXPECT_EQ(parsed.error().kind, ErrorKind::InvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr("'" + std::string(text) + "'"));
    EXPECT_THAT(parsed.error().message, HasSubstr("HOST:PORT"));
  }
  EXPECT_THAT(parse_endpoint("a\x1b[31m", kDefault).error().message, HasSubstr("\\x1b"));
}

TEST(Ipv6Literal, IsWhatTheKernelWouldTake) {
  for (const char* text : {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::8", "1:2:3:4:5:6:7::",
                           "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "FE80::a%eth0", "fe80::1%2"})
    EXPECT_TRUE(is_ipv6_literal(text)) << text;
  for (const char* text : {"",
                           ":",
                           ":::",
                           "1",
                           "1:2",
                           "1:2:3:4:5:6:7",
                           "1:2:3:4:5:6:7:8:9",
                           "1:2:3:4:5:6:7:8::",
                           "1::2::3",
                           "12345::",
                           "g::",
                           "::1.2.3",
                           "::1.2.3.4.5",
                           "::1.2.3.256",
                           "1.2.3.4::",
                           "::1%",
                           "%eth0",
                           "1.2.3.4",
                           ":1:2:3:4:5:6:7",
                           "::1.2.3.-4",
                           "::1..3.4",
                           "1:2:3:4:5:6:7:1.2.3.4"})
    EXPECT_FALSE(is_ipv6_literal(text)) << text;
}

}  // namespace
}  // namespace regroup
