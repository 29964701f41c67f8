#include "cli/ask/status_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "base/text.h"
#include "runtime/rendezvous/rendezvous_view.h"

namespace regroup::cli {
namespace {

using core::run::NodeStatus;
using core::run::RunStatus;
using core::run::word_of;
using Place = NodeStatus::Place;

// rank, node, address, group, place, workers, connection
using Row = std::array<std::string, 7>;
constexpr std::size_t kName = 1;
constexpr std::size_t kAddress = 2;
constexpr std::size_t kGroup = 3;

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// Every character counts as one column.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string cut(const std::string& text, std::size_t columns) {
  constexpr std::string_view kDots = "..";
  if (columns == 0 || width_of(text) <= columns) return text;
  if (columns <= kDots.size()) return std::string(kDots.substr(0, columns));
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end)
    if (begins_character(text[end]) && seen++ == columns - kDots.size()) break;
  return text.substr(0, end).append(kDots);
}

// Two blanks before the first line, four before the others; broken between words.
std::string wrapped(const std::string& text, std::size_t columns) {
  std::string lines;
  std::string line = " ";
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = std::min(rest.find(' '), rest.size());
    const std::string word(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const bool is_blank = line.find_first_not_of(' ') == std::string::npos;
    if (columns > 0 && !is_blank && width_of(line) + 1 + width_of(word) > columns) {
      lines += cut(line, columns) + "\n";
      line = "   ";
    }
    line += " " + word;
  }
  return lines + cut(line, columns) + "\n";
}

// A node pings three times within the limit; one that has missed two of them is worth a look.
bool is_silent(const NodeStatus& node, const RunStatus& run) {
  return node.has_session && node.connected && 3 * node.silent_for > 2 * run.rules.heartbeat_limit;
}

// A node that is done may leave.
bool is_lost(const NodeStatus& node) {
  return node.has_session && !node.connected && node.place != Place::Done;
}

bool is_odd(const NodeStatus& node, const RunStatus& run) {
  if (is_lost(node) || is_silent(node, run)) return true;
  switch (node.place) {
    case Place::Member:
    case Place::Done:
    case Place::Joined:
      return false;
    case Place::Idle:
    case Place::Waiting:
    case Place::Spare:
      return true;
  }
  return true;
}

std::string connection_of(const NodeStatus& node, const RunStatus& run) {
  if (!node.has_session) return "torchrun's, no session";
  if (is_lost(node)) return "lost for " + in_words(node.silent_for);
  if (!node.connected) return "has left";
  if (is_silent(node, run)) return "silent for " + in_words(node.silent_for);
  return "connected";
}

Row row_of(const NodeStatus& node, const RunStatus& run) {
  return {node.rank ? std::to_string(*node.rank) : "-",
          runtime::plain(node.name),
          runtime::plain(node.address),
          node.group.empty() ? "" : runtime::plain(node.group),
          std::string(word_of(node.place)),
          node.has_session ? std::to_string(node.workers) : "-",
          connection_of(node, run)};
}

std::string table(const std::vector<const NodeStatus*>& nodes, const RunStatus& run,
                  const StatusLayout& layout) {
  const bool has_groups = std::any_of(nodes.begin(), nodes.end(),
                                      [](const NodeStatus* node) { return !node->group.empty(); });
  std::vector<Row> rows{
      {"rank", "node", "address", has_groups ? "group" : "", "place", "workers", "connection"}};
  for (const NodeStatus* node : nodes) rows.push_back(row_of(*node, run));
  std::array<std::size_t, std::tuple_size_v<Row>> widths{};
  std::size_t total = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    for (const Row& row : rows) widths[i] = std::max(widths[i], row[i].size());
    total += widths[i] == 0 ? 0 : 2 + widths[i];
  }
  // Names, addresses and groups are what may be long, and their beginning says most.
  constexpr std::size_t kLeast = 8;
  while (layout.columns > 0 && total > layout.columns) {
    std::size_t* longest = &widths[kName];
    for (const std::size_t one : {kAddress, kGroup})
      if (widths[one] > *longest) longest = &widths[one];
    if (*longest <= kLeast) break;
    --*longest;
    --total;
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string cell = cut(rows[r][i], widths[i]);
      line += "  " + cell;
      if (i + 1 < widths.size()) line += std::string(widths[i] - cell.size(), ' ');
    }
    line = cut(line, layout.columns);
    const bool is_bad = r > 0 && (is_lost(*nodes[r - 1]) || is_silent(*nodes[r - 1], run));
    text += (r == 0 ? layout.paint.hint(line) : is_bad ? layout.paint.cause(line) : line) + "\n";
  }
  return text;
}

