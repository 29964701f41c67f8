// Runs what must block (a name, a connection, a store of PyTorch's) on a thread of its own, and
// posts the one value that comes of it back to the loop.
//
// Lives on the loop's thread. Work that is under way when the helper is destroyed is not waited
// for, and its result is dropped: so it must own everything that it uses.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "io/loop/loop.h"
#include "regroup/result.h"

namespace regroup::runtime {

class Helper {
 public:
  // `name`: the name of its threads; 15 letters at most. It must outlive them: a literal.
  Helper(io::Loop& loop, const char* name);
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  // `work` returns a Result<T>; `done` gets it, on the loop. Several may be under way. If no thread
  // can be started, that error is the result.
  template <class Work, class Done>
  void run(Work work, Done done) {
    using Answer = decltype(work());
    auto answer = std::make_shared<Answer>(fail(ErrorKind::Io, "not done"));
    start([answer, work = std::move(work)]() mutable { *answer = work(); },
          [answer, done = std::move(done)](const std::string& trouble) mutable {
            if (!trouble.empty()) *answer = fail(ErrorKind::Io, trouble);
            done(std::move(*answer));
          });
  }

  // Posts to the loop from any thread, also from one that outlives the helper: then it does nothing.
  std::function<void(std::function<void()>)> poster() const;

 private:
  struct Home;
  // `trouble`: why it was not run; empty: it was.
  void start(std::function<void()> work, std::function<void(const std::string& trouble)> done);

  const char* name_;
  std::shared_ptr<Home> home_;  // Shared with the threads.
};

}  // namespace regroup::runtime
