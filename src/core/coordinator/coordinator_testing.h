// A coordinator with nodes that a test speaks for, by name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "core/coordinator/coordinator.h"

namespace regroup::core::coordinator {

struct ScriptedRun {
  explicit ScriptedRun(const RunRules& run_rules)
      : rules(run_rules), machine("r", run_rules, {}, now) {}

  struct Said {
    std::int64_t workers = 1;
    std::string name = {};  // Empty: the name that the test calls it by.
    std::optional<Running> running = {};
    std::optional<rendezvous::HeldRank> held = {};
    std::int64_t restarts = 0;
    bool again = false;
    std::string group = {};
  };

  rendezvous::NodeId id(const std::string& name) {
    const auto [found, is_new] = ids.try_emplace(name);
    if (is_new) found->second = {.address = name, .pid = ++next, .local_id = 0};
    return found->second;
  }

  void hello(const std::string& name, const Said& said) {
    const SessionId session{static_cast<std::uint64_t>(++next)};
    names[session] = name;
    sessions[name] = session;
    Effects effects;
    machine.on_hello(session,
                     {.run_id = "r",
                      .node = id(name),
                      .claim = {.name = said.name.empty() ? name : said.name,
                                .wish = {},
                                .held = said.held,
                                .group = said.group},
                      .role = "default",
                      .workers = said.workers,
                      .rules = rules,
                      .running = said.running,
                      .restarts = said.restarts,
                      .again = said.again},
                     now, effects);
    take(effects);
  }
  void hello(const std::string& name) { hello(name, Said{}); }

  // With the round that it was last sealed in.
  void hello_again(const std::string& name) {
    Said said;
    if (const auto found = sealed.find(name); found != sealed.end())
      said.running = Running{.place = {.round = found->second.round,
                                       .rank = found->second.rank,
                                       .world_size = found->second.world_size},
                             .restart_count = found->second.restart_count};
    hello(name, said);
  }

  void join(const std::string& name) {
    inbox[name].clear();
    joined[name] = static_cast<std::uint64_t>(++next);
    say(name, Join{.number = joined[name], .bootstrap = {.address = name, .port = 4711}});
  }

  void start(const std::vector<std::string>& nodes) {
    for (const std::string& name : nodes) hello(name);
    for (const std::string& name : nodes) join(name);
  }

  void fail(const std::string& name, const std::string& text) {
    say(name, Failed{.round = sealed.at(name).round, .failure = {.node = name, .text = text}});
  }

  void say(const std::string& name, const FromAgent& message) {
    Effects effects;
    machine.on_message(sessions.at(name), message, now, effects);
    take(effects);
  }

  void close(const std::string& name) {
    Effects effects;
    machine.on_closed(sessions.at(name), now, effects);
    take(effects);
  }

  void forget(const std::string& name) { ids.erase(name); }

  void swap(rendezvous::State state) {
    Effects effects;
    machine.on_swapped(std::move(state), now, effects);
    take(effects);
  }

  // Time passes, and the machine is called whenever it asks to be.
  void after(Duration time) {
    const Instant end = now.instant + time;
    for (int turns = 0;; ++turns) {
      CHECK(turns < 100'000);  // It asks to be called for what it does nothing about.
      const auto next_at = machine.next_deadline();
      if (!next_at || *next_at > end) break;
      move_to(std::max(*next_at, now.instant));
      Effects effects;
      machine.on_time(now, effects);
      take(effects);
    }
    move_to(end);
  }

  // The same, while these nodes send heartbeats now and then.
  void after(Duration time, const std::vector<std::string>& alive) {
    for (Duration left = time; left > Duration{}; left = left - 1s) {
      after(std::min<Duration>(left, 1s));
      for (const std::string& name : alive) say(name, Ping{});
    }
  }

  template <class Message>
  std::vector<Message> all(const std::string& name) {
    std::vector<Message> found;
    for (const FromCoordinator& message : inbox[name])
      if (const auto* one = std::get_if<Message>(&message)) found.push_back(*one);
    return found;
  }
  template <class Message>
  std::optional<Message> last(const std::string& name) {
    auto found = all<Message>(name);
    if (found.empty()) return {};
    return found.back();
  }
  bool closed(const std::string& name) { return was_closed[sessions.at(name)]; }

  Now now{Instant{} + 1h, rendezvous::Stamp{1'000'000}};
  RunRules rules;
  Coordinator machine;
  std::map<std::string, std::vector<FromCoordinator>> inbox;  // Since its last join.
  std::map<std::string, Sealed> sealed;
  std::map<std::string, std::uint64_t> joined;  // The number of its last join.

 private:
  void move_to(Instant at) {
    now.utc.micros += (at - now.instant) / 1us;
    now.instant = at;
  }
  void take(const Effects& effects) {
    for (const Effect& effect : effects) {
      if (const auto* send = std::get_if<Send>(&effect)) {
        const std::string& name = names.at(send->to);
        inbox[name].push_back(send->message);
        if (const auto* one = std::get_if<Sealed>(&send->message)) sealed[name] = *one;
      } else if (const auto* close = std::get_if<CloseSession>(&effect)) {
        was_closed[close->session] = true;
      }
    }
  }

  std::int64_t next = 0;
  std::map<std::string, rendezvous::NodeId> ids;
  std::map<std::string, SessionId> sessions;
  std::map<SessionId, std::string> names;
  std::map<SessionId, bool> was_closed;
};

}  // namespace regroup::core::coordinator
