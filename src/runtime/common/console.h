// Writes to one console from a thread of its own, so that a console that does not read stops no
// other thread.
//
// Texts wait in a queue of kConsoleBacklog bytes. When it is full, texts are dropped until half of
// it is free again; then a line says how many lines are missing there. We never change the mode of
// the descriptor: it is shared with the shell.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/instant.h"
#include "regroup/result.h"

namespace regroup::runtime {

class ConsoleWriter {
 public:
  // `warn` is told once, from the writer's thread, if the console is gone. `own_line` makes a line
  // of our own; empty: "regroup: " in front of it.
  static Result<std::unique_ptr<ConsoleWriter>> start(
      int fd, std::function<void(const std::string&)> warn,
      std::function<std::string(const std::string&)> own_line = {});

  // Waits as long as the console keeps reading, and for one that does not, two seconds. What is left
  // then is lost, and the thread is abandoned.
  ~ConsoleWriter();
  ConsoleWriter(const ConsoleWriter&) = delete;
  ConsoleWriter& operator=(const ConsoleWriter&) = delete;

  // Takes the text, which has `lines` lines, and leaves an empty string that may have capacity.
  // False: dropped. One thread at a time.
  bool put(std::string& text, std::uint64_t lines);

  // Whether lines that are dropped are in files; the line about them says so.
  void set_files_have_all(bool they_do);

  // Waits until everything is written; false: `deadline` came first. True also if the console is
  // gone.
  bool flush(Instant deadline);

  bool is_idle() const;         // Everything is written.
  std::uint64_t lines() const;  // That were taken.
  std::uint64_t dropped_lines() const;

 private:
  struct State;
  explicit ConsoleWriter(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static void run(State& state);

  // Shared with the thread, which may outlive us.
  std::shared_ptr<State> state_;
};

}  // namespace regroup::runtime
