#include "cli/endpoint.h"

#include <gtest/gtest.h>

namespace regroup::cli {
namespace {

TEST(Endpoint, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(parse_endpoint("node-1:29500")->host, "node-1");
  EXPECT_EQ(parse_endpoint("node-1:29500")->port, 29500);
  EXPECT_EQ(parse_endpoint("[::1]:80")->host, "::1");
}

TEST(Endpoint, SaysWhatIsWrong) {
  for (const char* text : {"", "node", ":80", "node:", "node:0", "node:65536", "node:80x", "::1:80",
                           "[]:80", "node:-1"}) {
    const auto parsed = parse_endpoint(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::InvalidArgument);
    EXPECT_NE(parsed.error().message.find("HOST:PORT"), std::string::npos);
  }
}

}  // namespace
}  // namespace regroup::cli
