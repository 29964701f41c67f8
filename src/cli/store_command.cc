// `regroup store`: serve one, or ask one.
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <utility>

#include "base/endpoint.h"
#include "cli/cli.h"
#include "regroup/store.h"
#include "runtime/store_service.h"

namespace regroup::cli {
namespace {

int report(int exit_code, const Error& error) {
  std::cerr << "regroup: " << error.message << "\n";
  return exit_code;
}

int serve(const runtime::StoreServiceOptions& options) {
  const auto served =
      runtime::run_store_service(options, [](const std::vector<std::string>& addresses) {
        std::string line = "listening on";
        for (const std::string& address : addresses) line += " " + address;
        std::cout << line << std::endl;
      });
  return served ? kOk : report(kBadStart, served.error());
}

// An answer that nobody could read is no success.
Result<void> printed() {
  if (std::cout.flush()) return {};
  return fail(ErrorKind::Io, "cannot write the answer to standard output");
}

// What the debugging commands share.
struct Question {
  std::string endpoint;
  std::string key;
  std::string value;
  double timeout_seconds = 5;
  bool wait = false;

  Result<std::shared_ptr<Store>> connect() const {
    const auto where = parse_endpoint(endpoint);
    if (!where) return tl::unexpected(where.error());
    const auto timeout =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(timeout_seconds));
    TcpStoreOptions options{.host = where->host, .port = where->port, .timeout = timeout};
    // Whoever waits for more than a moment is told for what.
    constexpr Duration kMoment = 1s;
    if (timeout > 2 * kMoment) {
      options.timeout = kMoment;
      auto store = connect_tcp_store(options);
      if (store) {
        (*store)->set_timeout(timeout);
        return store;
      }
      std::cerr << "no store at " << endpoint << " yet, trying for " << timeout_seconds
                << " s (--timeout)\n";
      options.timeout = timeout - kMoment;
    }
    return connect_tcp_store(options);
  }
};

Result<void> ping(const Question& question) {
  const auto start = std::chrono::steady_clock::now();
  auto store = question.connect();
  if (!store) return tl::unexpected(store.error());
  const auto connected = std::chrono::steady_clock::now();
  auto keys = (*store)->num_keys();
  if (!keys) return tl::unexpected(keys.error());
  const auto answered = std::chrono::steady_clock::now();
  const auto millis = [](auto span) {
    return std::chrono::duration<double, std::milli>(span).count();
  };
  std::printf("%s: connected in %.2f ms, answers in %.2f ms, %lld keys\n",
              question.endpoint.c_str(), millis(connected - start), millis(answered - connected),
              static_cast<long long>(*keys));
  return {};
}

Result<void> get(const Question& question) {
  auto store = question.connect();
  if (!store) return tl::unexpected(store.error());
  auto there = (*store)->check({question.key});
  if (!there) return tl::unexpected(there.error());
  if (!*there && !question.wait)
    return fail(ErrorKind::Refused, "no key '" + question.key + "' at " + question.endpoint +
                                        ". Pass --wait to wait for it.");
  if (!*there)
    std::cerr << "waiting for '" << question.key << "' for up to " << question.timeout_seconds
              << " s (--timeout)\n";
  auto value = (*store)->get(question.key);
  if (!value) return tl::unexpected(value.error());
  // As it is, for the next program in the pipe; a person gets a line end.
  std::cout << *value;
  if (::isatty(STDOUT_FILENO) != 0) std::cout << '\n';
  return printed();
}

Result<void> set(const Question& question) {
  auto store = question.connect();
  if (!store) return tl::unexpected(store.error());
  if (auto done = (*store)->set(question.key, question.value); !done) return done;
  // A set has no answer of its own: ask for something that has, to know that it was taken.
  if (auto taken = (*store)->num_keys(); !taken) return tl::unexpected(taken.error());
  return {};
}

Result<void> keys(const Question& question) {
  auto store = question.connect();
  if (!store) return tl::unexpected(store.error());
  auto listed = (*store)->list_keys();
  if (!listed) return tl::unexpected(listed.error());
  std::sort(listed->begin(), listed->end());
  for (const std::string& key : *listed) std::cout << key << "\n";
  return printed();
}

void add_question(CLI::App& store, int& exit_code, const char* name, const char* description,
                  Result<void> (*answer)(const Question&),
                  const std::vector<std::pair<const char*, std::string Question::*>>& arguments) {
  auto question = std::make_shared<Question>();
  CLI::App* command = store.add_subcommand(name, description);
  command->add_option("endpoint", question->endpoint, "The store's HOST:PORT, or [IPv6]:PORT")
      ->type_name("HOST:PORT")
      ->required()
      ->check([](const std::string& text) {
        const auto parsed = parse_endpoint(text);
        return parsed ? std::string() : parsed.error().message;
      });
  for (const auto& [argument, member] : arguments)
    command->add_option(argument, (*question).*member)->required();
  command->add_option("--timeout", question->timeout_seconds, "Give up after so many seconds")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.001, 1e6).description(""))
      ->capture_default_str();
  if (std::string_view(name) == "get")
    command->add_flag("--wait", question->wait, "Wait for the key if it is not there yet");
  command->callback([question, answer, &exit_code] {
    const auto done = answer(*question);
    if (!done) exit_code = report(kFailed, done.error());
  });
}

}  // namespace

