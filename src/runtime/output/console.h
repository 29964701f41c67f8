// Writes to one console from a thread of its own, so that a console that does not read stops
// nobody.
//
// Texts wait in a queue of kConsoleBacklog bytes. When it is full, texts are dropped until half of
// it is free again; then a line says how many lines are missing there. Nothing is ever set on the
// descriptor: it is shared with the shell.
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

  // Waits while the console takes something, and for one that does not for a second. What it still
  // has not taken then is lost, and the thread is left to its fate.
  ~ConsoleWriter();
  ConsoleWriter(const ConsoleWriter&) = delete;
  ConsoleWriter& operator=(const ConsoleWriter&) = delete;

  // Takes the text, of so many lines, and leaves an empty string that may have room. False:
  // dropped. One thread at a time.
  bool put(std::string& text, std::uint64_t lines);

  // Whether lines that are dropped are in files; the line about them says so.
  void set_files_have_all(bool they_do);

  // Waits until everything is written; false: `deadline` came first. True if the console is gone.
  bool flush(Instant deadline);

  bool is_idle() const;         // Everything is written.
  std::uint64_t lines() const;  // That were taken.
  std::uint64_t dropped_lines() const;

 private:
  struct State;
  explicit ConsoleWriter(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static void run(State& state);

  // The thread's as well, which may outlive us.
  std::shared_ptr<State> state_;
};

}  // namespace regroup::runtime
