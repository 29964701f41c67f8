#include "io/cgroup/cgroup.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/cgroup/cgroup_account.h"
#include "io/cgroup/cgroup_directory.h"
#include "io/cgroup/cgroup_files.h"
#include "io/file/kernel_files.h"
#include "io/loop/descriptor.h"

namespace regroup::io {
namespace {

constexpr const char* kHowToGetOne =
    ". Give regroup a control group of its own (systemd-run --user --scope -p Delegate=yes …), or, "
    "in Docker or Kubernetes, a writable mount of /sys/fs/cgroup.";

bool is_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find_first_of("/\n") == std::string::npos;
}

// A directory that is removed at the end, or nothing.
struct Group {
  std::string path;
  Descriptor fd;  // What it is held for: a lock, a way to be born in it, or to join.

  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    fd.close();
    remove();
  }
  void remove() {
    if (!path.empty()) remove_group(std::exchange(path, {}));
  }
  explicit operator bool() const { return !path.empty(); }
};

// What all leaves share. The members are destroyed in the order that the kernel wants: first the
// groups below, then the controller, and only then may we be in our own group again.
struct Trunk {
  std::string own;  // Of v2.
  std::string controller;
  bool enabled = false;  // The controller in our own group, by us.
  Group agent_group;     // Where we are meanwhile, if we had to move out of the way.
  Group unified;
  Group memory_v1;
  bool counts = false;

  Trunk() = default;
  Trunk(const Trunk&) = delete;
  Trunk& operator=(const Trunk&) = delete;
  ~Trunk() {
    unified.remove();
    disable();
  }

  bool enable();
  void disable();
  void enable_in_own_group();
  bool is_alone() const;
};

bool Trunk::is_alone() const {
  const auto processes = read_text(own + "/cgroup.procs");
  return processes && *processes == fmt::format("{}\n", ::getpid());
}

void Trunk::enable_in_own_group() {
  const std::string file = own + "/cgroup.subtree_control";
  int error = write_text(file, "+" + controller);
  if (error == EBUSY && is_alone()) {
    const std::string name = unified.path.substr(unified.path.rfind('/') + 1);
    if (const auto made = make_group(own, name + std::string(kAgentSuffix))) {
      agent_group.path = *made;
      error = write_text(agent_group.path + "/cgroup.procs", "0");  // 0 is the process that writes.
      if (error == 0) error = write_text(file, "+" + controller);
    }
  }
  enabled = error == 0;
}

// Enables it for the children of our own group, and then for those of the tree. Needs a controller
// that the groups above us have passed down.
bool Trunk::enable() {
  const auto given = read_text(own + "/cgroup.controllers");
  if (!given || !has_word(*given, controller)) return false;
  const auto passed_on = read_text(own + "/cgroup.subtree_control");
  if (!passed_on || !has_word(*passed_on, controller)) enable_in_own_group();
  if (write_text(unified.path + "/cgroup.subtree_control", "+" + controller) == 0) return true;
  disable();
  return false;
}

// Another process's tree beside ours may still need the controller; then the kernel refuses, and we
// stay where we are.
void Trunk::disable() {
  if (std::exchange(enabled, false)) write_text(own + "/cgroup.subtree_control", "-" + controller);
  if (!agent_group) return;
  write_text(own + "/cgroup.procs", "0");
  agent_group.remove();
}

// Makes the tree's directory in one hierarchy and keeps it locked.
Result<void> plant(Group& group, const OwnGroup& own, const std::string& name) {
  remove_abandoned_groups(own.directory, std::string(kGroupPrefix));
  // Another launcher that cleans up may remove it between the two steps.
  constexpr int kTries = 10;
  for (int i = 0; i < kTries && !group.fd; ++i) {
    auto made = make_group(own.directory, std::string(kGroupPrefix) + name);
    if (!made) return tl::unexpected(made.error());
    group.path = *made;
    group.fd = lock_group(group.path);
  }
  return {};
}

// Makes a leaf in one hierarchy, if the tree is there, and opens a file of it.
Result<void> grow(Group& leaf, const Group& tree, const std::string& name, const char* file,
                  int flags) {
  if (!tree) return {};
  auto made = make_group(tree.path, name);
  if (!made) return tl::unexpected(made.error());
  leaf.path = *made;
  leaf.fd = Descriptor(::open((leaf.path + file).c_str(), flags | O_CLOEXEC));
  if (!leaf.fd)
    return fail(ErrorKind::Io,
                fmt::format("cannot open {}{}: {}", leaf.path, file, std::strerror(errno)));
  return {};
}

}  // namespace

struct CgroupTree::Impl {
  std::shared_ptr<Trunk> trunk;
};

struct CgroupLeaf::Impl {
  // Below the leaf's groups: it must be removed after them.
  std::shared_ptr<Trunk> trunk;
  Group unified;
  Group memory_v1;
  bool limited = false;
};

