// torchrun's layout of log files, and its rules for which worker is shown where.
#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "io/file/pipe.h"
#include "regroup/logs.h"
#include "runtime/common/temporaries.h"

namespace regroup {
namespace {

namespace fs = std::filesystem;

bool has(Streams streams, Streams one) {
  return (static_cast<unsigned>(streams) & static_cast<unsigned>(one)) != 0;
}

tl::unexpected<Error> cannot(ErrorKind kind, const std::string& action, const fs::path& path,
                             const std::string& why) {
  return fail(kind, fmt::format("cannot {} '{}': {}", action, path.string(), why));
}

// PREFIX<six random characters> in `parent`, readable only by us.
Result<fs::path> make_unique_directory(const fs::path& parent, const std::string& prefix) {
  std::string path = (parent / (prefix + "XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr)
    return cannot(ErrorKind::Io, "make a directory for logs in", parent, io::error_in_words(errno));
  return fs::path(path);
}

Result<void> check_directory(const fs::path& path) {
  std::error_code error;
  std::error_code unseen;
  fs::create_directories(path, error);
  // Linux says that a file is in the way only for the last part; of any other it says "not a
  // directory", which is as clear.
  if (fs::exists(path, unseen) && !fs::is_directory(path, unseen))
    return cannot(ErrorKind::InvalidArgument, "put logs into", path,
                  "it is a file, not a directory. Choose another --log-dir.");
  if (error)
    return cannot(ErrorKind::InvalidArgument, "make the log directory", path,
                  error.message() + ". Choose another --log-dir.");
  if (::access(path.c_str(), W_OK | X_OK) != 0)
    return cannot(ErrorKind::InvalidArgument, "put logs into", path,
                  io::error_in_words(errno) + ". Choose another --log-dir, or change its mode.");
  return {};
}

bool has_files(const fs::path& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (!at->is_directory(error)) return true;
  return static_cast<bool>(error);
}

class DefaultLogs : public LogsSpecs {
 public:
  explicit DefaultLogs(DefaultLogsOptions options)
      : options_(std::move(options)), base_(options_.log_dir) {}

  Result<LogRoutes> routes(const Attempt& attempt) override;

  std::string root() const override { return options_.log_dir == "/dev/null" ? "" : base_; }

  void over(bool succeeded) override {
    if (!temporary_) return;
    std::error_code ignored;  // A file that cannot be removed stays, and does no harm.
    if (succeeded || !has_files(base_)) fs::remove_all(base_, ignored);
  }

  void never_started() override {
    std::error_code ignored;
    // Not if an earlier attempt left something there.
    if (!run_directory_.empty() && !has_files(run_directory_))
      fs::remove_all(std::exchange(run_directory_, {}), ignored);
    over(false);
  }

 private:
  Result<void> make_run_directory(const std::string& run_id);
  Result<fs::path> make_attempt_directory(int restart_count) const;
  bool is_shown(const WorkerName& worker) const;
  StreamRoute route(Streams one, const WorkerName& worker, const fs::path& file) const;

  DefaultLogsOptions options_;
  std::string base_;  // Empty until the temporary directory is needed.
  bool temporary_ = false;
  fs::path run_directory_;
};

Result<void> DefaultLogs::make_run_directory(const std::string& run_id) {
  if (!run_directory_.empty()) return {};
  if (base_.empty()) {
    auto made = make_unique_directory(runtime::directory_for_temporaries(), "torchelastic_");
    if (!made) return tl::unexpected(made.error());
    base_ = made->string();
    temporary_ = true;
  }
  // The directory may have been removed since the start.
  std::error_code error;
  fs::create_directories(base_, error);
  std::string name = run_id;
  std::replace(name.begin(), name.end(), '/', '_');
  auto made = make_unique_directory(base_, name + "_");
  if (!made) return tl::unexpected(made.error());
  run_directory_ = std::move(*made);
  return {};
}

Result<fs::path> DefaultLogs::make_attempt_directory(int restart_count) const {
  const fs::path path = run_directory_ / fmt::format("attempt_{}", restart_count);
  std::error_code error;
  if (fs::exists(path, error)) {
    // An earlier start with the same number of restarts, before the members changed.
    fs::path kept;
    int number = 1;
    do kept = fmt::format("{}.{}", path.string(), number++);
    while (fs::exists(kept, error));
    fs::rename(path, kept, error);
    if (error) return cannot(ErrorKind::Io, "move away the logs in", path, error.message());
  }
  fs::create_directories(path, error);
  if (error) return cannot(ErrorKind::Io, "make the log directory", path, error.message());
  return path;
}

bool DefaultLogs::is_shown(const WorkerName& worker) const {
  const auto is_in = [](const std::set<int>& ranks, int rank) {
    return ranks.empty() || ranks.count(rank) != 0;
  };
  return is_in(options_.local_ranks, worker.local_rank) &&
         is_in(options_.global_ranks, worker.global_rank);
}

StreamRoute DefaultLogs::route(Streams one, const WorkerName& worker, const fs::path& file) const {
  const bool teed = has(options_.tee.of(worker.local_rank), one);
  const bool redirected = teed || has(options_.redirects.of(worker.local_rank), one);
  StreamRoute route{.file = redirected ? file.string() : ""};
  if (!is_shown(worker))
    route.console = Console::No;
  else if (teed)
    route.console = Console::Prefixed;
  else
    route.console = redirected ? Console::No : Console::AsIs;
  return route;
}

Result<LogRoutes> DefaultLogs::routes(const Attempt& attempt) {
  LogRoutes routes;
  if (options_.log_dir == "/dev/null") {
    routes.workers.resize(attempt.workers.size());
    return routes;
  }
  if (auto made = make_run_directory(attempt.run_id); !made) return tl::unexpected(made.error());
  const auto directory = make_attempt_directory(attempt.restart_count);
  if (!directory) return tl::unexpected(directory.error());
  for (const WorkerName& worker : attempt.workers) {
    const fs::path own = *directory / std::to_string(worker.local_rank);
    std::error_code error;
    fs::create_directory(own, error);
    if (error) return cannot(ErrorKind::Io, "make the log directory", own, error.message());
    routes.workers.push_back({.out = route(Streams::Out, worker, own / "stdout.log"),
                              .err = route(Streams::Err, worker, own / "stderr.log"),
                              .error_file = (own / "error.json").string()});
  }
  routes.filtered_out = (*directory / "filtered_stdout.log").string();
  routes.filtered_err = (*directory / "filtered_stderr.log").string();
  routes.directory = directory->string();
  return routes;
}

}  // namespace

Result<std::unique_ptr<LogsSpecs>> make_default_logs_specs(DefaultLogsOptions options) {
  if (!options.log_dir.empty() && options.log_dir != "/dev/null") {
    // Workers may run in another directory than we do.
    std::error_code error;
    const fs::path whole = fs::absolute(options.log_dir, error);
    if (!error) options.log_dir = whole.string();
    if (auto checked = check_directory(options.log_dir); !checked)
      return tl::unexpected(checked.error());
  }
  return std::make_unique<DefaultLogs>(std::move(options));
}

}  // namespace regroup
