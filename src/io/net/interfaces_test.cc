#include "io/net/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

namespace regroup::io {
namespace {

using testing::Contains;

Address literal(const std::string& text, std::uint16_t port = 0) {
  return *literal_address(text, port);
}

Address with_scope(Address address, std::uint32_t scope) {
  reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_scope_id = scope;
  return address;
}

TEST(LocalAddresses, HoldOnlyWhatCanBeBound) {
  const auto local = local_addresses();
  ASSERT_TRUE(local) << local.error().message;
  for (const Address& address : *local) {
    EXPECT_TRUE(is_local(address, *local));
    if (address.family() == AF_INET6)
      continue;  // It may still be looking for duplicates of itself.
    const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(fd, address.get(), address.size), 0) << address.text();
    ::close(fd);
  }
}

TEST(LocalAddresses, KnowTheLoopback) {
  std::vector<std::string> texts;
  const auto local = local_addresses();
  for (const Address& address : *local) texts.push_back(host_text(address));
  EXPECT_THAT(texts, Contains("127.0.0.1"));
}

TEST(IsLocal, ComparesWithoutThePort) {
  const std::vector<Address> local{literal("10.0.0.5"), literal("fd00::5")};
  EXPECT_TRUE(is_local(literal("10.0.0.5", 29400), local));
  EXPECT_TRUE(is_local(literal("fd00::5", 29400), local));
  EXPECT_FALSE(is_local(literal("10.0.0.6"), local));
  EXPECT_FALSE(is_local(literal("fd00::6"), local));
}

TEST(IsLocal, KnowsAnIpv4AddressInEitherForm) {
  EXPECT_TRUE(is_local(literal("::ffff:10.0.0.5"), {literal("10.0.0.5")}));
  EXPECT_TRUE(is_local(literal("10.0.0.5"), {literal("::ffff:10.0.0.5")}));
  EXPECT_FALSE(is_local(literal("::10.0.0.5"), {literal("10.0.0.5")}));
}

TEST(IsLocal, TakesEveryLoopbackForLocal) {
  for (const char* text : {"127.0.0.1", "127.0.1.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_local(literal(text), {})) << text;
  for (const char* text : {"128.0.0.1", "::2", "1::1", "::127.0.0.1", "0.0.0.0", "::"})
    EXPECT_FALSE(is_local(literal(text), {})) << text;
}

TEST(IsLocal, ComparesScopesOnlyWhereBothHaveOne) {
  const Address bare = literal("fe80::1");
  EXPECT_TRUE(is_local(bare, {with_scope(bare, 2)}));
  EXPECT_TRUE(is_local(with_scope(bare, 2), {bare}));
  EXPECT_TRUE(is_local(with_scope(bare, 2), {with_scope(bare, 2)}));
  EXPECT_FALSE(is_local(with_scope(bare, 2), {with_scope(bare, 3)}));
}

TEST(Address, IsKnownByItsKind) {
  EXPECT_TRUE(is_wildcard(literal("0.0.0.0")));
  EXPECT_TRUE(is_wildcard(literal("::")));
  EXPECT_FALSE(is_wildcard(literal("::1")));
  EXPECT_FALSE(is_wildcard(literal("0.0.0.1")));
  EXPECT_TRUE(is_link_local(literal("169.254.1.1")));
  EXPECT_TRUE(is_link_local(literal("fe80::1")));
  EXPECT_FALSE(is_link_local(literal("fd00::1")));
}

TEST(LiteralAddress, IsNoName) {
  EXPECT_EQ(literal("10.0.0.5", 80).text(), "10.0.0.5:80");
  EXPECT_EQ(literal("fd00::5", 80).text(), "[fd00::5]:80");
  for (const char* name : {"localhost", "node-1", "", "10.0.0.256", "fd00:5"})
    EXPECT_FALSE(literal_address(name)) << name;
}

TEST(HostText, HasNoPortAndShowsMappedIpv4Plainly) {
  EXPECT_EQ(host_text(literal("10.0.0.5", 80)), "10.0.0.5");
  EXPECT_EQ(host_text(literal("::ffff:10.0.0.5", 80)), "10.0.0.5");
  EXPECT_EQ(host_text(literal("fd00::5", 80)), "fd00::5");
}

TEST(HostName, IsNotEmpty) { EXPECT_FALSE(host_name().empty()); }

}  // namespace
}  // namespace regroup::io
