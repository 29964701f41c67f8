#include "io/process/process_look.h"

#include <fmt/core.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string_view>

#include "io/file/kernel_files.h"
#include "io/process/process_table.h"

namespace regroup::io {
namespace {

struct Call {
  long number;
  const char* name;
  bool on_descriptor;
};

// System calls that programs wait in. The numbers differ between machines.
constexpr Call kCalls[] = {
    {SYS_read, "read", true},
    {SYS_readv, "readv", true},
    {SYS_pread64, "pread", true},
    {SYS_write, "write", true},
    {SYS_writev, "writev", true},
    {SYS_pwrite64, "pwrite", true},
    {SYS_recvfrom, "recv", true},
    {SYS_recvmsg, "recvmsg", true},
    {SYS_sendto, "send", true},
    {SYS_sendmsg, "sendmsg", true},
    {SYS_accept, "accept", true},
    {SYS_accept4, "accept", true},
    {SYS_connect, "connect", true},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fdatasync", true},
    {SYS_flock, "flock", true},
    {SYS_fcntl, "fcntl", true},
    {SYS_ioctl, "ioctl", true},
    {SYS_openat, "open", false},
#ifdef SYS_open
    {SYS_open, "open", false},
#endif
#ifdef SYS_poll
    {SYS_poll, "poll", false},
#endif
    {SYS_ppoll, "poll", false},
#ifdef SYS_select
    {SYS_select, "select", false},
#endif
    {SYS_pselect6, "select", false},
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll_wait", false},
#endif
    {SYS_epoll_pwait, "epoll_wait", false},
    {SYS_futex, "futex", false},
    {SYS_nanosleep, "sleep", false},
    {SYS_clock_nanosleep, "sleep", false},
    {SYS_wait4, "wait", false},
    {SYS_waitid, "wait", false},
#ifdef SYS_pause
    {SYS_pause, "pause", false},
#endif
    {SYS_rt_sigsuspend, "sigsuspend", false},
    {SYS_rt_sigtimedwait, "sigwait", false},
    {SYS_sched_yield, "sched_yield", false},
    {SYS_io_getevents, "io_getevents", false},
};

std::string under(pid_t pid, const char* name) { return fmt::format("/proc/{}/{}", pid, name); }

// The number after "Name:" in a file of such lines.
template <class T>
T field(std::string_view text, std::string_view name, int base) {
  T value{};
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return value;
  text.remove_prefix(at + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

// "0 0x3 0x7ffd... ": the number of the call and its arguments, or "running", or "-1 ...".
void read_call(pid_t pid, ProcessLook& look) {
  const auto text = read_text(under(pid, "syscall"));
  if (!text) return;
  long number = -1;
  const char* const end = text->data() + text->size();
  const auto [after, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc{} || number < 0) return;
  look.system_call = fmt::format("system call {}", number);
  for (const Call& call : kCalls) {
    if (call.number != number) continue;
    look.system_call = call.name;
    if (!call.on_descriptor || end - after < 4) return;
    int descriptor = -1;
    std::from_chars(after + 3, end, descriptor, 16);  // Behind " 0x".
    char target[256];
    const ssize_t length =
        ::readlink((under(pid, "fd/") + std::to_string(descriptor)).c_str(), target, sizeof target);
    if (length > 0) look.call_target.assign(target, static_cast<std::size_t>(length));
    return;
  }
}

}  // namespace

std::optional<ProcessLook> look_at(pid_t pid) {
  const auto process = find_process(pid);
  if (!process) return {};
  ProcessLook look;
  look.state = process->state;
  look.wait_channel = wait_channel(pid);
  if (const auto status = read_text(under(pid, "status"))) {
    look.threads = field<int>(*status, "\nThreads:", 10);
    look.caught = field<std::uint64_t>(*status, "\nSigCgt:", 16);
  }
  read_call(pid, look);
  look.kernel_stack = read_text(under(pid, "stack")).value_or("");
  return look;
}

std::uint64_t times_asleep(pid_t pid) {
  const auto status = read_text(under(pid, "status"));
  return status ? field<std::uint64_t>(*status, "\nvoluntary_ctxt_switches:", 10) : 0;
}

bool has_held_thread(pid_t pid) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(under(pid, "task"), error), end; !error && at != end;
       at.increment(error)) {
    const auto stat = read_text(at->path().string() + "/stat");
    const auto thread = stat ? parse_process_stat(*stat) : std::nullopt;
    if (thread && (thread->state == 'D' || thread->state == 't')) return true;
  }
  return false;
}

std::uint64_t mapped_code(pid_t pid) {
  const auto maps = read_text(under(pid, "maps"));
  if (!maps) return 0;
  std::uint64_t total = 0;
  std::string_view rest = *maps;
  while (!rest.empty()) {
    // "55d0-55e0 r-xp 00002000 fe:00 1234   /usr/bin/cat"
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    const char* const end = line.data() + line.size();
    const auto first = std::from_chars(line.data(), end, from, 16);
    if (first.ec != std::errc{} || first.ptr == end) continue;
    const auto second = std::from_chars(first.ptr + 1, end, to, 16);
    if (second.ec != std::errc{} || to < from || end - second.ptr < 5) continue;
    if (second.ptr[3] == 'x' && line.find('/') != std::string_view::npos) total += to - from;
  }
  return total;
}

std::optional<ProcessUse> use_of(pid_t pid) {
  const auto stat = read_text(under(pid, "stat"));
  if (!stat) return {};
  // The name may hold anything; what follows its last parenthesis does not.
  std::string_view rest = *stat;
  rest.remove_prefix(std::min(rest.rfind(')'), rest.size()));
  std::uint64_t ticks = 0;
  for (int place = 2; !rest.empty() && place <= 15; ++place) {
    rest.remove_prefix(std::min(rest.find(' ') + 1, rest.size()));
    if (place < 13) continue;  // utime and stime are the fields 14 and 15; this one is place + 1.
    std::uint64_t value = 0;
    std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (place == 13 || place == 14) ticks += value;
  }
  ProcessUse use;
  static const long per_second = ::sysconf(_SC_CLK_TCK);
  use.cpu = std::chrono::nanoseconds(
      ticks * (1'000'000'000ULL / static_cast<std::uint64_t>(per_second > 0 ? per_second : 100)));
  if (const auto io = read_text(under(pid, "io"))) {
    use.read = field<std::uint64_t>(*io, "rchar:", 10);
    use.written = field<std::uint64_t>(*io, "wchar:", 10);
    use.on_disk = field<std::uint64_t>(*io, "\nread_bytes:", 10) +
                  field<std::uint64_t>(*io, "\nwrite_bytes:", 10);
  }
  return use;
}

}  // namespace regroup::io
