// A node's part in the conversation with its coordinator: what it has asked for, what it was told,
// and what has to be said again after a lost connection.
//
//   say(member.introduction());                  // On every new connection.
//   say(member.join(bootstrap));                 // until sealed() has come, or end(), over()
//   say(member.failed(...)) or say(member.done());
//   ... stop() is there: stop the workers, join again.
//
// A pure machine. It ignores messages about what is past.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/messages.h"

namespace regroup::core::coordinator {

class Member {
 public:
  // `hello.running` is filled in here.
  explicit Member(Hello hello) : hello_(std::move(hello)) {}

  std::vector<FromAgent> introduction() const;

  // Each returns what to say now.
  FromAgent join(const Bootstrap& bootstrap);  // Out of the round that we are in.
  FromAgent failed(Failure failure);           // In a round that runs.
  FromAgent done();
  FromAgent leave(std::string why, bool close);

  void on_message(FromCoordinator message);

  bool joining() const { return join_.has_value(); }
  // The round that we are in; while joining, the one before.
  const std::optional<Sealed>& sealed() const { return sealed_; }
  // Why the round that we are in is over; none while it runs.
  const std::optional<Stop>& stop() const { return stop_; }
  // Why the run is over, if it did not succeed.
  const std::optional<Stop>& end() const { return end_; }
  bool over() const { return over_; }  // The run has succeeded.
  const std::optional<Refused>& refused() const { return refused_; }
  const std::optional<Progress>& progress() const { return progress_; }  // While joining.
  bool is_spare() const { return progress_ && progress_->spare; }
  const rendezvous::NodeId& id() const { return hello_.node; }
  const Hello& hello() const { return hello_; }

 private:
  Hello hello_;
  std::optional<Join> join_;
  std::uint64_t joins_ = 0;
  std::optional<Failed> failed_;  // Until it is answered.
  bool done_ = false;
  std::optional<Sealed> sealed_;
  std::optional<Stop> stop_;
  std::optional<Stop> end_;
  std::optional<Refused> refused_;
  std::optional<Progress> progress_;
  bool over_ = false;
};

}  // namespace regroup::core::coordinator
