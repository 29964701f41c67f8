#include "wire/text/error_file.h"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <cmath>
#include <limits>

#include "base/json_text.h"
#include "base/text_parts.h"
#include "base/utf8.h"
#include "wire/bytes/half_pairs.h"

namespace regroup::wire {
namespace {

namespace json = boost::json;

// ---- Reading ----

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

const json::value& field(const json::value& of, const char* name) {
  static const json::value none;
  const json::object* object = of.if_object();
  const json::value* found = object != nullptr ? object->if_contains(name) : nullptr;
  return found != nullptr ? *found : none;
}

// A value that is not a string is shown as it stands in the file.
std::string text_of(const json::value& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return valid_utf8(view(value.get_string()));
  return valid_utf8(json::serialize(value));
}

std::optional<std::int64_t> truncated(double number) {
  constexpr double kBeyond = 9.2e18;
  if (!std::isfinite(number) || std::abs(number) > kBeyond) return {};
  return static_cast<std::int64_t>(number);
}

// 1794726077, 1794726077.25, or either as a text.
std::optional<std::int64_t> number_of(const json::value& value) {
  if (const auto* number = value.if_int64()) return *number;
  if (const auto* number = value.if_double()) return truncated(*number);
  const json::string* text = value.if_string();
  if (text == nullptr) return {};
  if (const auto integer = to_number<std::int64_t>(view(*text))) return integer;
  const auto real = to_number<double>(view(*text));
  return real ? truncated(*real) : std::nullopt;
}

std::optional<int> code_of(const json::value& value) {
  const auto number = number_of(value);
  if (!number || *number < std::numeric_limits<int>::min() ||
      *number > std::numeric_limits<int>::max())
    return {};
  return static_cast<int>(*number);
}

// The exception's own line is the last of Python's call stacks.
std::string last_line(std::string_view text) {
  const auto end = text.find_last_not_of("\r\n");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

// ---- Writing ----

std::size_t escaped_size(char32_t point) {
  std::string out;
  append_json_escaped(out, point);
  return out.size();
}

// How much of the beginning fits.
std::string_view head_within(std::string_view text, std::size_t room) {
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const CodePoint point = first_code_point(text.substr(bytes));
    const std::size_t cost = escaped_size(point.value);
    if (cost > room) break;
    room -= cost;
    bytes += point.bytes;
  }
  return text.substr(0, bytes);
}

std::string escaped_head(std::string_view text, std::size_t room) {
  constexpr std::string_view kMark = "...";
  if (head_within(text, room).size() == text.size()) return json_escaped(text);
  return json_escaped(head_within(text, room - kMark.size())).append(kMark);
}

std::string escaped_end(std::string_view text, std::size_t room) {
  constexpr std::string_view kMark = "...\\n";
  if (head_within(text, room).size() == text.size()) return json_escaped(text);
  room -= kMark.size();
  // No byte gets shorter when it is escaped, so what is beyond this cannot fit, however long it is.
  if (text.size() > room) text.remove_prefix(text.size() - room);
  while (!text.empty() && (static_cast<unsigned char>(text[0]) & 0xc0) == 0x80)
    text.remove_prefix(1);
  std::string out = json_escaped(text);
  std::size_t size = out.size();
  while (size > room) {
    const CodePoint point = first_code_point(text);
    size -= escaped_size(point.value);
    text.remove_prefix(point.bytes);
  }
  return std::string(kMark).append(out, out.size() - size);
}

json::value parse(std::string_view text, json::error_code& error) {
  json::parse_options options;
  options.max_depth = kErrorFileDepth;
  options.allow_invalid_utf8 = true;
  return json::parse(without_half_pairs(text), error, {}, options);
}

}  // namespace

Result<ErrorFile> decode_error_file(std::string_view text) {
  const auto corrupt = [](std::string why) { return fail(ErrorKind::Corrupt, std::move(why)); };
  if (text.size() > kErrorFileBytes)
    return corrupt(fmt::format("it is longer than {} bytes", kErrorFileBytes));
  json::error_code error;
  const json::value root = parse(text, error);
  if (error) return corrupt("it is no JSON: " + error.message());
  const json::value& outer = field(root, "message");
  if (!outer.is_string() && !outer.is_object())
    return corrupt("it has no \"message\" that is a text or an object");

  ErrorFile file;
  file.timestamp = number_of(field(root, "timestamp"));
  if (outer.is_string()) {
    file.message = text_of(outer);
    return file;
  }
  const json::value& extra = field(outer, "extraInfo");
  file.structured = true;
  file.call_stack = text_of(field(extra, "py_callstack"));
  file.message = text_of(field(outer, "message"));
  if (file.message.empty()) file.message = last_line(file.call_stack);
  if (file.message.empty())
    return corrupt("the object \"message\" in it has neither \"message\" nor \"py_callstack\"");
  if (const auto told = number_of(field(extra, "timestamp"))) file.timestamp = told;
  file.error_code = code_of(field(outer, "errorCode"));
  return file;
}

std::string encode_error_file(const ErrorFile& file) {
  std::string out = R"({"message": {"message": ")";
  out += escaped_head(file.message, kErrorMessageBytes);
  out += R"(", "extraInfo": {)";
  // PyTorch shows an empty call stack rather than the message, so we leave it out.
  if (!file.call_stack.empty())
    out += R"("py_callstack": ")" + escaped_end(file.call_stack, kCallStackBytes) + '"';
  if (file.timestamp) {
    if (!file.call_stack.empty()) out += ", ";
    out += R"("timestamp": ")" + std::to_string(*file.timestamp) + '"';
  }
  out += '}';
  if (file.error_code) out += R"(, "errorCode": )" + std::to_string(*file.error_code);
  return out + "}}";
}

std::string with_error_code(std::string_view text, int error_code) {
  json::error_code error;
  json::value root = parse(text, error);
  if (error || !root.is_object()) return std::string(text);
  json::value* const outer = root.as_object().if_contains("message");
  if (outer != nullptr && outer->is_object()) outer->as_object()["errorCode"] = error_code;
  const std::string written = json::serialize(root);
  std::string out;
  out.reserve(written.size());
  for (std::string_view rest = written; !rest.empty();) {
    const CodePoint point = first_code_point(rest);
    if (point.value < 0x80)
      out += rest[0];
    else  // Inside a string: JSON itself is ASCII.
      append_json_escaped(out, point.value);
    rest.remove_prefix(point.bytes);
  }
  return out;
}

}  // namespace regroup::wire
