// `regroup status`: how the runs that meet at a coordinator are doing.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "base/endpoint.h"
#include "base/seconds.h"
#include "base/text.h"
#include "cli/ask/status_text.h"
#include "cli/flags/cli.h"
#include "cli/flags/report.h"
#include "cli/flags/secret_flag.h"
#include "cli/flags/time_flag.h"
#include "cli/show/view.h"
#include "runtime/rendezvous/rendezvous_settings.h"
#include "runtime/rendezvous/status_client.h"

namespace regroup::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct StatusFlags {
  std::string endpoint;
  std::string run_id;
  SecretFile secret_file;
  bool watch = false;
  bool json = false;
  bool all = false;
  double interval_seconds = 1;
  double timeout_seconds = 5;
};

Result<Endpoint> endpoint_of(const std::string& text) {
  auto where = parse_endpoint(text, runtime::kRendezvousPort);
  if (where && where->port == 0)
    return fail(ErrorKind::InvalidArgument, printable(text) + " has port 0");
  return where;
}

// Where standard output leads. Asked for each time, because people resize their windows.
struct Window {
  bool is_terminal = false;
  std::size_t columns = 0;
  std::size_t rows = 0;
};

Window look_at_window() {
  Window window;
  Surroundings around = look_around();
  around.terminal = ::isatty(STDOUT_FILENO) == 1;
  window.is_terminal = choose_view({}, around).form == View::Form::Terminal;
  winsize size{};
  if (window.is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    window.columns = size.ws_col;
    window.rows = size.ws_row;
  }
  return window;
}

StatusLayout layout_for(const StatusFlags& flags, const Window& window) {
  Surroundings around = look_around();
  around.terminal = window.is_terminal;
  return {.columns = window.columns, .all = flags.all, .paint = choose_view({}, around).paint};
}

std::string unknown_run(const StatusFlags& flags, const std::string& where,
                        runtime::StatusClient& client) {
  constexpr std::size_t kNamed = 10;
  std::string message = fmt::format("no run {} at {}", printable(flags.run_id), where);
  const auto all = client.ask("");
  if (!all) return message;
  const auto& runs = all->status.runs;
  if (runs.empty()) return message + "; no run has come there yet";
  message += "; there ";
  message += runs.size() == 1 ? "is " : "are ";
  for (std::size_t i = 0; i < std::min(runs.size(), kNamed); ++i)
    message += (i == 0 ? "" : ", ") + printable(runs[i].run_id);
  if (runs.size() > kNamed) message += fmt::format(" and {} more", runs.size() - kNamed);
  return message;
}

// Shows one look after the other: one below the other, or on a terminal in place of the last one.
class Screen {
 public:
  explicit Screen(const StatusFlags& flags) : flags_(flags) {}

  // False: the reader is gone.
  bool show(const runtime::StatusAnswer& answer, const std::string& where) {
    trouble_since_.reset();
    if (flags_.json) return write(answer.json + "\n");
    const Window window = look_at_window();
    last_ =
        answer.status.runs.empty() && !flags_.run_id.empty()
            ? fmt::format("no run {} at {} any more, or not yet\n", printable(flags_.run_id), where)
            : status_text(answer.status, where, layout_for(flags_, window));
    last_came_ = Clock::now();
    if (flags_.watch && window.is_terminal) return redraw(last_, window);
    const std::string blank = std::exchange(is_first_, false) ? "" : "\n";
    return write(blank + last_);
  }

  // While watching: printed once where lines stay, and counted where they can be replaced.
  bool show_trouble(const std::string& why) {
    const bool is_new = !trouble_since_;
    if (is_new) trouble_since_ = Clock::now();
    const Window window = look_at_window();
    if (flags_.json || !window.is_terminal) {
      if (is_new) report(kOk, why + " Trying again.");
      return true;
    }
    const auto age = std::chrono::duration_cast<Duration>(Clock::now() - last_came_);
    return redraw(fmt::format("{}\ntrying again; as it was {} ago:\n\n{}",
                              first_line(why).substr(0, window.columns), in_words(age), last_),
                  window);
  }

