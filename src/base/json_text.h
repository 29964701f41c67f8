// Writes JSON text: one object in one line, laid out as Python's json.dumps() does.
//
//   JsonObject().add("name", name).add("rank", 3).raw("nodes", "[1, 2]").text();
//   → {"name": "a", "rank": 3, "nodes": [1, 2]}
//
// Names are not looked at: each should be added once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace regroup {

// What stands between the quotes of a JSON string. All ASCII, so that it survives every terminal
// and locale: the rest is written as \uXXXX, bytes that are no UTF-8 as \ufffd.
std::string json_escaped(std::string_view text);
void append_json_escaped(std::string& out, char32_t point);

class JsonObject {
 public:
  JsonObject& add(std::string_view name, std::string_view value);
  JsonObject& add(std::string_view name, const char* value) {
    return add(name, std::string_view(value));
  }
  JsonObject& add(std::string_view name, const std::string& value) {
    return add(name, std::string_view(value));
  }
  // Always with a point or an exponent. null if it is infinite or no number: JSON has neither.
  JsonObject& add(std::string_view name, double value);
  template <class Number>
    requires std::is_integral_v<Number>
  JsonObject& add(std::string_view name, Number value) {
    if constexpr (std::is_same_v<Number, bool>)
      return raw(name, value ? "true" : "false");
    else
      return raw(name, std::to_string(value));
  }
  JsonObject& null(std::string_view name) { return raw(name, "null"); }
  // `json` is JSON already: an object, an array, a number.
  JsonObject& raw(std::string_view name, std::string_view json);

  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace regroup
