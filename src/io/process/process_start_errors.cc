#include "io/process/process_start_errors.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "io/loop/descriptor.h"
#include "io/process/process_path.h"

namespace regroup::io {
namespace {

// As the child saw it: relative paths begin at its directory.
std::string seen_from(const ProcessSpec& spec, const std::string& path) {
  if (spec.directory.empty() || path.starts_with('/')) return path;
  return spec.directory + "/" + path;
}

std::string beginning_of(const std::string& path) {
  std::array<char, 256> start;
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return {};
  const ssize_t size = ::read(fd.get(), start.data(), start.size());
  return size > 0 ? std::string(start.data(), static_cast<std::size_t>(size)) : "";
}

// From a script's first line. Empty: it has none.
std::string interpreter_of(std::string_view beginning) {
  if (!beginning.starts_with("#!")) return {};
  beginning = beginning.substr(2, beginning.find('\n') - 2);
  const auto from = beginning.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  beginning.remove_prefix(from);
  return std::string(beginning.substr(0, beginning.find_first_of(" \t")));
}

std::string list(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

std::string octal(mode_t mode) {
  std::string digits;
  for (int shift = 9; shift >= 0; shift -= 3)
    digits += static_cast<char>('0' + ((mode >> shift) & 7));
  return digits;
}

Error wrong(std::string message) { return {ErrorKind::InvalidArgument, std::move(message)}; }
Error refused(std::string message) { return {ErrorKind::Io, std::move(message)}; }

// exec also says "no such file" about the interpreter or the loader.
Error explain_missing_interpreter(const std::string& start, const std::string& path) {
  const std::string beginning = beginning_of(path);
  const std::string interpreter = interpreter_of(beginning);
  if (interpreter.empty())
    return wrong(start + printable(path) +
                 " exists, but the loader it was linked with does not: it was built for another "
                 "system or C library. See `file` and `ldd` of it.");
  return wrong(
      fmt::format("{}the first line of {} names the interpreter {}, which does not exist.{}", start,
                  printable(path), printable(interpreter),
                  interpreter.ends_with('\r')
                      ? " The line ends with a carriage return: convert the file with dos2unix."
                      : " Install it, or correct the line."));
}

Error explain_not_found(const std::string& start, const Plan& plan) {
  const ProcessSpec& spec = *plan.spec;
  for (const std::string& candidate : plan.candidates) {
    const std::string path = seen_from(spec, candidate);
    if (!candidate.empty() && ::access(path.c_str(), F_OK) == 0)
      return explain_missing_interpreter(start, path);
  }
  const std::string& program = spec.argv[0];
  const std::string directory =
      spec.directory.empty() ? "the working directory" : printable(spec.directory);
  if (program.find('/') != std::string::npos)
    return wrong(
        fmt::format("{}no such file{}. Check the spelling, and that the file is on this machine.",
                    start, program.starts_with('/') ? "" : ", as seen from " + directory));
  std::string message =
      fmt::format("{}no such file in PATH ({}).", start, search_path(spec.environment));
  const bool here = !program.empty() && ::access(seen_from(spec, program).c_str(), F_OK) == 0;
  if (here)
    return wrong(fmt::format("{} There is one in {}: write {} to run that.", message, directory,
                             printable("./" + program)));
  return wrong(message + " Check the spelling, or give the path of the file.");
}

Error explain_no_access(const std::string& start, const Plan& plan, const std::string& path) {
  struct stat file {};
  struct statvfs mount {};
  if (::stat(path.c_str(), &file) != 0)
    return refused(fmt::format(
        "{}user id {} may not look into {}: {}. Check the permissions of the directories above it.",
        start, ::geteuid(), printable(path), std::strerror(errno)));
  if (S_ISDIR(file.st_mode)) return wrong(start + printable(path) + " is a directory.");
  if (!S_ISREG(file.st_mode)) return wrong(start + printable(path) + " is not a regular file.");
  if (::statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0)
    return refused(
        fmt::format("{}the file system of {} is mounted noexec. Move the file to another, or run "
                    "it with its interpreter: python {}.",
                    start, printable(path), plan.spec->argv[0]));
  if (::access(path.c_str(), X_OK) != 0)
    return wrong(
        fmt::format("{}{} is not executable by user id {} (mode {}). Make it so with chmod +x, or "
                    "run it with its interpreter.",
                    start, printable(path), ::geteuid(), octal(file.st_mode)));
  const std::string interpreter = interpreter_of(beginning_of(path));
  return refused(
      fmt::format("{}permission denied for {}{}. Check the permissions of both, and the rules of "
                  "SELinux or AppArmor.",
                  start, printable(path),
                  interpreter.empty() ? "" : " or its interpreter " + printable(interpreter)));
}

Error explain_too_big(const std::string& start, const ProcessSpec& spec) {
  constexpr std::size_t kMostOfOne = 128 * 1024;  // MAX_ARG_STRLEN, the final zero included.
  std::size_t total = 0;
  const std::string* largest = &spec.argv[0];
  for (const auto* strings : {&spec.argv, &spec.environment})
    for (const std::string& one : *strings) {
      total += one.size() + 1 + sizeof(char*);
      if (one.size() > largest->size()) largest = &one;
    }
  std::string message =
      fmt::format("{}arguments and environment together are {} bytes, more than the kernel takes.",
                  start, total);
  if (largest->size() >= kMostOfOne)
    message += fmt::format(" A single one may have 128 KiB; {}… has {} bytes.",
                           printable(largest->substr(0, 40)), largest->size());
  return wrong(message +
               " Pass long values in a file, or raise ulimit -s, a quarter of which is "
               "the limit for all.");
}

Error explain_no_room(const std::string& start, int error) {
  if (error == ENOMEM)
    return refused(start +
                   "not enough memory for another process. Check the memory limit of the "
                   "container and vm.overcommit_memory.");
  rlimit processes{};
  ::getrlimit(RLIMIT_NPROC, &processes);
  const std::string limit =
      processes.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(processes.rlim_cur);
  return refused(
      fmt::format("{}the system refuses another process: {}. Check ulimit -u ({}), pids.max of the "
                  "container or cgroup, and kernel.pid_max.",
                  start, std::strerror(error), limit));
}

Error explain_execute(const std::string& start, const Plan& plan, const StartFailure& failure) {
  const std::string path =
      seen_from(*plan.spec, plan.candidates[static_cast<std::size_t>(failure.candidate)]);
  switch (failure.error) {
    case ENOENT:
    case ENOTDIR:
      return explain_not_found(start, plan);
    case EACCES:
      return explain_no_access(start, plan, path);
    case ENOEXEC: {
      utsname machine{};
      ::uname(&machine);
      return wrong(
          fmt::format("{}{} is neither a program for this machine ({}) nor a script. Check with "
                      "`file` what it was built for.",
                      start, printable(path), machine.machine));
    }
    case ETXTBSY:
      return refused(start + printable(path) +
                     " is open for writing, perhaps still being copied or built. Start again when "
                     "that is done.");
    case E2BIG:
      return explain_too_big(start, *plan.spec);
    case ENOMEM:
    case EAGAIN:
      return explain_no_room(start, failure.error);
    default:
      return refused(fmt::format("{}executing {} failed: {}.", start, printable(path),
                                 std::strerror(failure.error)));
  }
}

Error explain_directory(const std::string& start, const std::string& directory, int error) {
  const std::string subject = start + "the working directory " + printable(directory);
  if (error == ENOENT)
    return wrong(subject +
                 " does not exist. Create it on this machine, or check that its file "
                 "system is mounted.");
  if (error == ENOTDIR) return wrong(subject + " is not a directory.");
  return refused(fmt::format("{} cannot be entered by user id {}: {}.", subject, ::geteuid(),
                             std::strerror(error)));
}

Error explain_fork(const std::string& start, const ProcessSpec& spec, int error) {
  if (error == EAGAIN || error == ENOMEM) return explain_no_room(start, error);
  if (error == EMFILE || error == ENFILE)
    return refused(start + std::strerror(error) +
                   ". Raise the limit on open files (ulimit -n): every process takes one.");
  if (error == ENOSYS) return refused(start + "the kernel has no pidfds; Linux 5.4 is needed.");
  if (spec.cgroup >= 0)
    return refused(
        fmt::format("{}it cannot be born in its cgroup: {}. Check that the cgroup still exists, is "
                    "ours to write to, and gives no controllers to groups below it.",
                    start, std::strerror(error)));
  return refused(fmt::format("{}fork failed: {}.", start, std::strerror(error)));
}

}  // namespace

Error explain(const Plan& plan, const StartFailure& failure) {
  const ProcessSpec& spec = *plan.spec;
  const std::string start = "cannot start " + printable(spec.argv[0]) + ": ";
  const std::string reason = std::strerror(failure.error);
  switch (failure.step) {
    case StartStep::Fork:
      return explain_fork(start, spec, failure.error);
    case StartStep::Session:
      return refused(fmt::format("{}it cannot get a session of its own: {}.", start, reason));
    case StartStep::ParentDeath:
      return refused(
          fmt::format("{}it cannot be tied to our life (parent-death signal): {}.", start, reason));
    case StartStep::Join:
      return refused(
          fmt::format("{}it cannot join its cgroup: {}. Check that the cgroup still exists and is "
                      "ours to write to.",
                      start, reason));
    case StartStep::Descriptors:
      return refused(fmt::format(
          "{}its input, output or errors (descriptors {}) cannot be set up: {}{}", start,
          list({spec.input, spec.output, spec.errors}), reason,
          failure.error == EMFILE ? ". Raise the limit on open files (ulimit -n)." : "."));
    case StartStep::Directory:
      return explain_directory(start, spec.directory, failure.error);
    case StartStep::Affinity:
      return wrong(
          fmt::format("{}it cannot be bound to CPUs {}: {}. None of them may be used here; "
                      "Cpus_allowed_list in /proc/self/status has those that may.",
                      start, list(spec.cpus), reason));
    case StartStep::Memory:
      return refused(fmt::format(
          "{}its memory cannot be bound to NUMA nodes {} (policy {}): {}{}", start,
          list(spec.memory->nodes), spec.memory->mode, reason,
          failure.error == EPERM
              ? ". Containers allow it only with the capability SYS_NICE."
              : ". Mems_allowed_list in /proc/self/status has the nodes that may be used."));
    case StartStep::Execute:
      return explain_execute(start, plan, failure);
  }
  return refused(start + reason + ".");
}

}  // namespace regroup::io
