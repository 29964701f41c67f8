// A C++ program with a launcher of its own inside: it runs COMMAND as so many workers, restarts
// them up to three times, and tells what happens in its own words. Only public headers are used.
//
//   build/release/examples/embed WORKERS COMMAND [ARGUMENTS...]
//
// In a project of yours: find_package(regroup), target_link_libraries(... regroup::regroup).
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <variant>

#include "regroup/agent.h"

extern char** environ;

namespace {

using Event = regroup::AgentEvent;

std::map<std::string, std::string> our_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (const auto equals = text.find('='); equals != std::string::npos)
      variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

// One function for each kind of event, for std::visit.
template <class... Functions>
struct Cases : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Cases(Functions...) -> Cases<Functions...>;

// Called on the thread that is inside run_agent. `tell` prints between the workers' lines, never in
// the middle of one.
void on_event(const Event& event) {
  const auto say = [&](const std::string& text) {
    if (!text.empty()) event.tell("embed: " + text);
  };
  const Cases heed{
      [&](const Event::Joined&) {
        say("round " + std::to_string(event.round) + ", " + std::to_string(event.group_world_size) +
            " nodes");
      },
      [&](const Event::Started&) { say("the workers run"); },
      [&](const Event::Failed& failed) {
        if (failed.then == Event::Failed::Then::End) return;  // main() tells the last one.
        say("rank " + std::to_string(failed.failure.global_rank) +
            " failed: " + failed.failure.message +
            (failed.then == Event::Failed::Then::Restart
                 ? "; restart " + std::to_string(failed.restart) + " of " +
                       std::to_string(failed.max_restarts)
                 : ""));
      },
      [&](const Event::Waiting& waiting) { say(waiting.text); },
      [&](const Event::MembersChanged& changed) { say(changed.text); },
      [&](const Event::RunFailed& failed) { say(failed.text); },
      [&](const Event::Signalled& signalled) { say(signalled.text); },
      [&](const Event::CheckedIn& checked_in) { say(checked_in.text); },
      // There are more, and there will be. Of the end, main() has the result.
      [](const auto&) {},
  };
  std::visit(heed, event.what);
}

int complain(int exit_code, const std::string& text) {
  std::fprintf(stderr, "embed: %s\n", text.c_str());
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || std::atoi(argv[1]) < 1)
    return complain(2, "usage: embed WORKERS COMMAND [ARGUMENTS...]");

  regroup::AgentOptions options;
  options.spec.local_world_size = std::atoi(argv[1]);
  options.spec.command.assign(argv + 2, argv + argc);
  options.spec.environment = our_environment();
  options.spec.max_restarts = 3;
  // One node, on any free port. For two: one endpoint and run id on both, min_nodes and
  // max_nodes 2.
  options.rendezvous = {.backend = "c10d", .endpoint = "localhost:0", .run_id = "embedded"};
  options.signals_to_handle = {SIGTERM, SIGINT};
  options.on_event = on_event;
  auto logs = regroup::make_default_logs_specs({.log_dir = "/dev/null"});  // No files.
  if (!logs) return complain(2, logs.error().message);
  options.logs = std::move(*logs);

  const auto result = regroup::run_agent(std::move(options));
  if (!result) return complain(2, result.error().message);  // It could not even begin.
  if (result->cause) return complain(1, "failed for good: " + result->cause->message);
  if (!result->error.message.empty()) return complain(1, result->error.message);
  if (result->failed()) return complain(1, "stopped");
  std::printf("embed: done, after %d restarts\n", result->restarts);
  return 0;
}
