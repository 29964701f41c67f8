#include "core/coordinator/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/rendezvous/rendezvous_testing.h"

namespace regroup::core::coordinator {
namespace {

using rendezvous::node;
using testing::HasSubstr;

// Nodes in groups that are the first letters of their names; a node that is let in is a member.
struct Placed {
  void join(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      segments.add(name.substr(0, 1), node(name));
      standings[node(name)] = {.is_joining = true, .preference = {2, ++turn}};
      segments.wants_in(name.substr(0, 1), node(name));
    }
  }
  void lose(const std::string& name) {
    segments.remove(name.substr(0, 1), node(name));
    standings.erase(node(name));
  }
  // Returns what it did: "+a1 +a2 -b1".
  std::string place(std::int64_t room, bool round_is_open = true) {
    const Segments::StandingOf standing_of = [this](const rendezvous::NodeId& id) {
      return standings.at(id);
    };
    std::string text;
    const auto changed = segments.take_changed(standing_of, round_is_open);
    for (const auto& id : changed.broken) {
      standings[id].is_member = false;
      ++room;
      text += "!" + id.address + " ";
    }
    const auto placing = segments.place(changed, room, standing_of);
    for (const auto& id : placing.let_in) {
      standings[id].is_member = true;
      text += "+" + id.address + " ";
    }
    for (const auto& id : placing.spares) text += "-" + id.address + " ";
    return text;
  }
  std::int64_t odd_in(const std::string& group) const {
    return segments.odd_in(group, [this](const auto& id) { return standings.at(id); });
  }
  std::string broken() const {
    return segments.describe_broken([this](const auto& id) { return standings.at(id); });
  }

  Segments segments{2};
  std::map<rendezvous::NodeId, Segments::Standing> standings;
  std::int64_t turn = 0;
};

TEST(Segments, LetInWholeGroupsAndKeepTheOthersAsSpares) {
  Placed run;
  run.join({"a1", "b1", "c1", "b2"});
  EXPECT_EQ(run.place(4), "+b1 +b2 -a1 -c1 ");
  EXPECT_FALSE(run.segments.have_changed());
  EXPECT_EQ(run.odd_in("a"), 1);
  EXPECT_EQ(run.odd_in("b"), 0);
  EXPECT_EQ(run.broken(), "; not whole: a (1 of 2), c (1 of 2)");
}

TEST(Segments, OnlyWhatHasChangedIsPlaced) {
  Placed run;
  run.join({"a1", "b1"});
  EXPECT_EQ(run.place(4), "-a1 -b1 ");
  run.join({"b2"});
  EXPECT_EQ(run.place(4), "+b1 +b2 ");
}

TEST(Segments, WithoutRoomThoseWhoComeAreSpares) {
  Placed run;
  run.join({"a1", "a2", "b1", "b2"});
  EXPECT_EQ(run.place(3), "+a1 +a2 -b1 -b2 ");
  run.join({"c1"});
  EXPECT_EQ(run.place(1), "-c1 ");
}

TEST(Segments, AGroupWithAMemberComesBeforeOneThatHasWaitedLonger) {
  Placed run;
  run.join({"a1", "a2", "b1", "b2"});
  run.standings[node("b2")].preference.first = 0;
  EXPECT_EQ(run.place(2), "+b2 +b1 -a1 -a2 ");
}

TEST(Segments, ALostNodeBreaksItsSegmentAndTheLastToComeIsOut) {
  Placed run;
  run.join({"a1", "a2", "a3", "a4"});
  EXPECT_EQ(run.place(4), "+a1 +a2 +a3 +a4 ");
  run.lose("a1");
  EXPECT_EQ(run.place(1), "!a4 -a4 ");
}

TEST(Segments, AnotherGroupMayTakeThePlaceOfABrokenOne) {
  Placed run;
  run.join({"a1", "a2", "b1", "b2"});
  EXPECT_EQ(run.place(2), "+a1 +a2 -b1 -b2 ");
  run.lose("a1");
  EXPECT_EQ(run.place(1), "!a2 +b1 +b2 -a2 ");
}

TEST(Segments, ARoundThatRunsIsNotBrokenUpHere) {
  Placed run;
  run.join({"a1", "a2"});
  EXPECT_EQ(run.place(2), "+a1 +a2 ");
  run.lose("a1");
  EXPECT_EQ(run.place(1, false), "");
}

TEST(Segments, RefuseWhoWasStartedWithOthersOrSaysNoGroup) {
  EXPECT_EQ(Segments(2).why_refused(2, "a"), "");
  EXPECT_EQ(Segments(0).why_refused(0, ""), "");
  EXPECT_THAT(Segments(2).why_refused(4, "a"), HasSubstr("--segment 4, and this run has 2"));
  EXPECT_THAT(Segments(0).why_refused(4, "a"), HasSubstr("was begun without it"));
  EXPECT_THAT(Segments(2).why_refused(0, ""), HasSubstr("(--topology-key)"));
}

}  // namespace
}  // namespace regroup::core::coordinator
