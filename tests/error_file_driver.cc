// Lets the Python tests use our side of error files. One command, one answer line on stdout.
//
//   read PATH                                     the fields as JSON, null if there is no file
//   write PATH MESSAGE STACK [TIMESTAMP [CODE]]   ok
//   traceback < STDERR                            text and last_line as JSON, null if there is none
//
// or `error MESSAGE`. `throw MESSAGE` throws it inside record() and ends with its exit code.
#include <boost/json.hpp>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "regroup/error_file.h"
#include "wire/text/traceback.h"

namespace {

using namespace regroup;
namespace json = boost::json;

template <class T>
json::value or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

std::string read(const std::string& path) {
  const auto file = read_error_file(path);
  if (!file) return "error " + file.error().message;
  if (!*file) return "null";
  return json::serialize(json::object{{"message", (*file)->message},
                                      {"call_stack", (*file)->call_stack},
                                      {"timestamp", or_null((*file)->timestamp)},
                                      {"error_code", or_null((*file)->error_code)},
                                      {"structured", (*file)->structured}});
}

std::string write(const std::vector<std::string>& words) {
  ErrorFile file{.message = words[2], .call_stack = words[3]};
  if (words.size() > 4) file.timestamp = std::stoll(words[4]);
  if (words.size() > 5) file.error_code = std::stoi(words[5]);
  const auto written = write_error_file(words[1], file);
  return written ? "ok" : "error " + written.error().message;
}

std::string traceback() {
  const std::string tail{std::istreambuf_iterator<char>(std::cin), {}};
  const auto found = wire::last_traceback(tail);
  if (!found) return "null";
  return json::serialize(json::object{{"text", found->text}, {"last_line", found->last_line}});
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string command = words.empty() ? "" : words[0];
  if (command == "read" && words.size() == 2)
    std::cout << read(words[1]) << std::endl;
  else if (command == "write" && words.size() >= 4 && words.size() <= 6)
    std::cout << write(words) << std::endl;
  else if (command == "traceback" && words.size() == 1)
    std::cout << traceback() << std::endl;
  else if (command == "throw" && words.size() == 2)
    return record([&]() -> int { throw std::runtime_error(words[1]); });
  else
    return 2;
  return 0;
}
