#include "sim/session/session_links.h"

#include <algorithm>

namespace regroup::sim {

LinkId Links::open(std::int32_t node, std::int64_t process, std::int64_t life) {
  const LinkId id{++next_};
  links_[id] = {.node = node, .process = process, .life = life, .to_host = {}, .to_node = {}};
  return id;
}

bool Links::open_at(LinkId link, End end) const {
  const auto found = links_.find(link);
  if (found == links_.end()) return false;
  return end == End::Node ? found->second.node_open : found->second.host_open;
}

bool Links::works(LinkId link) const {
  const auto found = links_.find(link);
  return found != links_.end() && found->second.node_open && found->second.host_open &&
         !found->second.broken && !is_cut_off(found->second.node);
}

std::vector<LinkId> Links::of_node(std::int32_t node) const {
  std::vector<LinkId> found;
  for (const auto& [id, link] : links_)
    if (link.node == node) found.push_back(id);
  return found;
}

std::vector<LinkId> Links::all() const {
  std::vector<LinkId> found;
  found.reserve(links_.size());
  for (const auto& [id, link] : links_) found.push_back(id);
  return found;
}

void Links::send(LinkId id, End from, std::string bytes) {
  const auto found = links_.find(id);
  if (found == links_.end() || !open_at(id, from)) return;
  Link& link = found->second;
  if (link.broken) return;
  // Now and then a message comes in two pieces.
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size > 1 && dice_.chance(0.05)) {
    const auto cut = static_cast<std::size_t>(dice_.between(1, size - 1));
    const End to = from == End::Node ? End::Host : End::Node;
    plan_arrival(id, link, to, bytes.substr(0, cut));
    bytes.erase(0, cut);
  }
  plan_arrival(id, link, from == End::Node ? End::Host : End::Node, std::move(bytes));
}

void Links::plan_arrival(LinkId id, Link& link, End to, std::string bytes) {
  Stream& stream = to == End::Host ? link.to_host : link.to_node;
  if (is_cut_off(link.node)) {
    stream.stuck.push_back(std::move(bytes));
    return;
  }
  Duration travel = latency();
  if (dice_.chance(weather_.slow)) travel += dice_.between(Duration{}, weather_.slowest);
  stream.last = std::max(stream.last, agenda_.now() + travel);
  agenda_.plan({.at = stream.last,
                .who = to == End::Host ? kTheHost : link.node,
                .life = to == End::Host ? link.life : link.process,
                .act = [this, id, to, came = std::move(bytes)] {
                  const auto found = links_.find(id);
                  if (found == links_.end() || found->second.broken || !open_at(id, to)) return;
                  if (came.empty()) {
                    (to == End::Host ? found->second.host_open : found->second.node_open) = false;
                    forget_if_closed(id);
                  }
                  if (to == End::Host) return ends_.came_to_host(id, came);
                  ends_.came_to_node(id, came);
                }});
}

void Links::hang_up(LinkId id, End from) {
  const auto found = links_.find(id);
  if (found == links_.end() || !open_at(id, from)) return;
  Link& link = found->second;
  (from == End::Node ? link.node_open : link.host_open) = false;
  if (!link.broken) plan_arrival(id, link, from == End::Node ? End::Host : End::Node, {});
  forget_if_closed(id);
}

// Behind what is on its way, because an end may read it before it looks at the error.
void Links::tell_end(LinkId id, const Link& link, End end) {
  const Stream& stream = end == End::Host ? link.to_host : link.to_node;
  agenda_.plan({.at = std::max(stream.last, agenda_.now() + latency()),
                .who = end == End::Host ? kTheHost : link.node,
                .life = end == End::Host ? link.life : link.process,
                .act = [this, id, end] {
                  const auto found = links_.find(id);
                  if (found == links_.end() || !open_at(id, end)) return;
                  (end == End::Host ? found->second.host_open : found->second.node_open) = false;
                  forget_if_closed(id);
                  if (end == End::Host) return ends_.came_to_host(id, {});
                  ends_.came_to_node(id, {});
                }});
}

void Links::break_off(LinkId id, bool node_sees, bool host_sees) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  found->second.broken = true;
  if (node_sees) tell_end(id, found->second, End::Node);
  if (host_sees) tell_end(id, found->second, End::Host);
}

void Links::lose_end(LinkId id, End lost, bool seen) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Link& link = found->second;
  // What its kernel still has to send is sent, and then the end of it.
  if (seen && open_at(id, lost)) return hang_up(id, lost);
  link.broken = true;
  (lost == End::Node ? link.node_open : link.host_open) = false;
  forget_if_closed(id);
}

void Links::reconnect(std::int32_t node, bool breaks) {
  cut_off_.erase(node);
  for (const LinkId id : of_node(node)) {
    if (breaks) {
      break_off(id, true, true);
      continue;
    }
    Link& link = links_.at(id);
    for (const End to : {End::Host, End::Node}) {
      Stream& stream = to == End::Host ? link.to_host : link.to_node;
      for (std::string& bytes : std::exchange(stream.stuck, {}))
        if (!link.broken) plan_arrival(id, link, to, std::move(bytes));
    }
  }
}

void Links::forget_if_closed(LinkId id) {
  const Link& link = links_.at(id);
  if (!link.node_open && !link.host_open) links_.erase(id);
}

}  // namespace regroup::sim
