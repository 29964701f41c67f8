#include "sim/session/session_words.h"

#include <fmt/core.h>

#include "sim/world/trace.h"

namespace regroup::sim {

using namespace core::coordinator;

namespace {

struct Words {
  std::string operator()(const Hello& hello) const {
    std::string text = "hello";
    if (hello.running)
      text += fmt::format(", in round {} with rank {} of {}{}", hello.running->place.round,
                          hello.running->place.rank, hello.running->place.world_size,
                          hello.running->done ? ", done" : "");
    else if (hello.claim.held)
      text += fmt::format(", was in round {}", hello.claim.held->round);
    return text;
  }
  std::string operator()(const Join&) const { return "join"; }
  std::string operator()(const Failed& failed) const {
    return fmt::format("failed in round {}: {}", failed.round, failed.failure.text);
  }
  std::string operator()(const Done& done) const {
    return fmt::format("done with round {}", done.round);
  }
  std::string operator()(const Leave& leave) const { return leave.close ? "close" : "leave"; }
  std::string operator()(const Ping&) const { return "ping"; }
  std::string operator()(const Warn&) const { return "warn"; }
  std::string operator()(const Look&) const { return "look"; }
  std::string operator()(const Prove&) const { return "prove"; }
  std::string operator()(const AgentProof&) const { return "proof"; }
  std::string operator()(const Stalled& stalled) const {
    return stalled.votes ? fmt::format("stalled in round {}", stalled.round) : "stalled no more";
  }
  std::string operator()(const Where& where) const {
    return fmt::format("where, of {} ranks", where.ranks.size());
  }

  std::string operator()(const Welcome& welcome) const {
    return welcome.member ? "welcome, run on" : "welcome";
  }
  std::string operator()(const Progress& progress) const { return "progress: " + progress.text; }
  std::string operator()(const Sealed& sealed) const {
    return fmt::format("sealed: round {}, rank {} of {}, restart {}{}", sealed.round, sealed.rank,
                       sealed.world_size, sealed.restart_count,
                       sealed.by_session ? "" : ", with others");
  }
  std::string operator()(const Stop& stop) const {
    static constexpr const char* kWhy[] = {"failure", "members", "run failed", "closed"};
    return fmt::format("stop round {} ({}, restart {}): {}", stop.round,
                       kWhy[static_cast<int>(stop.why)], stop.restart_count, stop.text);
  }
  std::string operator()(const Warned&) const { return "warned"; }
  std::string operator()(const Over&) const { return "over"; }
  std::string operator()(const Refused& refused) const { return "refused: " + refused.why; }
  std::string operator()(const Pong&) const { return "pong"; }
  std::string operator()(const Report&) const { return "report"; }
  std::string operator()(const Challenge&) const { return "challenge"; }
  std::string operator()(const CoordinatorProof&) const { return "proof"; }
  std::string operator()(const Hangs& hangs) const {
    return hangs.all_say_so ? fmt::format("round {} hangs", hangs.round) : "hangs no more";
  }
  std::string operator()(const Blamed& blamed) const {
    return fmt::format("blamed: {}",
                       blamed.blame.rank ? std::to_string(*blamed.blame.rank) : "nobody");
  }
};

}  // namespace

std::string in_words(const FromAgent& message) { return std::visit(Words{}, message); }
std::string in_words(const FromCoordinator& message) { return std::visit(Words{}, message); }

}  // namespace regroup::sim
