// What becomes of processes that workers have left behind, once all workers of the node have
// succeeded. After a failure, or when a stop is ordered, everything is ended: supervision does that.
//
// Those that are still in their worker's session were left by mistake most likely (a data loader, a
// server), and are ended. Those that have left it (setsid, a daemon) were meant to go on, to upload
// a checkpoint, say: the rule says what becomes of them.
//
// A pure machine. Its host looks at what is left, again and again, and does what each verdict says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/instant.h"

namespace regroup::core::supervision {

// Signal numbers of Linux, which are part of its interface.
inline constexpr int kSigKill = 9;
inline constexpr int kSigTerm = 15;

struct Left {
  int pid = 0;
  std::string name;
  bool is_away = false;  // It has left its worker's session.
  friend bool operator==(const Left&, const Left&) = default;
};

enum class AwayRule {
  Wait,   // They are waited for, then ended.
  End,    // They are ended at once, as the others.
  Leave,  // They are left running, once nobody needs the launcher any more: let_go().
};

// "aws (pid 12), tar (pid 13) and 4 more".
std::string names_of(const std::vector<Left>& left);

class Leftovers {
 public:
  struct Settings {
    AwayRule rule = AwayRule::Wait;
    Duration wait = 300s;
    int stop_signal = kSigTerm;
    Duration grace = 30s;
    Duration kill_wait = 10s;
  };

  Leftovers(const Settings& settings, Instant now);

  struct Verdict {
    enum class Next {
      LookAgain,
      StopAll,  // With the stop signal and the grace.
      KillAll,
      LetGo,  // The group is over, and what is left runs on.
    };
    Next next = Next::LookAgain;
    int signal_stayed = 0;  // To those in their worker's session; 0: none.
    std::string tell = {};  // For people; empty: nothing.
    // From now on what is left does not concern the other nodes. Said once.
    bool has_succeeded = false;
  };
  // Something is alive. Empty: nobody can say what.
  Verdict on_left(const std::vector<Left>& left, Instant now);

  // The launcher is not needed any more.
  void let_go() { may_go_ = true; }

  // No later than this it is to be looked at again.
  std::optional<Instant> next_look() const { return next_look_; }

 private:
  void end_stayed(Verdict& verdict, const std::vector<Left>& stayed, Instant now);
  void wait_for(Verdict& verdict, const std::vector<Left>& away, Instant now);

  Settings settings_;
  Instant settled_;                      // Until then they may end by themselves, untold.
  std::optional<Instant> stayed_limit_;  // Those that stayed are killed then.
  std::optional<Instant> wait_until_;    // Those that are away are waited for until then.
  Instant tell_again_;
  Duration tell_pause_{};
  bool has_told_success_ = false;
  bool may_go_ = false;
  std::optional<Instant> next_look_;
};

}  // namespace regroup::core::supervision