 private:
  bool redraw(const std::string& text, const Window& window) {
    const std::string fitting = fit_rows(text, window.rows);
    // Moves up to where the last one began and clears what is below, in one write, so that nothing
    // flickers.
    std::string command = "\r";
    if (lines_ > 0) command += fmt::format("\x1b[{}A", lines_);
    lines_ = std::count(fitting.begin(), fitting.end(), '\n');
    return write(command + "\x1b[J" + fitting);
  }

  static bool write(const std::string& text) {
    std::cout << text << std::flush;
    return static_cast<bool>(std::cout);
  }

  const StatusFlags& flags_;
  bool is_first_ = true;
  std::ptrdiff_t lines_ = 0;
  std::string last_;
  Clock::time_point last_came_;
  std::optional<Clock::time_point> trouble_since_;
};

// A person who watches ends it with Ctrl-C at any moment; that is no failure.
void end_quietly_on_signals() {
  for (const int number : {SIGINT, SIGTERM})
    if (std::signal(number, SIG_IGN) != SIG_IGN) std::signal(number, [](int) { ::_exit(kOk); });
}

int status(const StatusFlags& flags) {
  const auto where = endpoint_of(flags.endpoint);
  if (!where) return report(kBadStart, where.error().message);
  const std::string name = runtime::text_of(*where);
  auto secret = read_secret_flag(flags.secret_file);
  if (!secret) return report(kBadStart, secret.error().message);
  runtime::StatusClient client(*where, from_seconds(flags.timeout_seconds), std::move(*secret));
  Screen screen(flags);
  if (flags.watch) end_quietly_on_signals();
  // What is wrong from the beginning is reported at once: it may be a typo.
  auto answer = client.ask(flags.run_id);
  if (!answer) return report(kFailed, answer.error().message);
  if (!flags.run_id.empty() && answer->status.runs.empty())
    return report(kFailed, unknown_run(flags, name, client));
  if (!screen.show(*answer, name)) return kFailed;
  auto next = Clock::now();
  while (flags.watch) {
    next = std::max(next + from_seconds(flags.interval_seconds), Clock::now());
    std::this_thread::sleep_until(next);
    answer = client.ask(flags.run_id);
    const bool shown =
        answer ? screen.show(*answer, name) : screen.show_trouble(answer.error().message);
    if (!shown) return kFailed;
  }
  return kOk;
}

}  // namespace

void add_status_command(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<StatusFlags>();
  CLI::App* command = app.add_subcommand(
      "status",
      "Tell how the runs at a coordinator are doing: their rounds and nodes, which are lost or "
      "spare, what the run waits for, and why workers were started again. Changes nothing.");
  command->footer(
      "The endpoint is that of the run (--rdzv-endpoint): 'regroup coordinator', or the node that "
      "hosts it.");
  command
      ->add_option("endpoint", flags->endpoint,
                   "The coordinator's HOST, HOST:PORT or [IPv6]:PORT; the port is 29400 without")
      ->type_name("HOST[:PORT]")
      ->required()
      ->check([](const std::string& text) {
        const auto parsed = endpoint_of(text);
        return parsed ? std::string() : parsed.error().message;
      });
  command->add_option("--run", flags->run_id, "This run alone (its --rdzv-id)")->type_name("ID");
  add_secret_flag(*command, flags->secret_file, "The coordinator's secret, if it has one");
  command->add_flag("--all", flags->all, "List every node and every run, however many");
  command->add_flag("--json", flags->json, "As JSON, in one line, for programs");
  command->add_flag("--watch", flags->watch, "Look again and again, until Ctrl-C");
  takes_time(command->add_option("--interval", flags->interval_seconds, "Between two looks"), 0.2,
             1e6)
      ->capture_default_str();
  takes_time(command->add_option("--timeout", flags->timeout_seconds, "When to give up"), 0.001,
             1e6)
      ->capture_default_str();
  command->callback([flags, &exit_code] { exit_code = status(*flags); });
}

}  // namespace regroup::cli
