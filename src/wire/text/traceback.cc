#include "wire/text/traceback.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "wire/text/traceback_lines.h"

namespace regroup::wire {
namespace {

// One traceback: lines of the text, and which of them names the exception.
struct Block {
  std::vector<std::string_view> lines;
  std::string last_line;
  std::size_t begin = 0;
  std::size_t end = 0;  // The line behind it.
  bool found = false;   // False: it was cut, or is something else.
};

class Finder {
 public:
  explicit Finder(const OutputLines& lines) : lines_(lines) {}

  // Last tracebacks of both kinds, chains as one.
  void find() {
    bool harmless = false;
    Traceback chain;
    for (std::size_t at = 0; at < lines_.size();) {
      Block block = block_at(at);
      if (!block.found) {
        at = std::max(block.end, at + 1);
        continue;
      }
      const std::string_view above = line_above(block.begin);
      const bool continues = is_chain_marker(above);
      if (continues && !chain.text.empty()) {
        chain.text.append("\n\n").append(above).append("\n\n");
      } else {
        chain.text.clear();
        harmless = says_harmless(above);
      }
      for (std::size_t i = 0; i < block.lines.size(); ++i)
        chain.text.append(i == 0 ? "" : "\n").append(block.lines[i]);
      chain.last_line = block.last_line;
      (harmless ? harmless_ : deadly_) = chain;
      at = block.end;
    }
  }

  std::optional<Traceback> deadly() const { return deadly_; }
  std::optional<Traceback> harmless() const { return harmless_; }

  std::optional<Traceback> fatal() const {
    for (std::size_t at = lines_.size(); at-- > 0;) {
      if (!text(at).starts_with(kFatalError)) continue;
      Traceback found{lines_[at].text, lines_[at].text};
      // Other threads come first, and do not help.
      std::size_t thread = at + 1;
      while (thread < lines_.size() && !text(thread).starts_with("Current thread 0x")) ++thread;
      if (thread == lines_.size()) return found;
      found.text += "\n\n" + lines_[thread].text;
      for (++thread; thread < lines_.size() && text(thread).starts_with("  "); ++thread)
        found.text += "\n" + lines_[thread].text;
      return found;
    }
    return {};
  }

  std::optional<Traceback> terminate() const {
    constexpr std::string_view kThrown = "terminate called after throwing an instance of '";
    constexpr std::string_view kWhat = "  what():  ";
    for (std::size_t at = lines_.size(); at-- > 0;) {
      if (!starts_with_one_of(text(at), {"terminate called ", "libc++abi: terminating"})) continue;
      Traceback found{lines_[at].text, lines_[at].text};
      if (!text(at).starts_with(kThrown)) return found;
      std::string_view type = text(at).substr(kThrown.size());
      type = type.substr(0, type.rfind('\''));
      if (type.empty()) return found;
      found.last_line = type;
      if (at + 1 == lines_.size() || !text(at + 1).starts_with(kWhat)) return found;
      found.last_line.append(": ").append(text(at + 1).substr(kWhat.size()));
      found.text += "\n" + lines_[at + 1].text;
      const std::size_t end = message_end(at + 2);
      for (std::size_t i = at + 2; i < end; ++i) found.text += "\n" + lines_[i].text;
      return found;
    }
    return {};
  }

 private:
  std::string_view text(std::size_t at) const { return lines_[at].text; }

  std::string_view line_above(std::size_t at) const {
    while (at-- > 0)
      if (!is_blank(text(at))) return text(at);
    return {};
  }

  Block block_at(std::size_t at) const {
    if (text(at) == kTracebackHeader) return traceback_at(at, at + 1);
    if (text(at) == kGroupHeader) return group_at(at);
    // Cut before its header, if it is the first thing there; else it can only be a SyntaxError.
    if (is_frame(text(at)) || (at == 0 && is_indented(text(at)))) {
      Block block = traceback_at(at, at);
      if (block.found && at != 0 && !is_syntax_error(block.last_line)) block.found = false;
      return block;
    }
    return {};
  }

