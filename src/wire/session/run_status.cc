#include "wire/session/run_status.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <boost/json.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/json_text.h"
#include "base/seconds.h"
#include "core/run/run_rules.h"
#include "wire/bytes/half_pairs.h"

namespace regroup::wire {
namespace {

namespace json = boost::json;
using core::run::CounterRow;
using core::run::kCounters;
using core::run::NodeStatus;
using core::run::PortStatus;
using core::run::RuleRow;
using core::run::RunStatus;
using core::run::SessionCounters;
using core::run::word_of;
using Place = NodeStatus::Place;

constexpr Place kPlaces[] = {Place::Idle,   Place::Member,  Place::Done,
                             Place::Joined, Place::Waiting, Place::Spare};

// ---- Writing ----

std::string seconds_text(Duration duration) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3f", in_seconds(duration));
  return text;
}

std::string json_of(const NodeStatus& node) {
  JsonObject object;
  object.add("name", node.name).add("address", node.address).add("place", word_of(node.place));
  if (node.rank)
    object.add("rank", *node.rank);
  else
    object.null("rank");
  return object.add("workers", node.workers)
      .add("connected", node.connected)
      .add("has_session", node.has_session)
      .raw("silent_for", seconds_text(node.silent_for))
      .add("group", node.group)
      .text();
}

std::string json_of(const RunStatus& run);

template <class Things>
std::string list_of(const Things& things) {
  std::string list = "[";
  for (const auto& thing : things) {
    if (list.size() > 1) list += ", ";
    list += json_of(thing);
  }
  return list + "]";
}

void add_rule(JsonObject& object, const char* name, std::int64_t value) { object.add(name, value); }
void add_rule(JsonObject& object, const char* name, bool value) { object.add(name, value); }
void add_rule(JsonObject& object, const char* name, Duration value) {
  object.raw(name, seconds_text(value));
}
void add_rule(JsonObject& object, const char* name, const std::optional<std::int64_t>& value) {
  if (value)
    object.add(name, *value);
  else
    object.null(name);
}
void add_rule(JsonObject& object, const char* name, const std::vector<std::int64_t>& values) {
  object.raw(name, fmt::format("[{}]", fmt::join(values, ", ")));
}

std::string json_of(const RunStatus& run) {
  JsonObject object;
  object.add("run_id", run.run_id)
      .add("round", run.round)
      .add("sealed", run.sealed)
      .add("closed", run.closed)
      .add("succeeded", run.succeeded);
  core::run::for_each_rule([&](const RuleRow& row, auto member) {
    if (*row.status != 0) add_rule(object, row.status, run.rules.*member);
  });
  return object.add("restarts", run.restarts)
      .add("awaited", run.awaited)
      .add("last_verdict", run.last_verdict)
      .raw("nodes", list_of(run.nodes))
      .text();
}

std::string json_of(const SessionCounters& counters) {
  JsonObject object;
  for (const CounterRow& row : kCounters) object.add(row.name, counters.*row.counter);
  return object.text();
}

// ---- Reading: a field of another type than ours counts as absent ----

const json::value* field(const json::object& object, const char* name) {
  return object.if_contains(name);
}

void read(const json::object& object, const char* name, std::string& into) {
  const json::value* value = field(object, name);
  if (value == nullptr || !value->is_string()) return;
  into.assign(value->get_string().data(), value->get_string().size());
}

void read(const json::object& object, const char* name, bool& into) {
  const json::value* value = field(object, name);
  if (value != nullptr && value->is_bool()) into = value->get_bool();
}

void read(const json::object& object, const char* name, std::int64_t& into) {
  const json::value* value = field(object, name);
  if (value != nullptr && value->is_int64()) into = value->get_int64();
}

void read(const json::object& object, const char* name, std::uint64_t& into) {
  const json::value* value = field(object, name);
  if (value == nullptr) return;
  if (value->is_uint64()) into = value->get_uint64();
  if (value->is_int64() && value->get_int64() >= 0)
    into = static_cast<std::uint64_t>(value->get_int64());
}

void read(const json::object& object, const char* name, Duration& into) {
  constexpr double kMost = 1e9;  // Seconds; beyond that it is a mistake, and would not fit.
  const json::value* value = field(object, name);
  if (value == nullptr || !value->is_number()) return;
  const auto seconds = value->to_number<double>();
  if (std::isfinite(seconds) && std::abs(seconds) <= kMost)
    into = std::chrono::round<Duration>(std::chrono::duration<double>(seconds));
}

void read(const json::object& object, const char* name, std::optional<std::int64_t>& into) {
  const json::value* value = field(object, name);
  if (value != nullptr && value->is_int64()) into = value->get_int64();
}

void read(const json::object& object, const char* name, std::vector<std::int64_t>& into) {
  const json::value* list = field(object, name);
  if (list == nullptr || !list->is_array()) return;
  for (const json::value& one : list->get_array())
    if (one.is_int64()) into.push_back(one.get_int64());
}

NodeStatus node_of(const json::object& object) {
  NodeStatus node;
  read(object, "name", node.name);
  read(object, "address", node.address);
  std::string place;
  read(object, "place", place);
  for (const Place one : kPlaces)
    if (word_of(one) == place) node.place = one;
  read(object, "rank", node.rank);
  read(object, "workers", node.workers);
  read(object, "connected", node.connected);
  read(object, "has_session", node.has_session);
  read(object, "silent_for", node.silent_for);
  read(object, "group", node.group);
  return node;
}

template <class Take>
void for_each(const json::object& object, const char* name, const Take& take) {
  const json::value* list = field(object, name);
  if (list == nullptr || !list->is_array()) return;
  for (const json::value& one : list->get_array())
    if (one.is_object()) take(one.get_object());
}

RunStatus run_of(const json::object& object) {
  RunStatus run;
  read(object, "run_id", run.run_id);
  read(object, "round", run.round);
  read(object, "sealed", run.sealed);
  read(object, "closed", run.closed);
  read(object, "succeeded", run.succeeded);
  core::run::for_each_rule([&](const RuleRow& row, auto member) {
    if (*row.status != 0) read(object, row.status, run.rules.*member);
  });
  read(object, "restarts", run.restarts);
  read(object, "awaited", run.awaited);
  read(object, "last_verdict", run.last_verdict);
  for_each(object, "nodes", [&](const json::object& node) { run.nodes.push_back(node_of(node)); });
  return run;
}

}  // namespace

std::string encode_status(const PortStatus& status) {
  return JsonObject()
      .add("version", 1)
      .add("sessions", status.counters.sessions)
      .raw("counters", json_of(status.counters))
      .raw("runs", list_of(status.runs))
      .text();
}

Result<PortStatus> decode_status(std::string_view text) {
  boost::system::error_code wrong;
  const json::value value = json::parse(without_half_pairs(text), wrong);
  if (wrong) return fail(ErrorKind::Corrupt, "the status is no JSON: " + wrong.message());
  const json::object* object = value.if_object();
  if (object == nullptr || field(*object, "runs") == nullptr || !field(*object, "runs")->is_array())
    return fail(ErrorKind::Corrupt, "the status has no list of runs");
  PortStatus status;
  read(*object, "sessions", status.counters.sessions);
  if (const json::value* counters = field(*object, "counters");
      counters != nullptr && counters->is_object()) {
    for (const CounterRow& row : kCounters)
      read(counters->get_object(), row.name, status.counters.*row.counter);
  }
  for_each(*object, "runs", [&](const json::object& run) { status.runs.push_back(run_of(run)); });
  return status;
}

}  // namespace regroup::wire
