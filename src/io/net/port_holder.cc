#include "io/net/port_holder.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

namespace regroup::io {
namespace {

constexpr std::string_view kListening = "0A";

// The inodes of the sockets that listen there, by the kernel's list: " 0: ADDRESS:PORT … STATE …".
std::set<std::string> listening_at(std::uint16_t port) {
  std::set<std::string> sockets;
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* list : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(list);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retries, user, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retries >> user >>
          timeout >> inode;
      if (words && state == kListening && local.ends_with(wanted)) sockets.insert(inode);
    }
  }
  return sockets;
}

bool holds_one_of(const std::filesystem::path& process, const std::set<std::string>& sockets) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator fd(process / "fd", ignored), end; !ignored && fd != end;
       fd.increment(ignored)) {
    std::error_code gone;
    const std::string leads_to = std::filesystem::read_symlink(fd->path(), gone).string();
    constexpr std::string_view kSocket = "socket:[";
    if (gone || !leads_to.starts_with(kSocket)) continue;
    if (sockets.contains(leads_to.substr(kSocket.size(), leads_to.size() - kSocket.size() - 1)))
      return true;
  }
  return false;
}

}  // namespace

std::string port_holder(std::uint16_t port) {
  const auto sockets = listening_at(port);
  if (sockets.empty()) return "";
  std::error_code ignored;
  for (std::filesystem::directory_iterator process("/proc", ignored), end;
       !ignored && process != end; process.increment(ignored)) {
    const std::string pid = process->path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds_one_of(process->path(), sockets)) continue;
    std::ifstream file(process->path() / "comm");
    std::string name;
    std::getline(file, name);
    return fmt::format("{} (pid {})", name, pid);
  }
  return "";
}

std::string name_port_holder(std::string message, std::uint16_t port) {
  const std::string_view guess = kTakenBySomebody;
  const std::size_t at = message.find(guess);
  if (at == std::string::npos) return message;
  if (const std::string holder = port_holder(port); !holder.empty())
    message.replace(at, guess.size(), "the port is taken by " + holder);
  return message;
}

}  // namespace regroup::io
