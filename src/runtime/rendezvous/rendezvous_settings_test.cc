#include "runtime/rendezvous/rendezvous_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "runtime/rendezvous/meet.h"
#include "runtime/rendezvous/rendezvous_testing.h"

namespace regroup {
namespace {

using testing::HasSubstr;

TEST(Rendezvous, BadParametersAreRefusedWithAReason) {
  const auto message = [](auto change) {
    RendezvousParameters parameters = between(1, 2);
    parameters.endpoint = "127.0.0.1:0";
    change(parameters);
    const auto made = make_rendezvous(parameters);
    if (made) return std::string("made");
    EXPECT_EQ(made.error().kind, ErrorKind::InvalidArgument);
    return made.error().message;
  };
  using P = RendezvousParameters;
  EXPECT_THAT(message([](P& p) { p.run_id = ""; }), HasSubstr("run id is empty"));
  EXPECT_THAT(message([](P& p) { p.min_nodes = 0; }), HasSubstr("at least 1"));
  EXPECT_THAT(message([](P& p) { p.max_nodes = 0; }), HasSubstr("below the smallest"));
  EXPECT_THAT(message([](P& p) { p.config["join_timeout"] = "-3"; }),
              HasSubstr("join_timeout is -3 s"));
  EXPECT_THAT(message([](P& p) { p.config["join_timeout"] = "soon"; }),
              HasSubstr("join_timeout is 'soon'; it must be a whole number"));
  EXPECT_THAT(message([](P& p) { p.config["read_timeout"] = "0"; }), HasSubstr("read_timeout"));
  EXPECT_THAT(message([](P& p) { p.config["is_host"] = "maybe"; }), HasSubstr("true or false"));
  EXPECT_THAT(message([](P& p) { p.config["store_type"] = "tape"; }), HasSubstr("tcp or file"));
  EXPECT_THAT(message([](P& p) { p.endpoint = "host:port"; }), HasSubstr("port"));
  EXPECT_THAT(message([](P& p) { p.backend = "c10"; }), HasSubstr("Did you mean c10d?"));
  EXPECT_THAT(message([](P& p) { p.node_rank = -1; }), HasSubstr("ranks start at 0"));
  EXPECT_THAT(message([](P& p) {
                p.backend = "static";
                p.endpoint = "127.0.0.1:1";
              }),
              HasSubstr("needs this node's rank"));
  EXPECT_THAT(message([](P& p) {
                p.backend = "static";
                p.endpoint = "127.0.0.1:1";
                p.node_rank = 2;
              }),
              HasSubstr("must be 0 to 1"));
}

TEST(Rendezvous, WholeGroupsNeedAKeyAndWholeNumbers) {
  RendezvousParameters parameters = between(2, 6);
  parameters.topology_key = "rack-1";
  const auto why = [&](std::int64_t segment) {
    const auto good = runtime::check_groups(parameters, segment);
    return good ? "good" : good.error().message;
  };
  EXPECT_EQ(why(0), "good");
  EXPECT_EQ(why(2), "good");
  EXPECT_THAT(why(-2), HasSubstr("must be 1 or more"));
  EXPECT_EQ(why(4), "--segment is 4, and --nnodes must be multiples of it; it is 2:6");
  parameters.topology_key = std::string(1025, 'x');
  EXPECT_EQ(why(0), "--topology-key has 1025 bytes; the limit is 1024");
  parameters.topology_key = "";
  EXPECT_EQ(why(0), "good");
  EXPECT_THAT(why(2), HasSubstr("Pass --topology-key"));
  parameters.backend = "static";
  EXPECT_THAT(why(2), HasSubstr("Pass --rdzv-backend c10d"));

  // Whoever makes a rendezvous is told, too; also that a shared file has no coordinator.
  parameters = between(2, 6);
  parameters.endpoint = "127.0.0.1:0";
  const runtime::AgentPart part{.rules = {.segment = 2}};
  EXPECT_THAT(runtime::meet(parameters, part).error().message, HasSubstr("Pass --topology-key"));
  parameters.topology_key = "rack-1";
  parameters.endpoint = "never-made";
  parameters.config["store_type"] = "file";
  EXPECT_THAT(runtime::meet(parameters, part).error().message,
              HasSubstr("--segment needs a coordinator, and there is none at 'never-made'"));
}

TEST(Rendezvous, ConfigurationText) {
  using Config = std::map<std::string, std::string>;
  EXPECT_EQ(parse_rendezvous_config(""), Config{});
  EXPECT_EQ(parse_rendezvous_config(" a=1 , b = x=y ,a=2"), (Config{{"a", "2"}, {"b", "x=y"}}));
  EXPECT_FALSE(parse_rendezvous_config("a=1,"));
  EXPECT_FALSE(parse_rendezvous_config("=1"));
  EXPECT_THAT(parse_rendezvous_config("a").error().message, HasSubstr("has no value"));
  EXPECT_THAT(parse_rendezvous_config("a=").error().message, HasSubstr("has no value"));

  const RendezvousParameters parameters{
      .run_id = "r", .config = {{"n", " +12 "}, {"long", "1_0"}, {"bad", "1__0"}, {"yes", "T"}}};
  EXPECT_EQ(parameters.integer("n"), 12);
  EXPECT_EQ(parameters.integer("long"), 10);  // As Python's int() reads it.
  EXPECT_FALSE(parameters.integer("bad"));
  EXPECT_EQ(parameters.integer("none"), std::nullopt);
  EXPECT_EQ(parameters.boolean("yes"), true);
  EXPECT_FALSE(parameters.boolean("n"));
}

Result<Handler> make_nothing(const RendezvousParameters&) {
  return fail(ErrorKind::Unsupported, "made by the plug-in");
}
Result<Handler> make_other(const RendezvousParameters& parameters) {
  return make_nothing(parameters);
}

TEST(Rendezvous, BackendsAreKnownByName) {
  EXPECT_TRUE(register_rendezvous("plug-in", make_nothing));
  EXPECT_TRUE(register_rendezvous("plug-in", make_nothing));
  EXPECT_FALSE(register_rendezvous("plug-in", make_other));
  EXPECT_FALSE(register_rendezvous("static", make_nothing));
  RendezvousParameters parameters = between(1, 1);
  parameters.backend = "plug-in";
  EXPECT_EQ(make_rendezvous(parameters).error().message, "made by the plug-in");
}

}  // namespace
}  // namespace regroup
