#include "cli/show/advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace regroup::cli {
namespace {

constexpr std::size_t kMost = 2;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return has(text, part); });
}

// The text between `before` and the next `end`; empty: there is none.
std::string between(std::string_view text, std::string_view before, char end) {
  const std::size_t begin = text.rfind(before);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin + before.size());
  const std::size_t length = text.find_first_of(std::string{end, '\n'});
  return length == std::string_view::npos || text[length] == '\n'
             ? std::string()
             : std::string(text.substr(0, length));
}

bool plain_word(std::string_view text) {
  return !text.empty() && text.size() < 200 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

class Adviser {
 public:
  Adviser(const ProcessFailure& failure, const Started& started)
      : failure_(failure), started_(started) {
    for (const std::string& line : failure.evidence) evidence_ += line + "\n";
    // The exception is what ended it; other output did not. A signal may have come from a library
    // that said why before.
    said_ = failure.message;
    if (!failure.traceback.empty()) said_ += "\n" + failure.traceback;
    if (failure.traceback.empty() || !failure.signal_name.empty()) said_ += "\n" + failure.tail;
  }

  std::vector<std::string> take() && {
    if (failure_.stopped_by_us || failure_.survived) return {};
    memory();
    shared_memory();
    devices();
    imports();
    script();
    exit_codes();
    ports();
    collectives();
    hangs();
    faults();
    if (advice_.size() > kMost) advice_.resize(kMost);
    return std::move(advice_);
  }

 private:
  void add(std::string line) { advice_.push_back(std::move(line)); }

  void memory() {
    if (!failure_.out_of_memory) return;
    add("a smaller batch, or fewer data loader workers: they need memory too");
    if (has_any(evidence_, {"in its cgroup", "limit"}))
      add("a higher limit: --memory-limit if it was given, else that of the container or job");
    else
      add("fewer workers on this machine, or one with more memory");
  }

  void shared_memory() {
    const bool no_space = has(said_, "No space left on device") && has(said_, "/dev/shm");
    if (!has_any(evidence_, {"/dev/shm is full"}) && !no_space &&
        !has_any(said_,
                 {"insufficient shared memory (shm)", "unable to allocate shared memory(shm)"}))
      return;
    add("a larger /dev/shm (docker run --shm-size, an emptyDir with medium: Memory), or fewer data "
        "loader workers");
  }

  void devices() {
    if (!has_any(said_,
                 {"CUDA out of memory", "torch.OutOfMemoryError", "CUDA error: out of memory"}))
      return;
    add("a smaller batch; nvidia-smi shows whether another process holds memory of that GPU");
    if (has(said_, "reserved by PyTorch but unallocated"))
      add("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, if much is reserved but unallocated");
  }

  void imports() {
    constexpr std::string_view kMissing = "No module named ";
    std::string module;
    if (has(failure_.message, "ModuleNotFoundError: No module named ")) {
      module = between(failure_.message, "No module named '", '\'');
    } else if (failure_.exit_code == 1 && failure_.traceback.empty() &&
               has(failure_.tail, std::string(": ").append(kMissing))) {  // Printed by python -m.
      module = failure_.tail.substr(failure_.tail.rfind(kMissing) + kMissing.size());
      module = module.substr(0, module.find_first_of("\r\n;"));
      // Of a module in a package that is missing: "… (ModuleNotFoundError: No module named 'a')".
      if (module.starts_with('\'')) module = module.substr(1, module.find('\'', 1) - 1);
    } else {
      return;
    }
    const std::string name = plain_word(module) ? "'" + module + "'" : "the module";
    add(started_.interpreter.empty()
            ? "install " + name + " for the interpreter of the workers, or choose another"
            : fmt::format("the workers ran with {}: install {} there, or choose another "
                          "interpreter (--python)",
                          started_.interpreter, name));
  }

  void script() {
    if (failure_.exit_code != 2 || !has(failure_.tail, "can't open file ") ||
        !has(failure_.tail, "No such file or directory"))
      return;
    add("the path of the script: it is looked for " +
        (started_.directory.empty() ? "from where the launcher is started"
                                    : "from " + started_.directory) +
        ", on every node");
  }

  void exit_codes() {
    if (failure_.exit_code == 127) {
      const bool library = has(said_, "error while loading shared libraries");
      add(library ? "ldd PROGRAM names the missing libraries; LD_LIBRARY_PATH may have to name "
                    "their place"
                  : "the command's spelling, and PATH as the workers have it");
    } else if (failure_.exit_code == 126) {
      add("chmod +x, the interpreter in the script's first line, a program for this machine's CPU");
    }
  }

  void ports() {
    if (!has_any(said_, {"EADDRINUSE", "Address already in use", "address already in use"})) return;
    add("ss -ltnp shows which process holds the port: perhaps a run before this one; or choose "
        "another port");
  }

  void hangs() {
    if (!failure_.message.starts_with("hangs: ") || !failure_.stack.empty()) return;
    add("for Python stacks the next time, which mostly tell which rank hangs: pip install py-spy, "
        "or regroup.dump_on_hang() in the script (docs/hangs.md)");
  }

  void collectives() {
    if (has_any(said_, {"Watchdog caught collective operation timeout", "NCCL timeout",
                        "ProcessGroupNCCL's watchdog got stuck"})) {
      add("look at the rank that did not come to this collective: it is slow, hangs, or has left "
          "the loop early (TORCH_NCCL_DUMP_ON_TIMEOUT=1, TORCH_DISTRIBUTED_DEBUG=DETAIL)");
      add("init_process_group(timeout=...) if a step may take that long");
    } else if (has_any(said_, {"ncclSystemError", "ncclRemoteError", "ncclInternalError",
                               "ncclUnhandledCudaError"})) {
      add("NCCL_DEBUG=INFO says more; NCCL_SOCKET_IFNAME chooses the network");
    }
  }

  void faults() {
    if (!advice_.empty()) return;
    const std::string& signal = failure_.signal_name;
    if (signal == "SIGBUS")
      add("room in /dev/shm, and that no mapped file was cut while it was read");
    else if (signal == "SIGILL")
      add("a build for this machine's CPU: the program has an instruction that it does not know");
    if ((signal == "SIGSEGV" || signal == "SIGBUS") && failure_.traceback.empty() &&
        !has(said_, "Fatal Python error"))
      add("PYTHONFAULTHANDLER=1 shows where in the Python code it was");
  }

  const ProcessFailure& failure_;
  const Started& started_;
  std::string evidence_;
  std::string said_;
  std::vector<std::string> advice_;
};

}  // namespace

std::vector<std::string> advice_for(const ProcessFailure& failure, const Started& started) {
  return Adviser(failure, started).take();
}

}  // namespace regroup::cli