  enum class Message { Whole, FirstLine };

  // Frames from `at`, then the exception.
  Block traceback_at(std::size_t begin, std::size_t at, Message message = Message::Whole) const {
    Block block;
    block.begin = begin;
    if (at > begin) block.lines.push_back(text(begin));
    const bool ranked = lines_[begin].ranked;
    bool has_frame = at > begin;
    for (std::size_t foreign = 0; at < lines_.size() && foreign <= kForeignLines; ++at) {
      block.end = at;
      if (text(at) == kTracebackHeader || text(at) == kGroupHeader || is_chain_marker(text(at)))
        return block;
      if (is_indented(text(at)) && lines_[at].ranked == ranked) {
        has_frame = has_frame || is_frame(text(at));
        block.lines.push_back(text(at));
        foreign = 0;
        continue;
      }
      if (!has_frame) return block;
      const bool more_frames = at + 1 < lines_.size() && is_frame(text(at + 1));
      if (exception_name(text(at)).empty() || is_of_others(text(at)) || more_frames ||
          lines_[at].ranked != ranked) {
        ++foreign;
        continue;
      }
      block.found = true;
      block.last_line = text(at);
      block.end = message == Message::Whole ? message_end(at + 1) : at + 1;
      for (; at < block.end; ++at) block.lines.push_back(text(at));
      return block;
    }
    block.end = at;
    return block;
  }

  // Where the message ends whose second line would be at `at`.
  std::size_t message_end(std::size_t at) const {
    const std::size_t first = at;
    const bool ranked = lines_[at - 1].ranked;
    for (; at < lines_.size() && at - first < kMessageLines; ++at) {
      if (is_blank(text(at))) {
        // Only the lines after it show that it belongs to the message.
        const bool goes_on = at + 1 < lines_.size() && !is_blank(text(at + 1)) &&
                             (ranked ? lines_[at + 1].ranked : is_indented(text(at + 1))) &&
                             !is_of_others(text(at + 1)) && !is_frame(text(at + 1));
        if (!goes_on) return at;
        continue;
      }
      if (is_of_others(text(at)) || lines_[at].ranked != ranked) return at;
      if (is_frame(text(at))) return at;  // A SyntaxError of another process.
      // "Original Traceback (most recent call last):" of a DataLoader's worker is the part to keep.
      if (text(at).ends_with(kTracebackHeader)) {
        const Block quoted = traceback_at(at, at + 1, Message::FirstLine);
        if (quoted.found) return quoted.end;
      }
    }
    return at;
  }

  // Every line of it begins with a bar or a branch.
  Block group_at(std::size_t at) const {
    constexpr std::string_view kBar = "  | ";
    Block block;
    block.begin = at;
    block.lines.push_back(text(at));
    for (++at; at < lines_.size(); ++at) {
      const auto mark = text(at).find_first_not_of(' ');
      if (mark == std::string_view::npos || mark < 2 ||
          (text(at)[mark] != '|' && text(at)[mark] != '+'))
        break;
      block.lines.push_back(text(at));
      if (block.last_line.empty() && text(at).starts_with(kBar) &&
          !exception_name(text(at).substr(kBar.size())).empty())
        block.last_line = text(at).substr(kBar.size());
    }
    block.end = at;
    block.found = !block.last_line.empty();
    return block;
  }

  const OutputLines& lines_;
  std::optional<Traceback> deadly_;
  std::optional<Traceback> harmless_;
};

}  // namespace

std::optional<Traceback> last_traceback(std::string_view tail) {
  const OutputLines lines = split_output(tail);
  Finder finder(lines);
  finder.find();
  if (auto found = finder.deadly()) return found;
  auto fatal = finder.fatal();
  auto terminate = finder.terminate();
  if (fatal && terminate && fatal->last_line == "Fatal Python error: Aborted")
    return Traceback{terminate->text + "\n" + fatal->text, terminate->last_line};
  if (fatal) return fatal;
  if (terminate) return terminate;
  return finder.harmless();
}

}  // namespace regroup::wire
