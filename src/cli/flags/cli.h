// The commands of `regroup`, what they print, and how they exit.
#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own.
class App;
}

namespace regroup::cli {

// Documented in docs/cli.md.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;            // The request did not succeed: no such key, no answer.
inline constexpr int kBadStart = 2;          // A wrong flag, a taken port: nothing was started.
inline constexpr int kLeftBehind = 70;       // Workers left processes that cannot be killed.
inline constexpr int kCouldNotMeet = 71;     // The nodes of the run did not meet.
inline constexpr int kCouldNotStart = 72;    // The workers cannot be started on this node.
inline constexpr int kFailedElsewhere = 73;  // The run has failed on another node.
inline constexpr int kInterrupted = 130;     // By Ctrl-C, as a shell gives it.
inline constexpr int kTerminated = 143;      // By SIGTERM.

int run(int argc, char** argv);

// Each adds its command to the application, with a callback that sets `exit_code`.
void add_store_command(CLI::App& app, int& exit_code);
void add_rendezvous_command(CLI::App& app, int& exit_code);
void add_coordinator_command(CLI::App& app, int& exit_code);
void add_status_command(CLI::App& app, int& exit_code);
// `command_line` is read when the command runs.
CLI::App* add_spawn_command(CLI::App& app, const std::vector<std::string>& command_line,
                            int& exit_code);

}  // namespace regroup::cli
