// A session on a loop of its own, with a coordinator that the test plays, and what it has told.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/coordinator/messages.h"
#include "io/loop/loop.h"
#include "runtime/session/session.h"
#include "runtime/session/session_testing.h"

namespace regroup::runtime {

// No test takes this long.
inline constexpr Duration kNeverSilent = 1h;
// For tests in which a coordinator falls silent.
inline constexpr Duration kSoonSilent = 60ms;

inline core::coordinator::Hello hello(const std::string& name = "a") {
  core::coordinator::Hello message;
  message.run_id = "run";
  message.claim.name = name;
  return message;
}

inline const SessionProofs kProofs{.ours = {core::coordinator::Bytes32{1, 2, 3}},
                                   .theirs = {core::coordinator::Bytes32{4, 5, 6}}};

class SessionTest : public testing::Test {
 protected:
  SessionTest() : loop_(std::move(*io::Loop::open())), thread_([this] { loop_->run(); }) {}
  ~SessionTest() override {
    end_session();
    loop_->stop();
    thread_.join();
  }

  void on_loop(const std::function<void()>& call) {
    std::promise<void> done;
    loop_->post([&] {
      call();
      done.set_value();
    });
    done.get_future().wait();
  }
  void say(const core::coordinator::FromAgent& message) {
    on_loop([&] { session_->say(message); });
  }
  void flush() {
    std::promise<void> done;
    on_loop([&] { session_->flush(kNeverSilent, [&] { done.set_value(); }); });
    done.get_future().wait();
  }
  void end_session() {
    on_loop([&] { session_.reset(); });
  }

  SessionOptions options(Duration heartbeat_limit = kNeverSilent) {
    return {
        .connect = [address = coordinator_.address()] { return FakeCoordinator::connect(address); },
        .introduction = [this]() -> std::vector<core::coordinator::FromAgent> {
          return {hello("introduction " + std::to_string(++introductions_)),
                  core::coordinator::Join{1, {"here", 1}}};
        },
        .on_message =
            [this](core::coordinator::FromCoordinator message) {
              tell(heard_, std::move(message));
            },
        .on_lost = [this](const std::string& why) { tell(lost_, why); },
        .heartbeat_limit = heartbeat_limit};
  }

  // With its first connection, which the coordinator has taken.
  Caller start(SessionOptions options) {
    auto first = FakeCoordinator::connect(coordinator_.address());
    EXPECT_TRUE(first) << first.error().message;
    Caller caller = coordinator_.accept();
    on_loop([&] {
      session_ = std::make_unique<Session>(*loop_, std::move(*first), std::move(options));
    });
    return caller;
  }

  // The question has been asked and answered.
  Caller start_with_secret(SessionOptions options) {
    auto first = FakeCoordinator::connect(coordinator_.address());
    EXPECT_TRUE(first) << first.error().message;
    first->proofs = kProofs;
    Caller caller = coordinator_.accept();
    on_loop([&] {
      session_ = std::make_unique<Session>(*loop_, std::move(*first), std::move(options));
    });
    return caller;
  }

  static void expect_introduction(Caller& caller, int number) {
    EXPECT_EQ(caller.next(),
              core::coordinator::FromAgent(hello("introduction " + std::to_string(number))));
    EXPECT_EQ(caller.next(), core::coordinator::FromAgent(core::coordinator::Join{1, {"here", 1}}));
  }

  template <class T>
  void tell(std::vector<T>& told, T what) {
    const std::lock_guard lock(mutex_);
    told.push_back(std::move(what));
    changed_.notify_all();
  }
  template <class T>
  std::vector<T> wait_for(const std::vector<T>& told, std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [&] { return told.size() >= count; }));
    return told;
  }

  std::unique_ptr<io::Loop> loop_;
  FakeCoordinator coordinator_;
  int introductions_ = 0;  // The loop's thread only.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<core::coordinator::FromCoordinator> heard_;
  std::vector<std::string> lost_;
  std::unique_ptr<Session> session_;  // On the loop's thread.
  std::thread thread_;
};

}  // namespace regroup::runtime
