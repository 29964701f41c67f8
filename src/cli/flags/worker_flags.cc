#include "cli/flags/worker_flags.h"

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/seconds.h"
#include "base/text.h"
#include "cli/flags/restart_flags.h"
#include "cli/flags/time_flag.h"
#include "cli/flags/torchrun_flags.h"

namespace regroup::cli {
namespace {

constexpr double kLongest = 1e9;  // Seconds.
// A real-time signal (SIGRTMIN + 10), because scripts use SIGUSR1 and SIGUSR2 themselves.
constexpr int kDumpSignal = 44;

tl::unexpected<Error> wrong(const char* flag, const Error& error) {
  return fail(ErrorKind::InvalidArgument, std::string(flag) + ": " + error.message);
}

std::vector<int> signals(const char* flag, const std::string& list,
                         std::vector<std::string>& warnings) {
  auto names = runtime::parse_signals(list);
  for (const std::string& name : names.unknown)
    warnings.push_back(
        fmt::format("{}: '{}' is no signal that can be caught; it is left out", flag, name));
  return std::move(names.numbers);
}

// The flag, else the environment, else torchrun's half a minute.
Result<Duration> shutdown_grace(const WorkerFlags& flags) {
  double count = 30;
  if (flags.shutdown_seconds) {
    count = *flags.shutdown_seconds;
  } else if (const char* text = std::getenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"); text != nullptr) {
    char* end = nullptr;
    count = std::strtod(text, &end);
    if (end == text || *end != 0 || !std::isfinite(count) || count < 0 || count > kLongest)
      return fail(ErrorKind::InvalidArgument,
                  "TORCH_ELASTIC_SHUTDOWN_TIMEOUT is '" + std::string(text) +
                      "'; it takes seconds, 0 or more. Unset it for 30, or pass "
                      "--shutdown-timeout");
  }
  return from_seconds(count);
}

// The library would turn -5 into a very large size.
std::string not_negative(std::string& size) {
  return size.starts_with('-') ? "'" + size + "' is no size; write 512MB, say" : "";
}

void add_log_flags(CLI::App& command, WorkerFlags& flags) {
  constexpr const char* kGroup = "Output";
  command
      .add_option(both_spellings("log-dir"), flags.log_dir,
                  "Where log files go: DIR/<run id>_<random>/attempt_<n>/<local rank>/. Without it "
                  "a directory in TMPDIR, kept after a failure; /dev/null: no files")
      ->type_name("DIR")
      ->group(kGroup);
  command
      .add_option(both_spellings("redirects", 'r'), flags.redirects,
                  "Write streams to files: 0 none, 1 stdout, 2 stderr, 3 both; or by local rank: "
                  "0:1,1:3")
      ->type_name("STREAMS")
      ->group(kGroup);
  command
      .add_option(both_spellings("tee", 't'), flags.tee,
                  "Write streams to files and to the console, with a prefix; as --redirects")
      ->type_name("STREAMS")
      ->group(kGroup);
  command
      .add_option(both_spellings("log-line-prefix-template"), flags.prefix,
                  "Prefix of teed lines; ${role_name} ${local_rank} ${rank} ${hostname} ${time}. "
                  "Default '[${role_name}${local_rank}]:', or "
                  "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")
      ->type_name("TEMPLATE")
      ->group(kGroup);
  command
      .add_option(both_spellings("local-ranks-filter"), flags.local_ranks,
                  "Only these local ranks print to the console: 0,2-3")
      ->type_name("RANKS")
      ->group(kGroup);
  command
      .add_option(both_spellings("ranks-filter"), flags.ranks,
                  "Only these global ranks print to the console: 0,8-15")
      ->type_name("RANKS")
      ->group(kGroup);
  command
      .add_option(both_spellings("duplicate-stdout-filters"), flags.out_filters,
                  "Teed lines of stdout with one of these texts also go to filtered_stdout.log: "
                  "a,b (,, is a comma)")
      ->type_name("TEXTS")
      ->group(kGroup);
  command
      .add_option(both_spellings("duplicate-stderr-filters"), flags.err_filters,
                  "The same of stderr, to filtered_stderr.log")
      ->type_name("TEXTS")
      ->group(kGroup);
  command
      .add_option("--log-max-bytes", flags.log_max_bytes,
                  "A log file that would grow beyond SIZE is rotated: stdout.log.1 and so on")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->transform(CLI::Validator(not_negative, ""))
      ->group(kGroup);
  command.add_option("--log-keep", flags.log_keep, "Rotated files that are kept")
      ->type_name("N")
      ->check(CLI::Range(0, 10'000).description(""))
      ->capture_default_str()
      ->group(kGroup);
}

void add_stop_flags(CLI::App& command, WorkerFlags& flags) {
  constexpr const char* kGroup = "Stopping";
  takes_time(command.add_option(both_spellings("shutdown-timeout"), flags.shutdown_seconds,
                                "Between the stop signal and SIGKILL. Default 30s, or "
                                "TORCH_ELASTIC_SHUTDOWN_TIMEOUT (seconds)"),
             0, kLongest)
      ->group(kGroup);
  command
      .add_option(both_spellings("signals-to-handle"), flags.handle,
                  "Signals that end the run; a second one kills at once")
      ->type_name("NAMES")
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--forward-signals", flags.forward, "Signals that are handed on to the workers")
      ->type_name("NAMES")
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option(
          "--children", flags.children,
          "What workers started in a session of its own (setsid: an upload, say), once all "
          "have succeeded: wait (5 minutes; or wait:10m) and then end it, end, leave it running. "
          "Default PET_CHILDREN (of run), or wait")
      ->type_name("HOW")
      ->group(kGroup);
  command
      .add_option("--cgroup", flags.cgroup,
                  "A control group for every worker: auto (where the kernel lets us), off, require")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "off", "require"}).description(""))
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--memory-limit", flags.memory_limit,
                  "Most memory of one worker with all its children, enforced by its control group")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->transform(CLI::Validator(not_negative, ""))
      ->group(kGroup);
}

