// The opcodes of Python's pickles that can occur in a rendezvous state, protocols 3 to 5.
#pragma once

#include <cstdint>

namespace regroup::wire {

enum class Opcode : std::uint8_t {
  Mark = 0x28,
  EmptyTuple = 0x29,
  Stop = 0x2e,
  ShortBinBytes = 0x43,
  BinInt = 0x4a,
  BinInt1 = 0x4b,
  BinInt2 = 0x4d,
  None = 0x4e,
  Reduce = 0x52,
  BinUnicode = 0x58,
  EmptyList = 0x5d,
  Append = 0x61,
  Build = 0x62,
  Global = 0x63,
  Appends = 0x65,
  BinGet = 0x68,
  LongBinGet = 0x6a,
  BinPut = 0x71,
  LongBinPut = 0x72,
  SetItem = 0x73,
  SetItems = 0x75,
  EmptyDict = 0x7d,
  Proto = 0x80,
  NewObj = 0x81,
  Tuple1 = 0x85,
  Tuple2 = 0x86,
  Tuple3 = 0x87,
  NewTrue = 0x88,
  NewFalse = 0x89,
  Long1 = 0x8a,
  ShortBinUnicode = 0x8c,
  EmptySet = 0x8f,
  AddItems = 0x90,
  StackGlobal = 0x93,
  Memoize = 0x94,
  Frame = 0x95,
};

}  // namespace regroup::wire
