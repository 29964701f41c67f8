// `regroup store`: serve one, or ask one.
#include <fmt/core.h>
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
#include "base/seconds.h"
#include "cli/flags/cli.h"
#include "cli/flags/report.h"
#include "cli/flags/time_flag.h"
#include "cli/serve/serve_flags.h"
#include "regroup/store.h"

namespace regroup::cli {
namespace {

// If the answer could not be printed, the command failed.
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
    const Duration timeout = from_seconds(timeout_seconds);
    TcpStoreOptions options{.host = where->host, .port = where->port, .timeout = timeout};
    // After a moment, the user is told what the command waits for.
    constexpr Duration kMoment = 1s;
    if (timeout > 2 * kMoment) {
      options.timeout = kMoment;
      auto store = connect_tcp_store(options);
      if (store) {
        (*store)->set_timeout(timeout);
        return store;
      }
      report(kOk, fmt::format("no store at {} yet, trying for {} s (--timeout)", endpoint,
                              timeout_seconds));
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
    return fail(ErrorKind::Refused, fmt::format("no key '{}' at {}. Pass --wait to wait for it.",
                                                question.key, question.endpoint));
  if (!*there)
    report(kOk, fmt::format("waiting for '{}' for up to {} s (--timeout)", question.key,
                            question.timeout_seconds));
  auto value = (*store)->get(question.key);
  if (!value) return tl::unexpected(value.error());
  // As it is, for the next program in the pipe; on a terminal a line end is added.
  std::cout << *value;
  if (::isatty(STDOUT_FILENO) != 0) std::cout << '\n';
  return printed();
}

Result<void> set(const Question& question) {
  auto store = question.connect();
  if (!store) return tl::unexpected(store.error());
  if (auto done = (*store)->set(question.key, question.value); !done) return done;
  // A set has no answer of its own: send a request that has one, to know that it was accepted.
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
  takes_time(command->add_option("--timeout", question->timeout_seconds, "When to give up"), 0.001,
             1e6)
      ->capture_default_str();
  if (std::string_view(name) == "get")
    command->add_flag("--wait", question->wait, "Wait for the key if it is not there yet");
  command->callback([question, answer, &exit_code] {
    const auto done = answer(*question);
    if (!done) exit_code = report(kFailed, done.error().message);
  });
}

}  // namespace

void add_store_command(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  flags->options.host.port = 29500;
  CLI::App* store = app.add_subcommand(
      "store",
      "Serve a key-value store that PyTorch's clients (2.2 and newer) can use, or ask one.\n"
      "Without a further command it serves until SIGTERM or Ctrl-C; SIGUSR1 prints counters.");
  store->require_subcommand(0, 1);
  add_serve_flags(*store, "store", *flags);

  add_question(*store, exit_code, "ping", "Tell whether a store answers, and how fast", ping, {});
  add_question(*store, exit_code, "get", "Print the value of a key", get,
               {{"key", &Question::key}});
  add_question(*store, exit_code, "set", "Set a key to a value", set,
               {{"key", &Question::key}, {"value", &Question::value}});
  add_question(*store, exit_code, "keys", "List the keys, sorted", keys, {});

  store->callback([store, flags, &exit_code] {
    if (store->get_subcommands().empty()) exit_code = serve(*flags);
  });
}

}  // namespace regroup::cli
