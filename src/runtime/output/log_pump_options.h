// What a log pump is told at its start, and what it gives to each worker.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/instant.h"
#include "core/output/line_cutter.h"

namespace regroup::runtime {

struct LogPumpOptions {
  // Our own standard output and errors, or what replaces them in tests.
  int console_out = 1;
  int console_err = 2;
  // ${role_name} ${local_rank} ${rank} ${hostname} ${host} ${role} ${time}; empty: "[role0]:".
  // ${time} is the time of the line.
  std::string prefix_template = {};
  std::vector<std::string> out_filters = {};  // Of --duplicate-stdout-filters.
  std::vector<std::string> err_filters = {};
  // A file that would grow beyond it is rotated, between lines; 0: never. The rest of a line that
  // had begun may exceed it.
  std::uint64_t max_bytes = 0;
  int keep = 3;  // Rotated files that are kept: stdout.log.1 (the newest) to .keep.
  // How often a progress bar that is teed to a file or a pipe shows its state.
  Duration bar_state = core::output::kBarState;
  // How a line of our own among those of workers is written; empty: "regroup: " in front of it.
  std::function<std::string(const std::string&)> warning_line = {};
  // Gets problems, once each: a full disk, a console that is gone. Called from the pump's threads,
  // and must not wait for the pump: while it runs, the workers' output stands still.
  std::function<void(const std::string&)> warn = {};
};

// The descriptors that a worker is started with; -1: ours. Owned by the pump.
struct WorkerStreams {
  int out = -1;
  int err = -1;
};

}  // namespace regroup::runtime
