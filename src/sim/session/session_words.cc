#include "sim/session/session_words.h"

#include "sim/world/trace.h"

namespace regroup::sim {

using namespace core::coordinator;

namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

struct Words {
  std::string operator()(const Hello& hello) const {
    std::string text = "hello";
    if (hello.running)
      text += ", in round " + number(hello.running->place.round) + " with rank " +
              number(hello.running->place.rank) + " of " + number(hello.running->place.world_size) +
              (hello.running->done ? ", done" : "");
    else if (hello.claim.held)
      text += ", was in round " + number(hello.claim.held->round);
    return text;
  }
  std::string operator()(const Join&) const { return "join"; }
  std::string operator()(const Failed& failed) const {
    return "failed in round " + number(failed.round) + ": " + failed.failure.text;
  }
  std::string operator()(const Done& done) const { return "done with round " + number(done.round); }
  std::string operator()(const Leave& leave) const { return leave.close ? "close" : "leave"; }
  std::string operator()(const Ping&) const { return "ping"; }
  std::string operator()(const Warn&) const { return "warn"; }
  std::string operator()(const Look&) const { return "look"; }
  std::string operator()(const Prove&) const { return "prove"; }
  std::string operator()(const AgentProof&) const { return "proof"; }
  std::string operator()(const Stalled& stalled) const {
    return stalled.votes ? "stalled in round " + number(stalled.round) : "stalled no more";
  }
  std::string operator()(const Where& where) const {
    return "where, of " + std::to_string(where.ranks.size()) + " ranks";
  }

  std::string operator()(const Welcome& welcome) const {
    return welcome.member ? "welcome, run on" : "welcome";
  }
  std::string operator()(const Progress& progress) const { return "progress: " + progress.text; }
  std::string operator()(const Sealed& sealed) const {
    return "sealed: round " + number(sealed.round) + ", rank " + number(sealed.rank) + " of " +
           number(sealed.world_size) + ", restart " + number(sealed.restart_count) +
           (sealed.by_session ? "" : ", with others");
  }
  std::string operator()(const Stop& stop) const {
    static constexpr const char* kWhy[] = {"failure", "members", "run failed", "closed"};
    return std::string("stop round ") + number(stop.round) + " (" +
           kWhy[static_cast<int>(stop.why)] + ", restart " + number(stop.restart_count) +
           "): " + stop.text;
  }
  std::string operator()(const Warned&) const { return "warned"; }
  std::string operator()(const Over&) const { return "over"; }
  std::string operator()(const Refused& refused) const { return "refused: " + refused.why; }
  std::string operator()(const Pong&) const { return "pong"; }
  std::string operator()(const Report&) const { return "report"; }
  std::string operator()(const Challenge&) const { return "challenge"; }
  std::string operator()(const CoordinatorProof&) const { return "proof"; }
  std::string operator()(const Hangs& hangs) const {
    return hangs.all_say_so ? "round " + number(hangs.round) + " hangs" : "hangs no more";
  }
  std::string operator()(const Blamed& blamed) const {
    return "blamed: " + (blamed.blame.rank ? number(*blamed.blame.rank) : "nobody");
  }
};

}  // namespace

std::string in_words(const FromAgent& message) { return std::visit(Words{}, message); }
std::string in_words(const FromCoordinator& message) { return std::visit(Words{}, message); }

}  // namespace regroup::sim
