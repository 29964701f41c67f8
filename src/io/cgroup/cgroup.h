// A control group for every worker: what it used, whether the kernel killed in it for memory, and a
// way to kill all of it at once.
//
//   auto tree = CgroupTree::open(std::to_string(getpid()));
//   auto leaf = (*tree)->make_leaf("0");
//   spec.cgroup = (*leaf)->born_in();
//   spec.join = (*leaf)->join();
//
// Where the v2 tree is writable a leaf per worker is made below our own group. On machines where
// the memory controller still belongs to a v1 hierarchy (hybrid), a v1 memory leaf is made beside
// it, so that the numbers are there too.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/cgroup/cgroup_account.h"
#include "io/process/process.h"
#include "regroup/result.h"

namespace regroup::io {

class CgroupLeaf {
 public:
  ~CgroupLeaf();  // Removes its directories, unless processes are still alive in them.
  CgroupLeaf(const CgroupLeaf&) = delete;
  CgroupLeaf& operator=(const CgroupLeaf&) = delete;

  // For ProcessSpec; the leaf keeps the descriptors. -1 and empty where there is no such hierarchy.
  int born_in() const;
  std::vector<GroupToJoin> join() const;

  // A new leaf has counted nothing. The limit is the leaf's own.
  MemoryAccount memory() const;
  std::vector<pid_t> members() const;    // As far as they can be told.
  std::optional<int> populated() const;  // 0: no process is in it any more. Empty: unknown.
  bool kill_all() const;                 // False: the kernel has no cgroup.kill, or refused.
  const std::string& directory() const;  // Of the v2 leaf; empty if there is none.

 private:
  friend class CgroupTree;
  struct Impl;
  explicit CgroupLeaf(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// What tests look at instead of the real files.
struct CgroupView {
  std::string proc = "/proc";
  std::string controller = "memory";  // The one to enable in v2.
};

// One per group of workers: a directory below our own group that holds the leaves.
class CgroupTree {
 public:
  // Fails where no tree is writable; the message says what is missing and how to get it.
  //
  // In v2 a group cannot both hold processes and count for its children one by one. If this process
  // is alone in its group it moves out of the way, into a group of its own beside the tree, until
  // the tree is gone. If it is not, nothing counts memory: open the tree before starting other
  // processes.
  static Result<std::unique_ptr<CgroupTree>> open(const std::string& name,
                                                  const CgroupView& view = {});
  // Its directories are removed after the last leaf, unless processes are still alive in them.
  ~CgroupTree();
  CgroupTree(const CgroupTree&) = delete;
  CgroupTree& operator=(const CgroupTree&) = delete;

  // memory_limit 0: none. Fails where there is a limit to set and nothing that counts memory.
  Result<std::unique_ptr<CgroupLeaf>> make_leaf(const std::string& name,
                                                std::uint64_t memory_limit = 0);
  const std::string& directory() const;  // Of the v2 hierarchy; empty if there is none.
  // In every hierarchy: what must be removed, leaves first, if we are killed before we can.
  std::vector<std::string> directories() const;
  bool counts_memory() const;

 private:
  struct Impl;
  explicit CgroupTree(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace regroup::io
