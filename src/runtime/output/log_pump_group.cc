#include "runtime/output/log_pump_group.h"

#include <limits.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "io/file/log_file.h"
#include "io/file/pseudo_terminal.h"
#include "runtime/common/limits.h"

namespace regroup::runtime {
namespace {

// How the bytes of a stream leave the worker.
enum class Way {
  Inherited,  // Straight to our console: in a file there is nothing to arrange.
  Nowhere,
  File,  // Straight to its file.
  Terminal,
  Pipe,
};

Way way_of(const StreamRoute& route, bool is_errors, int console, bool rotates) {
  const bool shown = route.console != Console::No;
  if (!route.file.empty()) return shown || rotates ? Way::Pipe : Way::File;
  // The end of the errors is kept for the report of a failure, so they always come through us.
  if (!shown) return is_errors ? Way::Pipe : Way::Nowhere;
  if (route.console == Console::Prefixed) return Way::Pipe;
  switch (io::kind_of(console)) {
    case io::FdKind::Terminal:
      return Way::Terminal;
    case io::FdKind::File:
    case io::FdKind::Device:
    case io::FdKind::Closed:
      return is_errors ? Way::Pipe : Way::Inherited;
    case io::FdKind::Stream:
      return Way::Pipe;
  }
  return Way::Pipe;
}

std::string short_host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, HOST_NAME_MAX);
  const std::string whole = name;
  return whole.substr(0, whole.find('.'));
}

core::output::Prefix prefix_for(const std::string& text, const WorkerName& worker) {
  static const std::string host = short_host_name();
  const std::map<std::string, std::string> values = {
      {"role", worker.role},
      {"role_name", worker.role},
      {"local_rank", std::to_string(worker.local_rank)},
      {"rank", std::to_string(worker.global_rank)},
      {"host", host},
      {"hostname", host},
  };
  return {text.empty() ? "[${role}${local_rank}]:" : text, values};
}

class Opening {
 public:
  Opening(const LogPumpOptions& options, Screens screens, PumpTurn& turn)
      : options_(options), screens_(screens), turn_(turn) {
    opened_.group = std::make_unique<PumpGroup>();
  }

  Result<void> open_filtered(const LogRoutes& routes) {
    if (auto opened = open_filtered(routes.filtered_out, options_.out_filters, filtered_out_);
        !opened)
      return opened;
    return open_filtered(routes.filtered_err, options_.err_filters, filtered_err_);
  }

  Result<void> open_worker(const WorkerRoutes& routes, const WorkerName& name) {
    WorkerStreams streams;
    opened_.group->workers.push_back({name.local_rank, nullptr, {}, false});
    if (is_one_place(routes)) {
      opened_.group->workers.back().one_stream = true;
      if (auto both = open_stream(routes.err, name, true, streams.err); !both) return both;
      streams.out = streams.err;
      opened_.ends.streams.push_back(streams);
      return {};
    }
    if (auto out = open_stream(routes.out, name, false, streams.out); !out) return out;
    if (auto err = open_stream(routes.err, name, true, streams.err); !err) return err;
    opened_.ends.streams.push_back(streams);
    return {};
  }

  OpenedGroup take() { return std::move(opened_); }

 private:
  // Both streams of a worker end up in the same place. The worker then has one description for both:
  // through two pipes nobody can tell what was written first.
  bool is_one_place(const WorkerRoutes& routes) const {
    if (routes.out != routes.err) return false;
    if (routes.out.console == Console::No) return !routes.out.file.empty();
    if (screens_.err == nullptr || screens_.out != screens_.err) return false;
    if (routes.out.console == Console::Prefixed && (filtered_out_ || filtered_err_)) return false;
    // In /dev/null nothing has an order, and what is written there need not come through us.
    return io::kind_of(options_.console_err) != io::FdKind::Device;
  }

  Result<PumpFile> open_file(const std::string& path) {
    auto file = io::LogFile::open(path);
    if (!file) return tl::unexpected(file.error());
    return PumpFile(std::move(*file), {options_.max_bytes, options_.keep}, options_.warn);
  }

