// Puts pickles together piece by piece, including wrong ones. Each function gives the bytes of one
// value.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "wire/pickle/pickle_writer.h"

namespace regroup::wire::pickle_testing {

inline std::string unhex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return bytes;
}

inline std::string byte(int value) { return {static_cast<char>(value)}; }

inline std::string none() { return "N"; }

inline std::string integer(std::int64_t value) {
  PickleWriter out;
  out.integer(value);
  return out.take();
}

inline std::string text(std::string_view value) {
  PickleWriter out;
  out.text(value);
  return out.take();
}

inline std::string joined(std::initializer_list<std::string> pieces) {
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  return all;
}

inline std::string dict(std::initializer_list<std::string> keys_and_values) {
  if (keys_and_values.size() == 0) return "}";
  return "}(" + joined(keys_and_values) + "u";
}

inline std::string set(std::initializer_list<std::string> members) {
  if (members.size() == 0) return "\x8f";
  return "\x8f(" + joined(members) + "\x90";
}

inline std::string class_of(std::string_view module, std::string_view name) {
  return text(module) + text(name) + "\x93";
}

inline std::string torch_class(std::string_view name) {
  return class_of("torch.distributed.elastic.rendezvous.dynamic_rendezvous", name);
}

inline std::string unbuilt_node() { return torch_class("_NodeDesc") + ")\x81"; }

inline std::string node(std::string_view address, const std::string& more = {}) {
  return unbuilt_node() + "}(" + text("addr") + text(address) + text("pid") + integer(1) +
         text("local_id") + integer(0) + more + "ub";
}

inline const std::string kNoon = unhex("07e805060c0000000000");

inline std::string ten_bytes(const std::string& raw) {
  return "C" + byte(static_cast<int>(raw.size())) + raw;
}

inline std::string naive(const std::string& raw) {
  return class_of("datetime", "datetime") + ten_bytes(raw) + "\x85R";
}

inline std::string aware(const std::string& raw, int offset_s = 0) {
  return class_of("datetime", "datetime") + ten_bytes(raw) + class_of("datetime", "timezone") +
         class_of("datetime", "timedelta") + integer(0) + integer(offset_s) + integer(0) +
         "\x87R\x85R\x86R";
}

// The attributes of an empty state; a test changes what it is about.
struct Attributes : std::map<std::string, std::string> {
  Attributes()
      : map{{"round", integer(0)},        {"complete", "\x89"},         {"deadline", none()},
            {"closed", "\x89"},           {"participants", dict({})},   {"wait_list", set({})},
            {"redundancy_list", set({})}, {"last_heartbeats", dict({})}} {}
};

// `more`: names and values behind the others.
inline std::string pickle(const Attributes& attributes, const std::string& more = {}) {
  std::string all = "\x80\x04" + torch_class("_RendezvousState") + ")\x81}(";
  for (const auto& [name, value] : attributes) all += text(name) + value;
  return all + more + "ub.";
}

}  // namespace regroup::wire::pickle_testing
