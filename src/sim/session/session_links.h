// Connections between nodes and the coordinator's host: ordered streams of bytes that are slow, get
// stuck, and break, seen by both ends, by one, or by neither.
//
// What is planned for a node or the host is not played if it has died meanwhile, and is played late
// while it stands still.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/instant.h"
#include "sim/world/event_queue.h"
#include "sim/world/plan.h"

namespace regroup::sim {

using LinkId = Id<struct LinkTag>;

inline constexpr std::int32_t kTheWorld = -1;
inline constexpr std::int32_t kTheHost = -2;

// Something that happens to a node or the host in one of its lives.
struct Happening {
  Instant at;
  std::uint64_t order = 0;
  std::int32_t who = kTheWorld;
  std::int64_t life = 0;
  bool judges = false;  // After everything that has come meanwhile has been read.
  std::function<void()> act = {};
};
using Happenings = Agenda<Happening>;

enum class End { Node, Host };

// What the ends hear. No bytes: the other end has closed it, or it is broken.
class LinkEnds {
 public:
  virtual ~LinkEnds() = default;
  virtual void came_to_host(LinkId link, std::string_view bytes) = 0;
  virtual void came_to_node(LinkId link, std::string_view bytes) = 0;
};

class Links {
 public:
  struct Weather {
    double slow = 0;
    Duration slowest{};
  };
  Links(Happenings& agenda, LinkEnds& ends, Weather weather, std::uint64_t seed)
      : agenda_(agenda), ends_(ends), weather_(weather), dice_(seed) {}

  LinkId open(std::int32_t node, std::int64_t process, std::int64_t life);
  void send(LinkId link, End from, std::string bytes);
  void hang_up(LinkId link, End from);

  // Nothing passes any more. Ends that do not see it wait until they have had enough of the
  // silence.
  void break_off(LinkId link, bool node_sees, bool host_sees);
  // One of the ends has died: the other sees it, or it does not.
  void lose_end(LinkId link, End lost, bool seen);

  void cut_off(std::int32_t node) { cut_off_.insert(node); }
  bool is_cut_off(std::int32_t node) const { return cut_off_.contains(node); }
  // What is stuck arrives after all, or the connection is broken.
  void reconnect(std::int32_t node, bool breaks);

  // Both ends believe in it, and bytes pass.
  bool works(LinkId link) const;
  bool open_at(LinkId link, End end) const;
  std::int32_t node_of(LinkId link) const { return links_.at(link).node; }
  std::vector<LinkId> of_node(std::int32_t node) const;
  std::vector<LinkId> all() const;
  Duration latency() { return dice_.between(Duration(100us), Duration(3ms)); }
  void calm_down() { weather_.slow = 0; }

 private:
  struct Stream {
    Instant last;  // Nothing arrives before what was sent before it.
    std::vector<std::string> stuck;
  };
  struct Link {
    std::int32_t node = 0;
    std::int64_t process = 0;
    std::int64_t life = 0;
    bool node_open = true;
    bool host_open = true;
    bool broken = false;
    Stream to_host;
    Stream to_node;
  };
  void plan_arrival(LinkId id, Link& link, End to, std::string bytes);
  void tell_end(LinkId id, const Link& link, End end);
  void forget_if_closed(LinkId id);

  Happenings& agenda_;
  LinkEnds& ends_;
  Weather weather_;
  Dice dice_;
  std::uint64_t next_ = 0;
  std::map<LinkId, Link> links_;
  std::set<std::int32_t> cut_off_;
};

}  // namespace regroup::sim
