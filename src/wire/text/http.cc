#include "wire/text/http.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text_parts.h"

namespace regroup::wire {
namespace {

constexpr std::array<std::pair<int, std::string_view>, 9> kStatusTexts{
    {{200, "OK"},
     {400, "Bad Request"},
     {404, "Not Found"},
     {405, "Method Not Allowed"},
     {408, "Request Timeout"},
     {413, "Content Too Large"},
     {431, "Request Header Fields Too Large"},
     {503, "Service Unavailable"},
     {505, "HTTP Version Not Supported"}}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_token_char(char c) {
  const char l = lower(c);
  return is_digit(c) || (l >= 'a' && l <= 'z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

// One head, line by line. Each line is judged by itself and in order, the last one even while it is
// incomplete, so that the verdict does not depend on how many bytes have come.
class HeadParser {
 public:
  ParsedHttp parse(std::string_view bytes, std::size_t most_bytes) {
    const std::string_view head = bytes.substr(0, most_bytes);
    std::size_t at = 0;
    while (at < head.size()) {
      const std::size_t end = head.find('\n', at);
      std::string_view line = head.substr(at, end - at);
      if (end == std::string_view::npos) {
        // The first half of its line end.
        if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        if (!check_bytes(line)) return *refusal_;
        break;
      }
      // People who type into netcat send a line end without a carriage return.
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      at = end + 1;
      // Some clients send one line end too many after their previous request.
      if (line.empty() && !begun_) continue;
      if (line.empty()) return finish(at);
      if (!check_bytes(line) || !(begun_ ? take_header(line) : take_request_line(line)))
        return *refusal_;
    }
    if (bytes.size() < most_bytes) return HttpNeedMore{};
    return HttpRefusal{431,
                       fmt::format("the head of a request has at most {} bytes here", most_bytes)};
  }

 private:
  bool refuse(int status, std::string reason) {
    refusal_ = HttpRefusal{status, std::move(reason)};
    return false;
  }

  bool check_bytes(std::string_view line) {
    for (const char c : line) {
      const auto byte = static_cast<unsigned char>(c);
      const bool fine = begun_ ? byte >= 0x20 || c == '\t' : byte >= 0x20 && byte < 0x7f;
      if (!fine || byte == 0x7f) return refuse(400, "this is not HTTP");
    }
    return true;
  }

  bool take_request_line(std::string_view line) {
    begun_ = true;
    const std::size_t first = line.find(' ');
    const std::size_t last = line.rfind(' ');
    if (first == std::string_view::npos || first == last)
      return refuse(400, "a request begins with a method, a path and a version: GET / HTTP/1.1");
    request_.method = line.substr(0, first);
    if (!is_token(request_.method)) return refuse(400, "the method is not a word");
    const std::string_view version = line.substr(last + 1);
    if (version.size() != 8 || !version.starts_with("HTTP/") || !is_digit(version[5]) ||
        version[6] != '.' || !is_digit(version[7]))
      return refuse(400, "a request line ends with a version: GET / HTTP/1.1");
    if (version[5] != '1') return refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    needs_host_ = version[7] != '0';
    request_.keep_alive = needs_host_;
    return take_target(line.substr(first + 1, last - first - 1));
  }

  bool take_target(std::string_view target) {
    if (target.find(' ') != std::string_view::npos) return refuse(400, "the path has a blank");
    // This is how a proxy is asked.
    for (const std::string_view scheme : {"http://", "https://"})
      if (same_word(target.substr(0, scheme.size()), scheme)) {
        const std::size_t path = target.find_first_of("/?", scheme.size());
        target = path == std::string_view::npos ? "/" : target.substr(path);
        if (target.front() == '?') target = "/";
        break;
      }
    // "*" is for OPTIONS, "host:port" for CONNECT, which are refused for their method.
    if (is_question() && !target.starts_with('/'))
      return refuse(400, "the path begins with a slash");
    request_.path = target.substr(0, target.find_first_of("?#"));
    return true;
  }

  bool take_header(std::string_view line) {
    if (line.front() == ' ' || line.front() == '\t')
      return refuse(400, "a header goes on in the next line, which HTTP does not allow any more");
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
      return refuse(400, "a header has a name, a colon and a value");
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1), " \t");
    if (same_word(name, "host") && std::exchange(has_host_, true))
      return refuse(400, "there are two Host headers");
    if (same_word(name, "content-length")) {
      if (!is_all_digits(value)) return refuse(400, "Content-Length is not a number");
      if (value.find_first_not_of('0') != std::string_view::npos) return refuse_body();
    }
    if (same_word(name, "transfer-encoding")) return refuse_body();
    if (same_word(name, "connection")) take_connection(value);
    return true;
  }

  // The method is the better reason to give, and since the body is not read, the connection ends in
  // either case.
  bool refuse_body() {
    return is_question() ? refuse(413, "requests have no body here")
                         : refuse(405, "only GET and HEAD are answered here");
  }

  bool is_question() const { return request_.method == "GET" || request_.method == "HEAD"; }

  void take_connection(std::string_view value) {
    while (!value.empty()) {
      const std::size_t comma = value.find(',');
      const std::string_view word = trimmed(value.substr(0, comma), " \t");
      if (same_word(word, "close")) closes_ = true;
      if (same_word(word, "keep-alive")) request_.keep_alive = true;
      value = comma == std::string_view::npos ? "" : value.substr(comma + 1);
    }
  }

  ParsedHttp finish(std::size_t size) {
    if (needs_host_ && !has_host_)
      return HttpRefusal{400, "a request of HTTP/1.1 has a Host header"};
    if (closes_) request_.keep_alive = false;
    return HttpWhole{request_, size};
  }

  HttpRequest request_;
  bool begun_ = false;
  bool needs_host_ = false;
  bool has_host_ = false;
  bool closes_ = false;
  std::optional<HttpRefusal> refusal_;
};

}  // namespace

ParsedHttp parse_http_request(std::string_view bytes, std::size_t most_bytes) {
  return HeadParser().parse(bytes, most_bytes);
}

std::string_view http_status_text(int status) {
  for (const auto& [code, text] : kStatusTexts)
    if (code == status) return text;
  return {};
}

void append_http_response(ByteBuffer& out, const HttpResponse& response) {
  out.append(fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}",
                         response.status, http_status_text(response.status), response.content_type,
                         response.body.size()));
  if (response.status == 405) out.append("\r\nAllow: GET, HEAD");
  // Answers must not be cached: a moment later they are wrong.
  out.append("\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: ");
  out.append(response.keep_alive ? "keep-alive" : "close");
  out.append("\r\n\r\n");
  if (!response.head_only) out.append(response.body);
}

}  // namespace regroup::wire
