// Lists of strings: a hundred thousand keys in one message, arriving in any number of pieces.
//
// A list is measured before it is parsed, and what has been measured is not looked at again: each
// byte is counted once, however slowly they come. Half a message must cost its sender time, not us.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace regroup::wire {

// Not a whole message yet. It is useless to try again with fewer bytes than `at_least`, counted
// from the start of the message.
struct NeedMore {
  std::size_t at_least = 0;
};

// The connection cannot go on: we cannot know where the next message would start.
struct Malformed {
  std::string reason;
};

// How far the message at the front of a connection's bytes has been understood. Starts empty, and
// is empty again after each whole message.
struct Progress {
  std::size_t at_least = 0;
  std::size_t position = 0;
  std::size_t items = 0;
};

// What is known of a list before its first string.
struct TextList {
  std::size_t start = 0;  // Where the first length stands.
  std::size_t count = 0;
  std::size_t even_limit = 0;  // Bytes of the first, third, … string,
  std::size_t odd_limit = 0;   // and of those in between.
  std::size_t most = 0;        // Bytes of the whole message.
};

// Empty if the list is there, whole and within its limits. All length fields that must still come
// are asked for before a further one is judged, so the verdict does not depend on how the bytes
// were cut.
std::optional<std::variant<NeedMore, Malformed>> measure(const TextList& list,
                                                         std::string_view bytes,
                                                         Progress& progress);

}  // namespace regroup::wire
