#include "wire/rendezvous/claim_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "wire/bytes/limits.h"

namespace regroup::wire {
namespace {

using core::rendezvous::Claim;
using core::rendezvous::HeldRank;
using core::rendezvous::Seal;

TEST(ClaimText, ReadsWhatItWrites) {
  const std::pair<Claim, std::string> claims[] = {
      {{"gpu-03", {}, {}}, "-:-:gpu-03"},
      {{"gpu-03", 3, HeldRank{7, 1, 4}}, "3:7.1.4:gpu-03"},
      {{"", 0, {}}, "0:-:"},
      {{"a:b:-\n", {}, HeldRank{0, 0, 0}}, "-:0.0.0:a:b:-\n"},
      {{"x", INT64_MAX, {}}, "9223372036854775807:-:x"},
  };
  for (const auto& [claim, text] : claims) {
    EXPECT_EQ(write_claim(claim), text);
    EXPECT_EQ(parse_claim(text), claim) << text;
  }
  EXPECT_EQ(write_seal({7, 4}), "7:4");
  EXPECT_EQ(parse_seal("7:4"), (Seal{7, 4}));
}

TEST(ClaimText, TakesAnotherFormForNothingSaid) {
  for (const char* text : {"",
                           "-",
                           "-:",
                           "-:-",
                           ":-:x",
                           "-::x",
                           "-1:-:x",
                           "+1:-:x",
                           "01:-:x",
                           " 1:-:x",
                           "1 :-:x",
                           "1x:-:x",
                           "9223372036854775808:-:x",
                           "-:1.2:x",
                           "-:1.2.3.4:x",
                           "-:1.2.-:x",
                           "-:.2.3:x",
                           "-:1..3:x",
                           "-:1.2.03:x",
                           "v2:-:-:x"})
    EXPECT_FALSE(parse_claim(text)) << text;
  EXPECT_FALSE(parse_claim("-:-:" + std::string(kClaimBytes, 'x')));
  for (const char* text : {"", ":", "7", "7:", ":4", "7:4:1", "-7:4", "7:-4", "07:4", "7: 4", "-"})
    EXPECT_FALSE(parse_seal(text)) << text;
}

}  // namespace
}  // namespace regroup::wire
