#include "cli/serve/serve_flags.h"

#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "cli/flags/report.h"
#include "runtime/common/console.h"

namespace regroup::cli {
namespace {

constexpr const char* kLimits =
    "Limits (a request beyond one is refused and its connection closed)";

CLI::Validator not_zero() {
  return CLI::Validator(
      [](const std::string& text) {
        const bool good = !text.empty() && text.find_first_of("123456789") != std::string::npos &&
                          text.find('-') == std::string::npos;
        return good ? std::string() : "Value " + text + " is no size above zero";
      },
      "");
}

template <class Number>
void add_count(CLI::App& command, const char* name, Number& value, const char* help) {
  command.add_option(name, value, help)->type_name("N")->check(not_zero())->group(kLimits);
}

template <class Number>
void add_size(CLI::App& command, const char* name, Number& value, const char* help) {
  // Powers of 1024 for KB as for KiB: no user means a thousand here.
  command.add_option(name, value, help)
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(not_zero())
      ->group(kLimits);
}

}  // namespace

void add_serve_flags(CLI::App& command, const std::string& what, ServeFlags& flags) {
  runtime::StoreServiceOptions& options = flags.options;
  flags.linger_us = std::chrono::duration_cast<std::chrono::microseconds>(options.linger).count();
  command.option_defaults()->always_capture_default();
  command
      .add_option("--host", options.host.host,
                  "Address or name to listen on; :: for all interfaces, IPv4 and IPv6")
      ->type_name("ADDRESS");
  command.add_option("--port", options.host.port, "Port to listen on; 0 for any free port")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535).description(""));
  command.option_defaults()->always_capture_default(false);
  command
      .add_option("--port-file", options.port_file,
                  "Write the port there while the " + what + " listens")
      ->type_name("FILE");
  if (options.host.coordinator)
    add_secret_flag(command, flags.secret_file,
                    "Accept only nodes with the secret in this file, the same on every node");
  command.add_flag("--stats", options.stats_at_end, "Print counters when the " + what + " ends");
  command.option_defaults()->always_capture_default();

  auto& limits = options.host.limits;
  add_count(command, "--max-clients", options.host.clients, "Connections at one time");
  if (options.host.coordinator) {
    add_count(command, "--max-sessions", options.host.sessions.sessions,
              "Of them, sessions: one for every node, and for every 'regroup status'");
    add_count(command, "--max-runs", options.host.sessions.runs, "Runs under way");
  }
  add_count(command, "--max-keys", limits.keys, "Keys and queues in the store");
  add_size(command, "--max-memory", limits.memory_bytes, "What the store may hold, e.g. 512MB");
  add_size(command, "--max-key-bytes", limits.key_bytes, "Length of a key");
  add_size(command, "--max-value-bytes", limits.value_bytes, "Length of a value in a request");
  command
      .add_option("--linger", flags.linger_us,
                  "After a request, look this many microseconds for the next before sleeping")
      ->type_name("MICROSECONDS")
      ->check(CLI::Range(0, 1000000).description(""))
      ->group("Tuning");
}

int serve(const ServeFlags& flags) {
  runtime::StoreServiceOptions options = flags.options;
  options.linger = std::chrono::microseconds(flags.linger_us);
  // Without a coordinator there is no such flag, and the variable is for another program.
  if (options.host.coordinator) {
    auto secret = read_secret_flag(flags.secret_file);
    if (!secret) return report(kBadStart, secret.error().message);
    if (*secret) options.host.secret = std::make_shared<const runtime::Secret>(std::move(**secret));
  }
  // A value as long as allowed must fit into a request.
  auto& most = options.host.limits;
  most.request_bytes = std::max(most.request_bytes, most.key_bytes + 2 * most.value_bytes);
  most.reply_bytes = std::max(most.reply_bytes, most.value_bytes);
  // A reader that has stopped holds up nobody here either. One without standard output needs no line.
  const auto console = runtime::ConsoleWriter::start(STDOUT_FILENO, {});
  const auto served =
      runtime::run_store_service(options, [&](const std::vector<std::string>& addresses) {
        std::string line = "listening on";
        for (const std::string& address : addresses) line += " " + address;
        line += '\n';
        if (console) (*console)->put(line, 1);
      });
  return served ? kOk : report(kBadStart, served.error().message);
}

}  // namespace regroup::cli