// Many nodes with nothing special about them: one line for all that are alike.
std::string summary(const std::vector<const NodeStatus*>& nodes, const StatusLayout& layout) {
  struct Alike {
    std::vector<int> ranks = {};
    std::size_t without_rank = 0;
  };
  std::map<std::tuple<bool, Place, std::int64_t>, Alike> groups;
  for (const NodeStatus* node : nodes) {
    Alike& group = groups[{!node->has_session, node->place, node->workers}];
    if (node->rank)
      group.ranks.push_back(static_cast<int>(*node->rank));
    else
      ++group.without_rank;
  }
  std::string text;
  for (const auto& [key, group] : groups) {
    const auto& [of_torchrun, place, workers] = key;
    const std::size_t size = group.ranks.size() + group.without_rank;
    std::string what(word_of(place));
    if (of_torchrun)
      what += ", torchrun's, no session";
    else
      what += ", " + count_of(workers, "worker") + (size == 1 ? "" : " each");
    if (!group.ranks.empty())
      text += wrapped(ranks_in_words(group.ranks) + ": " + what, layout.columns);
    if (group.without_rank > 0)
      text += wrapped(count_of(group.without_rank, "node") + ": " + what, layout.columns);
  }
  return text;
}

std::string list_of_nodes(const RunStatus& run, const StatusLayout& layout) {
  std::vector<const NodeStatus*> listed;
  std::vector<const NodeStatus*> others;
  const bool few = layout.all || run.nodes.size() <= kNodesListed;
  for (const NodeStatus& node : run.nodes) {
    // Those of a run that is over have no session any more; they are not torchrun's.
    if (run.closed && (!node.has_session || !node.connected)) continue;
    (few || is_odd(node, run) ? listed : others).push_back(&node);
  }
  std::string text = summary(others, layout);
  const std::size_t more = few || listed.size() <= kNodesListed ? 0 : listed.size() - kNodesListed;
  listed.resize(listed.size() - more);
  if (!listed.empty()) text += table(listed, run, layout);
  if (more > 0) text += wrapped("and " + count_of(more, "more node") + " (--all)", layout.columns);
  return text;
}

std::string stage_of(const RunStatus& run) {
  if (run.closed) return run.succeeded ? "has succeeded" : "has ended without success";
  if (!run.sealed) return "waits for nodes";
  return run.awaited.empty() ? "runs" : "is being stopped";
}

std::string counts_of(const RunStatus& run) {
  const auto count = [&](std::initializer_list<Place> places) {
    return static_cast<std::size_t>(
        std::count_if(run.nodes.begin(), run.nodes.end(), [&](const NodeStatus& node) {
          return std::find(places.begin(), places.end(), node.place) != places.end();
        }));
  };
  const auto& rules = run.rules;
  const std::string wanted = rules.min_nodes == rules.max_nodes
                                 ? std::to_string(rules.max_nodes)
                                 : fmt::format("{}..{}", rules.min_nodes, rules.max_nodes);
  std::string text =
      fmt::format("{} of {} nodes", count({Place::Member, Place::Done, Place::Joined}), wanted);
  if (rules.segment > 0) text += fmt::format(", in groups of {}", rules.segment);
  if (const auto n = count({Place::Waiting})) text += fmt::format(", {} waiting", n);
  if (const auto n = count({Place::Spare})) text += ", " + count_of(n, "spare");
  return fmt::format("{}; restarts: {} of {}", text, run.restarts, rules.max_restarts);
}

bool has_nodes(const RunStatus& run) {
  return !run.closed || std::any_of(run.nodes.begin(), run.nodes.end(), [](const NodeStatus& node) {
    return node.has_session && node.connected;
  });
}

std::string text_of(const RunStatus& run, const StatusLayout& layout) {
  std::string text =
      cut(fmt::format("run {}, round {}: {}", printable(run.run_id), run.round, stage_of(run)),
          layout.columns) +
      "\n";
  if (has_nodes(run)) text += wrapped(counts_of(run), layout.columns);
  if (!run.awaited.empty()) text += wrapped("awaited: " + first_line(run.awaited), layout.columns);
  if (!run.last_verdict.empty())
    text += wrapped("last verdict: " + first_line(run.last_verdict), layout.columns);
  return text + list_of_nodes(run, layout);
}

}  // namespace

std::string first_line(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size() && text[i] != '\n'; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // Also the commands that terminals know as one character, U+0080 to U+009F.
    const bool is_command =
        byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (is_command) ++i;
    line += is_command || byte < ' ' || byte == 0x7f ? '?' : text[i];
  }
  return line;
}

std::string status_text(const core::run::PortStatus& status, const std::string& where,
                        const StatusLayout& layout) {
  if (status.runs.empty()) return wrapped("no run has come to " + where + " yet", 0).substr(2);
  std::string text;
  std::vector<const RunStatus*> ended;
  const auto add = [&](const RunStatus& run) {
    text += (text.empty() ? "" : "\n") + text_of(run, layout);
  };
  for (const RunStatus& run : status.runs)
    if (has_nodes(run))
      add(run);
    else
      ended.push_back(&run);
  if (layout.all || ended.size() <= kEndedRunsListed)
    for (const RunStatus* run : ended) add(*run);
  else
    text += fmt::format("{}{} runs have ended (--all lists them)\n", text.empty() ? "" : "\n",
                        ended.size());
  return text;
}

std::string fit_rows(const std::string& text, std::size_t rows) {
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  // The cursor stands below the last line.
  if (rows < 3 || lines < rows) return text;
  std::size_t end = 0;
  for (std::size_t line = 0; line + 2 < rows; ++line) end = text.find('\n', end) + 1;
  return fmt::format("{}({} more lines)\n", text.substr(0, end), lines - (rows - 2));
}

}  // namespace regroup::cli