void add_hang_flags(CLI::App& command, WorkerFlags& flags) {
  constexpr const char* kGroup = "Hangs";
  takes_time(
      command.add_option("--hang-timeout", flags.hang_seconds,
                         "Workers that write nothing, move no data and use no CPU time for TIME "
                         "hang, and fail. On every node or on none. 0: not looked for"),
      0, kLongest)
      ->capture_default_str()
      ->group(kGroup);
  takes_time(
      command.add_option("--hang-grace", flags.hang_grace_seconds,
                         "After the workers' start nothing counts for TIME: loading, compiling, "
                         "the first step. Default twice --hang-timeout"),
      0, kLongest)
      ->group(kGroup);
  command
      .add_option("--evidence", flags.evidence,
                  "When the stacks of all workers are taken before they are ended: on-hang (and "
                  "for expired timers), always (also for the others when one fails), never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"on-hang", "always", "never"}).description(""))
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--dump-signal", flags.dump_signal,
                  "The signal that workers have registered Python's faulthandler for; sent only "
                  "to those that catch it. Default 44, as regroup.dump_on_hang() does it")
      ->type_name("NAME")
      ->group(kGroup);
}

Result<void> apply_children(const std::string& text, WorkersSpec& spec) {
  constexpr std::string_view kWaitFor = "wait:";
  if (text == "wait" || text.starts_with(kWaitFor)) {
    spec.children = Children::Wait;
    if (text == "wait") return {};
    if (const auto time = parse_time(std::string_view(text).substr(kWaitFor.size()))) {
      spec.children_wait = *time;
      return {};
    }
  }
  spec.children = text == "end" ? Children::End : Children::Leave;
  if (text == "end" || text == "leave") return {};
  return fail(ErrorKind::InvalidArgument, "--children (PET_CHILDREN) is " + printable(text) +
                                              "; it takes wait, wait:10m, end or leave");
}

Result<void> apply_hang_flags(const WorkerFlags& flags, WorkersSpec& spec) {
  spec.hang_timeout = from_seconds(flags.hang_seconds);
  if (flags.hang_grace_seconds) spec.hang_grace = from_seconds(*flags.hang_grace_seconds);
  spec.take_stacks = flags.evidence == "never"    ? TakeStacks::Never
                     : flags.evidence == "always" ? TakeStacks::Always
                                                  : TakeStacks::OnHang;
  spec.dump_signal = kDumpSignal;
  if (flags.dump_signal.empty()) return {};
  const auto found = runtime::parse_signals(flags.dump_signal);
  if (found.numbers.size() != 1)
    return fail(ErrorKind::InvalidArgument, "--dump-signal is '" + flags.dump_signal +
                                                "'; it takes a signal that can be caught, "
                                                "SIGUSR1, say");
  spec.dump_signal = found.numbers.front();
  return {};
}

}  // namespace

void add_worker_flags(CLI::App& command, WorkerFlags& flags) {
  add_log_flags(command, flags);
  add_stop_flags(command, flags);
  add_hang_flags(command, flags);
}

Result<WorkerChoices> apply(const WorkerFlags& flags, WorkersSpec& spec) {
  WorkerChoices choices;
  auto redirects = parse_streams(flags.redirects);
  if (!redirects) return wrong("--redirects", redirects.error());
  auto tee = parse_streams(flags.tee);
  if (!tee) return wrong("--tee", tee.error());
  auto local_ranks = parse_ranks(flags.local_ranks);
  if (!local_ranks) return wrong("--local-ranks-filter", local_ranks.error());
  auto ranks = parse_ranks(flags.ranks);
  if (!ranks) return wrong("--ranks-filter", ranks.error());
  const auto grace = shutdown_grace(flags);
  if (!grace) return tl::unexpected(grace.error());
  choices.logs = {.log_dir = flags.log_dir,
                  .redirects = std::move(*redirects),
                  .tee = std::move(*tee),
                  .local_ranks = std::move(*local_ranks),
                  .global_ranks = std::move(*ranks)};
  choices.signals = {.handle = signals("--signals-to-handle", flags.handle, choices.warnings),
                     .forward = signals("--forward-signals", flags.forward, choices.warnings)};
  spec.grace = *grace;
  spec.prefix_template = flags.prefix;
  if (spec.prefix_template.empty())
    if (const char* text = std::getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"); text != nullptr)
      spec.prefix_template = text;
  if (flags.out_filters) spec.out_filters = parse_filters(*flags.out_filters);
  if (flags.err_filters) spec.err_filters = parse_filters(*flags.err_filters);
  spec.log_max_bytes = flags.log_max_bytes;
  spec.log_keep = flags.log_keep;
  spec.cgroup = flags.cgroup == "off"       ? CgroupUse::Off
                : flags.cgroup == "require" ? CgroupUse::Require
                                            : CgroupUse::Auto;
  spec.memory_limit = flags.memory_limit;
  if (auto applied = apply_children(flags.children, spec); !applied)
    return tl::unexpected(applied.error());
  if (auto applied = apply_hang_flags(flags, spec); !applied)
    return tl::unexpected(applied.error());
  return choices;
}

}  // namespace regroup::cli