Result<std::unique_ptr<CgroupTree>> CgroupTree::open(const std::string& name,
                                                     const CgroupView& view) {
  if (!is_name(name))
    return fail(ErrorKind::InvalidArgument, "a control group cannot be named '" + name + "'");
  auto trunk = std::make_shared<Trunk>();
  std::string why;
  const auto v2 = find_own_group(view.proc, "");
  if (v2) {
    trunk->own = v2->directory;
    trunk->controller = view.controller;
    if (const auto planted = plant(trunk->unified, *v2, name); !planted)
      why = planted.error().message;
    else
      trunk->counts = trunk->enable();
  }
  const auto v1 = find_own_group(view.proc, "memory");
  if (v1) {
    if (const auto planted = plant(trunk->memory_v1, *v1, name); !planted)
      why += (why.empty() ? "" : "; ") + planted.error().message;
    else
      trunk->counts = true;
  }
  if (!v1 && !v2)
    return fail(ErrorKind::Refused,
                fmt::format("cannot make a control group for the workers: no hierarchy is mounted "
                            "where this process can see its own group (see {}/self/mountinfo){}",
                            view.proc, kHowToGetOne));
  if (!trunk->unified && !trunk->memory_v1)
    return fail(ErrorKind::Io, "no control groups for the workers: " + why + kHowToGetOne);
  return std::unique_ptr<CgroupTree>(
      new CgroupTree(std::make_unique<Impl>(Impl{std::move(trunk)})));
}

CgroupTree::CgroupTree(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CgroupTree::~CgroupTree() = default;

const std::string& CgroupTree::directory() const { return impl_->trunk->unified.path; }

std::vector<std::string> CgroupTree::directories() const {
  std::vector<std::string> all;
  for (const Group* group : {&impl_->trunk->unified, &impl_->trunk->memory_v1})
    if (*group) all.push_back(group->path);
  return all;
}

bool CgroupTree::counts_memory() const { return impl_->trunk->counts; }

Result<std::unique_ptr<CgroupLeaf>> CgroupTree::make_leaf(const std::string& name,
                                                          std::uint64_t memory_limit) {
  const auto no_leaf = [&](ErrorKind kind, const std::string& why) {
    return fail(kind, fmt::format("no control group for worker {}: {}", name, why));
  };
  if (!is_name(name)) return no_leaf(ErrorKind::InvalidArgument, "it cannot have that name");
  const Trunk& trunk = *impl_->trunk;
  auto leaf = std::make_unique<CgroupLeaf::Impl>();
  leaf->trunk = impl_->trunk;

  // O_PATH is enough for CLONE_INTO_CGROUP.
  if (const auto grown = grow(leaf->unified, trunk.unified, name, "", O_PATH | O_DIRECTORY); !grown)
    return no_leaf(ErrorKind::Io, grown.error().message);
  if (const auto grown = grow(leaf->memory_v1, trunk.memory_v1, name, "/cgroup.procs", O_WRONLY);
      !grown)
    return no_leaf(ErrorKind::Io, grown.error().message);

  if (memory_limit == 0) return std::unique_ptr<CgroupLeaf>(new CgroupLeaf(std::move(leaf)));
  if (!trunk.counts)
    return no_leaf(ErrorKind::Refused,
                   fmt::format("a memory limit needs the memory controller, and {} has none{}",
                               trunk.unified.path, kHowToGetOne));
  leaf->limited = true;
  // If swap were allowed, the limit would only make the worker slow. Where swap is not counted the
  // files are missing, which is fine.
  const bool is_v1 = static_cast<bool>(leaf->memory_v1);
  const std::string file =
      is_v1 ? leaf->memory_v1.path + "/memory.limit_in_bytes" : leaf->unified.path + "/memory.max";
  const std::string bytes = std::to_string(memory_limit);
  if (const int error = write_text(file, bytes))
    return no_leaf(ErrorKind::Io,
                   fmt::format("cannot write {} to {}: {}", bytes, file, std::strerror(error)));
  if (is_v1)
    write_text(leaf->memory_v1.path + "/memory.memsw.limit_in_bytes", bytes);
  else
    write_text(leaf->unified.path + "/memory.swap.max", "0");
  return std::unique_ptr<CgroupLeaf>(new CgroupLeaf(std::move(leaf)));
}

CgroupLeaf::CgroupLeaf(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CgroupLeaf::~CgroupLeaf() = default;

int CgroupLeaf::born_in() const { return impl_->unified.fd.get(); }

std::vector<GroupToJoin> CgroupLeaf::join() const {
  if (!impl_->memory_v1) return {};
  // A limit must hold from the first instruction; an account is not worth a slow start.
  return {{.procs = impl_->memory_v1.fd.get(), .later = !impl_->limited}};
}

MemoryAccount CgroupLeaf::memory() const {
  for (const Group* group : {&impl_->memory_v1, &impl_->unified})
    if (*group)
      if (auto account = read_memory_account(group->path)) return *account;
  return {};
}

std::vector<pid_t> CgroupLeaf::members() const {
  std::vector<pid_t> pids;
  const Group& group = impl_->unified ? impl_->unified : impl_->memory_v1;
  const auto text = read_text(group.path + "/cgroup.procs");
  for (std::string_view rest = text ? *text : std::string_view(); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    pid_t pid = 0;
    if (std::from_chars(rest.data(), rest.data() + end, pid).ec == std::errc()) pids.push_back(pid);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return pids;
}

std::optional<int> CgroupLeaf::populated() const {
  if (impl_->unified) {
    const auto events = read_text(impl_->unified.path + "/cgroup.events");
    const auto number = events ? number_of(*events, "populated") : std::nullopt;
    if (!number) return {};
    return static_cast<int>(*number);
  }
  const auto processes = read_text(impl_->memory_v1.path + "/cgroup.procs");
  if (!processes) return {};
  return static_cast<int>(std::count(processes->begin(), processes->end(), '\n'));
}

bool CgroupLeaf::kill_all() const {
  return impl_->unified && write_text(impl_->unified.path + "/cgroup.kill", "1") == 0;
}

const std::string& CgroupLeaf::directory() const { return impl_->unified.path; }

}  // namespace regroup::io
