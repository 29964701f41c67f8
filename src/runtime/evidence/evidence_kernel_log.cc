#include "runtime/evidence/evidence_kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "runtime/evidence/evidence_pids.h"

namespace regroup::runtime {
namespace {

std::optional<int> number_after(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + words.size());
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return {};
  return number;
}

}  // namespace

std::optional<OomRecord> parse_oom_record(std::string_view record) {
  // "3,1234,5678901,-;text\n KEY=value\n": the number in front is facility * 8 + level, and
  // whatever a program writes into the log has another facility than the kernel's 0.
  int priority = 0;
  const auto [end, error] = std::from_chars(record.data(), record.data() + record.size(), priority);
  if (error != std::errc{} || priority < 0 || priority >= 8) return {};
  const std::size_t start = record.find(';');
  if (start == std::string_view::npos) return {};
  const std::string_view text = record.substr(start + 1, record.find('\n') - start - 1);
  const auto pid = text.starts_with("oom-kill:") ? number_after(text, ",pid=")
                                                 : number_after(text, "Killed process ");
  if (!pid) return {};
  return OomRecord{.pid = *pid, .text = std::string(text)};
}

std::shared_ptr<KernelLog> KernelLog::open_at_end() {
  if (!pids_are_the_kernels()) return {};
  io::Descriptor records(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!records || ::lseek(records.get(), 0, SEEK_END) < 0) return {};
  return std::make_shared<KernelLog>(std::move(records));
}

void KernelLog::read_on() {
  char record[16 * 1024];  // The kernel gives none above 8 KiB.
  std::size_t total = 0;
  while (total < kReadAtOnce) {
    const ssize_t got = ::read(records_.get(), record, sizeof record);
    // EPIPE: records were overwritten before we came, and the next read goes on behind them.
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (got <= 0) return;
    total += static_cast<std::size_t>(got);
    auto kill = parse_oom_record({record, static_cast<std::size_t>(got)});
    if (!kill || killed_.size() >= kKillsRemembered) continue;
    // Two records tell of a kill; the second one, "Killed process", has the sizes.
    killed_.insert_or_assign(kill->pid, std::move(kill->text));
  }
}

std::string KernelLog::killed_for_memory(pid_t pid) {
  read_on();
  const auto found = killed_.find(pid);
  return found == killed_.end() ? std::string{} : found->second;
}

}  // namespace regroup::runtime
