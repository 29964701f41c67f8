// Every call of regroup that can fail says so in its return type.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace regroup {

enum class ErrorKind {
  InvalidArgument,  // The caller asked for something impossible; asking again will not help.
  Timeout,          // The time limit passed. What was asked for may still come later.
  Connection,       // The peer cannot be reached, or went away.
  Protocol,         // The peer said something that does not belong there.
  Refused,          // A named limit was reached, or the operation does not fit the stored value.
  Unsupported,      // The peer is too old for this operation.
  Cancelled,        // The wait was ended on request.
  Io,               // The operating system refused.
  Closed,           // The run is over, for all nodes.
  Corrupt,          // What the nodes share cannot be read. It is left as it is.
  NotNeeded,        // A spare whose run has ended without it. Not a failure.
};

std::string_view to_string(ErrorKind kind);

// The message says what was tried, with which values, what happened, and what to do now.
struct Error {
  ErrorKind kind;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message)});
}

}  // namespace regroup
