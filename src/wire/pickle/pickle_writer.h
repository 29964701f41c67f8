// Writes the opcodes of a pickle, protocol 4. Knows how a value is spelled, not what may be said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "wire/pickle/pickle_opcodes.h"

namespace regroup::wire {

class PickleWriter {
 public:
  explicit PickleWriter(std::size_t expected_bytes = 0) { out_.reserve(expected_bytes); }

  void op(Opcode opcode) { out_ += static_cast<char>(opcode); }
  template <class... Opcodes>
  void ops(Opcodes... opcodes) {
    const char raw[] = {static_cast<char>(opcodes)...};
    out_.append(raw, sizeof raw);
  }
  void boolean(bool value) { op(value ? Opcode::NewTrue : Opcode::NewFalse); }
  void integer(std::int64_t value);
  void text(std::string_view utf8);
  void bytes(std::string_view raw);          // At most 255.
  void datetime_bytes(std::int64_t micros);  // The argument of the class datetime.
  void raw(std::string_view pickled) { out_.append(pickled); }

  // Gives the value that was written last a number, by which get() repeats it.
  std::uint32_t memoize() {
    op(Opcode::Memoize);
    return memoized_++;
  }
  void get(std::uint32_t number);

  std::size_t size() const { return out_.size(); }
  std::string take() { return std::move(out_); }

 private:
  template <class T>
  void little_endian(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::string out_;
  std::uint32_t memoized_ = 0;
};

}  // namespace regroup::wire