  Result<void> open_filtered(const std::string& path, const std::vector<std::string>& filters,
                             FilteredCopy*& copy) {
    if (path.empty() || filters.empty()) return {};
    auto file = open_file(path);
    if (!file) return tl::unexpected(file.error());
    opened_.group->filtered.push_back(
        std::make_unique<FilteredCopy>(FilteredCopy{std::move(*file), filters, {}}));
    copy = opened_.group->filtered.back().get();
    return {};
  }

  int hold(io::Descriptor end) {
    opened_.ends.held.push_back(std::move(end));
    return opened_.ends.held.back().get();
  }

  Result<void> open_stream(const StreamRoute& route, const WorkerName& name, bool is_errors,
                           int& end) {
    const int console = is_errors ? options_.console_err : options_.console_out;
    switch (const Way way = way_of(route, is_errors, console, options_.max_bytes > 0)) {
      case Way::Inherited:
        end = console == STDOUT_FILENO ? -1 : console;
        return {};
      case Way::Nowhere: {
        auto null = io::open_null();
        if (!null) return tl::unexpected(null.error());
        end = hold(std::move(*null));
        return {};
      }
      case Way::File: {
        auto file = io::LogFile::open(route.file);
        if (!file) return tl::unexpected(file.error());
        end = hold(file->take_descriptor());
        if (is_errors) opened_.group->workers.back().errors_file = route.file;
        return {};
      }
      case Way::Terminal:
      case Way::Pipe: {
        StreamPlan plan;
        if (auto made = make_channel(way, console, plan, end); !made) return made;
        return add_stream(std::move(plan), route, name, is_errors);
      }
    }
    return {};
  }

  Result<void> make_channel(Way way, int console, StreamPlan& plan, int& end) {
    if (way == Way::Terminal) {
      if (auto terminal = io::make_pseudo_terminal(console)) {
        plan.from = std::move(terminal->master);
        plan.capacity = 4096;  // The kernel passes on this much at a time.
        end = hold(std::move(terminal->slave));
        return {};
      }
    }
    auto pipe = io::make_pipe(kOutputPipe);
    if (!pipe) return tl::unexpected(pipe.error());
    plan.from = std::move(pipe->read);
    plan.capacity = pipe->capacity;
    end = hold(std::move(pipe->write));
    return {};
  }

  Result<void> add_stream(StreamPlan plan, const StreamRoute& route, const WorkerName& name,
                          bool is_errors) {
    PumpGroup& group = *opened_.group;
    plan.number = group.streams.size() + 1;  // 0 is for our own lines.
    plan.local_rank = name.local_rank;
    plan.prefixed = route.console == Console::Prefixed;
    plan.prefix = prefix_for(options_.prefix_template, name);
    plan.keeps_tail = is_errors;
    plan.bar_state = options_.bar_state;
    if (plan.prefixed) plan.filtered = is_errors ? filtered_err_ : filtered_out_;
    if (route.console != Console::No) plan.screen = is_errors ? screens_.err : screens_.out;
    if (!route.file.empty()) {
      auto file = open_file(route.file);
      if (!file) return tl::unexpected(file.error());
      plan.file.emplace(std::move(*file));
    }
    group.streams.push_back(std::make_unique<PumpStream>(std::move(plan), turn_));
    if (is_errors) group.workers.back().errors = group.streams.back().get();
    return {};
  }

  const LogPumpOptions& options_;
  Screens screens_;
  PumpTurn& turn_;
  OpenedGroup opened_;
  FilteredCopy* filtered_out_ = nullptr;
  FilteredCopy* filtered_err_ = nullptr;
};

}  // namespace

Result<OpenedGroup> open_group(const LogPumpOptions& options, Screens screens, PumpTurn& turn,
                               const LogRoutes& routes, const std::vector<WorkerName>& names) {
  Opening opening(options, screens, turn);
  if (auto opened = opening.open_filtered(routes); !opened) return tl::unexpected(opened.error());
  for (std::size_t i = 0; i < routes.workers.size(); ++i) {
    const WorkerName name =
        i < names.size() ? names[i] : WorkerName{static_cast<int>(i), static_cast<int>(i)};
    if (auto opened = opening.open_worker(routes.workers[i], name); !opened)
      return tl::unexpected(opened.error());
  }
  return opening.take();
}

}  // namespace regroup::runtime
