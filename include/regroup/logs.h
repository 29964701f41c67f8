// Where the output of workers goes: files, the console, both, with which prefix.
//
// The default gives torchrun's layout: LOG_DIR/<run id>_<random>/attempt_<n>/<local rank>/ with
// stdout.log, stderr.log and error.json. Derive from LogsSpecs for another one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/result.h"

namespace regroup {

enum class Streams : unsigned { None = 0, Out = 1, Err = 2, Both = 3 };

// The same for all local ranks, or rank by rank: those not named have none.
struct StreamsByRank {
  Streams everybody = Streams::None;
  std::map<int, Streams> by_rank = {};  // If it is not empty, `everybody` is ignored.
  Streams of(int local_rank) const;
  friend bool operator==(const StreamsByRank&, const StreamsByRank&) = default;
};

// "0", "1", "2", "3", or "0:1,12:3" (local rank:streams), as for --redirects and --tee.
Result<StreamsByRank> parse_streams(std::string_view text);

// "0,8-15", as for --ranks-filter; "" is the empty set.
Result<std::set<int>> parse_ranks(std::string_view text);

// "a,b" with ",," for a comma, as for --duplicate-stdout-filters.
std::vector<std::string> parse_filters(std::string_view text);

enum class Console {
  No,        // Not shown.
  AsIs,      // Shown without a prefix.
  Prefixed,  // Shown with the worker's prefix.
};

struct StreamRoute {
  std::string file = {};  // Empty: none.
  Console console = Console::AsIs;
  friend bool operator==(const StreamRoute&, const StreamRoute&) = default;
};

struct WorkerRoutes {
  StreamRoute out;
  StreamRoute err;
  std::string error_file = {};  // Becomes TORCHELASTIC_ERROR_FILE; may be empty.
};

struct LogRoutes {
  std::vector<WorkerRoutes> workers;  // By local rank.
  // Lines that match a duplicate filter, of every stream that is teed; empty: none.
  std::string filtered_out = {};
  std::string filtered_err = {};
  std::string directory = {};  // Of this attempt, for people; empty: there is none.
};

struct WorkerName {
  int local_rank = 0;
  int global_rank = 0;
  std::string role = "default";
};

// The names that belong to one start of the workers.
struct Attempt {
  std::string run_id = "none";
  int restart_count = 0;
  std::vector<WorkerName> workers;  // By local rank.
};

class LogsSpecs {
 public:
  virtual ~LogsSpecs() = default;
  // Called before every start of the workers. Makes the directories; the files are opened by
  // regroup. A start that repeats a restart count (after a change of members) keeps the logs of the
  // earlier one: attempt_0 moves to attempt_0.1, .2, ...
  virtual Result<LogRoutes> routes(const Attempt& attempt) = 0;
  // The directory that contains everything, for messages to people. May be empty.
  virtual std::string root() const = 0;
  // The job is over. A temporary directory is removed after a success, and also if nothing was
  // written there.
  virtual void over(bool succeeded) { (void)succeeded; }
  // The workers could not be started: what routes() made is not needed.
  virtual void never_started() {}
};

struct DefaultLogsOptions {
  // Made if absent. Empty: a directory torchelastic_<random> in TMPDIR, made only when a file is
  // needed. "/dev/null": no files at all, everything goes to the console.
  std::string log_dir = {};
  StreamsByRank redirects = {};
  StreamsByRank tee = {};
  // Which workers may print to the console; an empty set means all. A worker must be in both.
  std::set<int> local_ranks = {};
  std::set<int> global_ranks = {};
};

// InvalidArgument if the directory is impossible: a file is in the way, or we may not make it.
Result<std::unique_ptr<LogsSpecs>> make_default_logs_specs(DefaultLogsOptions options);

}  // namespace regroup
