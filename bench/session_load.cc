// So many agents, simulated by one thread, hold sessions with a real coordinator.
//
//   session_load HOST:PORT --nodes 10000 --server-pid P
//
// Prints one line of JSON. All join at once; then one is lost; then the worker of one fails; then
// nothing happens for a while; then all are done.
//
// Seconds run from the first byte that is sent for it until the last agent has heard how it ended.
// Messages and bytes are those of a node, signs of life apart; the server's CPU time and memory
// come from /proc.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/endpoint.h"
#include "io/loop/descriptor_limit.h"
#include "session_crowd.h"

namespace {

using namespace regroup;
using namespace regroup::bench;

struct Options {
  std::string endpoint;
  std::size_t nodes = 1000;
  double idle_seconds = 5;  // Three pings, at the default heartbeat limit.
  int server_pid = 0;
};

// What the kernel says of the coordinator's process; all 0 if it was not named.
class Server {
 public:
  explicit Server(int pid) : pid_(pid) {}

  double cpu_seconds() const {
    double nanoseconds = 0;
    if (pid_ == 0) return 0;
    for (const auto& task : std::filesystem::directory_iterator(folder() + "/task")) {
      double of_task = 0;
      std::ifstream(task.path() / "schedstat") >> of_task;
      nanoseconds += of_task;
    }
    return nanoseconds / 1e9;
  }

  // "VmRSS", or "VmHWM" for the most that it ever was.
  std::uint64_t memory_bytes(const std::string& field) const {
    std::ifstream file(folder() + "/status");
    for (std::string name; file >> name;) {
      std::uint64_t kilobytes = 0;
      if (name == field + ":" && file >> kilobytes) return kilobytes * 1024;
    }
    return 0;
  }

 private:
  std::string folder() const { return "/proc/" + std::to_string(pid_); }
  const int pid_;
};

class Report {
 public:
  Report(Crowd& crowd, const Server& server) : crowd_(crowd), server_(server) {}

  template <class Act>
  void phase(const std::string& name, Act act) {
    const Traffic before = crowd_.traffic();
    const double cpu = server_.cpu_seconds();
    const Instant start = io::now();
    act();
    const double seconds = seconds_since(start);
    open(name);
    add("seconds", seconds);
    add("server_cpu_seconds", server_.cpu_seconds() - cpu);
    add(crowd_.traffic() - before, 1);
    close();
  }

  void idle(double seconds) {
    const Traffic before = crowd_.signs_of_life();
    const double cpu = server_.cpu_seconds();
    crowd_.idle(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
    open("idle");
    add("seconds", seconds);
    add("server_cpu_per_second", (server_.cpu_seconds() - cpu) / seconds);
    add(crowd_.signs_of_life() - before, seconds);
    close();
  }

  void add(const char* name, double value) {
    std::array<char, 64> number{};
    std::snprintf(number.data(), number.size(), "%.9g", value);
    text_ += (text_.back() == '{' ? "\"" : ", \"") + std::string(name) + "\": " + number.data();
  }
  const std::string& end() { return text_ += "}"; }

 private:
  void open(const std::string& name) { text_ += ", \"" + name + "\": {"; }
  void close() { text_ += "}"; }
  // Of a node, and of a second.
  void add(const Traffic& traffic, double seconds) {
    const double share = seconds * static_cast<double>(crowd_.here());
    add("messages_sent", static_cast<double>(traffic.messages_sent) / share);
    add("messages_received", static_cast<double>(traffic.messages_received) / share);
    add("bytes_sent", static_cast<double>(traffic.bytes_sent) / share);
    add("bytes_received", static_cast<double>(traffic.bytes_received) / share);
  }

  Crowd& crowd_;
  const Server& server_;
  std::string text_ = "{";
};

void run(const Options& options) {
  const std::size_t descriptors = io::raise_descriptor_limit().now;
  if (descriptors < options.nodes + 32)
    die(std::to_string(options.nodes) + " agents need more open files than the hard limit of " +
        std::to_string(descriptors) + " (ulimit -Hn)");
  const auto endpoint = parse_endpoint(options.endpoint);
  if (!endpoint) die(endpoint.error().message);
  const auto addresses = io::resolve(endpoint->host, endpoint->port, io::deadline_after(10s));
  if (!addresses) die(addresses.error().message);
  const Server server(options.server_pid);
  const auto memory = static_cast<double>(server.memory_bytes("VmRSS"));

  Crowd crowd(options.nodes);
  Report report(crowd, server);
  report.add("nodes", static_cast<double>(options.nodes));
  report.phase("connect", [&] { crowd.connect(addresses->front()); });
  report.phase("join", [&] { crowd.join(); });
  const auto grown = static_cast<double>(server.memory_bytes("VmRSS")) - memory;
  double told_of_lost = 0;
  double told_of_failed = 0;
  report.phase("lost", [&] { told_of_lost = crowd.lose_one(); });
  report.phase("failed", [&] { told_of_failed = crowd.fail_one(); });
  report.idle(options.idle_seconds);
  report.phase("done", [&] { crowd.finish(); });
  report.add("lost_told_seconds", told_of_lost);
  report.add("failed_told_seconds", told_of_failed);
  report.add("server_bytes_per_node", grown / static_cast<double>(options.nodes));
  report.add("server_peak_bytes", static_cast<double>(server.memory_bytes("VmHWM")));
  std::puts(report.end().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Agents that hold sessions with a coordinator.");
  app.add_option("endpoint", options.endpoint, "HOST:PORT of the coordinator")->required();
  app.add_option("--nodes", options.nodes)->check(CLI::Range(4, 1'000'000));
  app.add_option("--idle-seconds", options.idle_seconds)->check(CLI::PositiveNumber);
  app.add_option("--server-pid", options.server_pid, "whose CPU time and memory to read");
  CLI11_PARSE(app, argc, argv);
  run(options);
  return 0;
}
