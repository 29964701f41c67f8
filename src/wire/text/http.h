// As much of HTTP/1.0 and 1.1 as a port needs that only answers questions: request heads in, whole
// answers out. Requests with a body are refused.
//
// Nothing here keeps bytes between calls: the same bytes give the same requests, and the same
// refusal, however they were cut on their way.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/byte_buffer.h"
#include "wire/bytes/limits.h"

namespace regroup::wire {

struct HttpRequest {
  std::string_view method;  // As sent: "GET". Case counts.
  std::string_view path;    // "/status"; a question mark and what follows it are left off.
  bool keep_alive = false;  // Further requests may follow on this connection.
};

struct HttpWhole {
  HttpRequest request;   // Holds views into the bytes.
  std::size_t size = 0;  // Of its head, which is the whole request.
};
struct HttpNeedMore {};
// To be answered, and the last one: we cannot know where the next request would begin.
struct HttpRefusal {
  int status = 400;
  std::string reason;
  friend bool operator==(const HttpRefusal&, const HttpRefusal&) = default;
};
using ParsedHttp = std::variant<HttpWhole, HttpNeedMore, HttpRefusal>;

// The request at the front of `bytes`. Bytes that cannot become one are refused as soon as that is
// known, and so is a head of more than `most_bytes`.
ParsedHttp parse_http_request(std::string_view bytes, std::size_t most_bytes = kHttpHeadBytes);

struct HttpResponse {
  int status = 200;
  std::string_view content_type = "text/plain; charset=utf-8";
  std::string_view body = {};
  bool head_only = false;   // The body is only counted: the answer to HEAD.
  bool keep_alive = false;  // False tells the client that we close.
};

void append_http_response(ByteBuffer& out, const HttpResponse& response);

std::string_view http_status_text(int status);  // "Not Found"; empty: not one of ours.

}  // namespace regroup::wire