void add_store_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<runtime::StoreServiceOptions>();
  auto linger_us = std::make_shared<std::int64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(options->linger).count());
  options->host.port = 29500;

  CLI::App* store = app.add_subcommand(
      "store",
      "Serve a key-value store that PyTorch's clients (2.2 and newer) can use, or ask one.\n"
      "Without a further command it serves until SIGTERM or Ctrl-C; SIGUSR1 prints counters.");
  store->require_subcommand(0, 1);
  store->option_defaults()->always_capture_default();
  store
      ->add_option("--host", options->host.host,
                   "Address or name to listen on; :: for all interfaces, IPv4 and IPv6")
      ->type_name("ADDRESS");
  store->add_option("--port", options->host.port, "Port to listen on; 0 for any free port")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535).description(""));
  store->option_defaults()->always_capture_default(false);
  store
      ->add_option("--port-file", options->port_file,
                   "Write the port there while the store listens")
      ->type_name("FILE");
  store->add_flag("--stats", options->stats_at_end, "Print counters when the store ends");
  store->option_defaults()->always_capture_default();

  auto& limits = options->host.limits;
  // Powers of 1024 for KB as for KiB: nobody means a thousand here.
  const auto bytes = CLI::AsSizeValue(false).description("");
  const auto not_zero = CLI::Validator(
      [](const std::string& text) {
        const bool good = !text.empty() && text.find_first_of("123456789") != std::string::npos &&
                          text.find('-') == std::string::npos;
        return good ? std::string() : "Value " + text + " is no size above zero";
      },
      "");
  const std::string group = "Limits (a request beyond one is refused and its connection closed)";
  store->add_option("--max-clients", options->host.clients, "Connections at one time")
      ->type_name("N")
      ->check(not_zero)
      ->group(group);
  store->add_option("--max-keys", limits.keys, "Keys and queues in the store")
      ->type_name("N")
      ->check(not_zero)
      ->group(group);
  store->add_option("--max-memory", limits.memory_bytes, "What the store may hold, e.g. 512MB")
      ->type_name("SIZE")
      ->transform(bytes)
      ->check(not_zero)
      ->group(group);
  store->add_option("--max-key-bytes", limits.key_bytes, "Length of a key")
      ->type_name("SIZE")
      ->transform(bytes)
      ->check(not_zero)
      ->group(group);
  store->add_option("--max-value-bytes", limits.value_bytes, "Length of a value in a request")
      ->type_name("SIZE")
      ->transform(bytes)
      ->check(not_zero)
      ->group(group);
  store
      ->add_option("--linger", *linger_us,
                   "After a request, look so many microseconds for the next before sleeping")
      ->type_name("MICROSECONDS")
      ->check(CLI::Range(0, 1000000).description(""))
      ->group("Tuning");

  add_question(*store, exit_code, "ping", "Tell whether a store answers, and how fast", ping, {});
  add_question(*store, exit_code, "get", "Print the value of a key", get,
               {{"key", &Question::key}});
  add_question(*store, exit_code, "set", "Set a key to a value", set,
               {{"key", &Question::key}, {"value", &Question::value}});
  add_question(*store, exit_code, "keys", "List the keys, sorted", keys, {});

  store->callback([store, options, linger_us, &exit_code] {
    if (!store->get_subcommands().empty()) return;
    options->linger = std::chrono::microseconds(*linger_us);
    // A value as long as allowed must fit into a request.
    auto& most = options->host.limits;
    most.request_bytes = std::max(most.request_bytes, most.key_bytes + 2 * most.value_bytes);
    most.reply_bytes = std::max(most.reply_bytes, most.value_bytes);
    exit_code = serve(*options);
  });
}

}  // namespace regroup::cli
