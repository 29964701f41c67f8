// Finds out whether another loop turns, when asked: a task is posted to it, and either it runs
// within a moment, or the answer is how long it has been waited for.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "io/loop/loop.h"
#include "runtime/health/health_pages.h"

namespace regroup::runtime {

// The last snapshot. From any thread.
class HealthBoard {
 public:
  struct Posted {
    std::shared_ptr<const HealthSnapshot> snapshot;
    Instant at;
  };
  void put(HealthSnapshot snapshot);
  Posted last() const;

 private:
  mutable std::mutex mutex_;
  Posted last_{std::make_shared<HealthSnapshot>(), {}};
};

// Lives on the asking loop's thread.
class HealthProbe {
 public:
  using Done = std::function<void(const HealthSnapshot&, const LoopHealth&)>;

  // `look` makes a snapshot on the probed loop, which must outlive the probe. `here`, which belongs
  // to that loop's thread, says that `look` may still be called.
  HealthProbe(io::Loop& asking, io::Loop& probed, Duration limit,
              std::function<HealthSnapshot()> look, std::shared_ptr<HealthBoard> board,
              std::shared_ptr<bool> here);
  ~HealthProbe();

  // `done` is called later, from the asking loop.
  void ask(Done done);

 private:
  void turned();
  void answer();

  io::Loop& asking_;
  io::Loop& probed_;
  Duration limit_;
  Duration patience_;
  std::function<HealthSnapshot()> look_;
  std::shared_ptr<HealthBoard> board_;
  std::shared_ptr<bool> here_;
  std::optional<Instant> asked_;  // The task is on its way.
  std::vector<Done> waiting_;
  io::Timer enough_;
  // Tasks that run when we are gone find this expired.
  std::shared_ptr<HealthProbe*> self_;
};

}  // namespace regroup::runtime
