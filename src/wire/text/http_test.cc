#include "wire/text/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace regroup::wire {
namespace {

using testing::HasSubstr;

// The request, which must be whole; `rest` gets what follows it.
HttpRequest whole(std::string_view bytes, std::string_view* rest = nullptr) {
  const auto parsed = parse_http_request(bytes);
  const auto* found = std::get_if<HttpWhole>(&parsed);
  EXPECT_NE(found, nullptr) << bytes;
  if (found == nullptr) return {};
  if (rest != nullptr) *rest = bytes.substr(found->size);
  return found->request;
}

int refused(std::string_view bytes) {
  const auto parsed = parse_http_request(bytes);
  const auto* refusal = std::get_if<HttpRefusal>(&parsed);
  return refusal == nullptr ? 0 : refusal->status;
}

bool needs_more(std::string_view bytes) {
  return std::holds_alternative<HttpNeedMore>(parse_http_request(bytes));
}

TEST(Http, ReadsWhatAProbeSends) {
  const auto request =
      whole("GET /healthz HTTP/1.1\r\nHost: 10.0.0.7:8080\r\nUser-Agent: kube-probe/1.30\r\n\r\n");
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.path, "/healthz");
  EXPECT_TRUE(request.keep_alive);
}

TEST(Http, ReadsWhatAPersonTypes) {
  const auto request = whole("GET /status HTTP/1.0\n\n");
  EXPECT_EQ(request.path, "/status");
  EXPECT_FALSE(request.keep_alive);
}

TEST(Http, ReadsOneRequestAfterTheOther) {
  std::string_view rest;
  EXPECT_EQ(
      whole("GET /a HTTP/1.1\r\nHost: h\r\n\r\nHEAD /b HTTP/1.1\r\nHost: h\r\n\r\n", &rest).path,
      "/a");
  EXPECT_EQ(whole(rest, &rest).method, "HEAD");
  EXPECT_EQ(rest, "");
}

TEST(Http, SkipsLineEndsInFrontOfARequest) {
  EXPECT_EQ(whole("\r\n\r\nGET /a HTTP/1.0\r\n\r\n").path, "/a");
}

TEST(Http, WaitsForTheEndOfTheHead) {
  const std::string head = "GET / HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n";
  for (std::size_t cut = 0; cut < head.size(); ++cut)
    EXPECT_TRUE(needs_more(head.substr(0, cut))) << cut;
  EXPECT_EQ(whole(head).path, "/");
}

TEST(Http, LeavesTheQuestionOff) {
  EXPECT_EQ(whole("GET /metrics?name[]=up HTTP/1.0\r\n\r\n").path, "/metrics");
}

TEST(Http, TakesTheWholeAddressAsAProxyWould) {
  EXPECT_EQ(whole("GET http://node-1:8080/status?x HTTP/1.0\r\n\r\n").path, "/status");
  EXPECT_EQ(whole("GET HTTP://node-1:8080 HTTP/1.0\r\n\r\n").path, "/");
  EXPECT_EQ(whole("GET http://node-1?x HTTP/1.0\r\n\r\n").path, "/");
}

TEST(Http, KeepsTheConnectionAsTheClientWishes) {
  EXPECT_FALSE(whole("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").keep_alive);
  EXPECT_FALSE(whole("GET / HTTP/1.1\r\nHost: h\r\nconnection: x , CLOSE\r\n\r\n").keep_alive);
  EXPECT_TRUE(whole("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
  EXPECT_FALSE(whole("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n").keep_alive);
}

TEST(Http, HandsOverMethodsThatItDoesNotKnow) {
  EXPECT_EQ(whole("DELETE /x HTTP/1.0\r\n\r\n").method, "DELETE");
  EXPECT_EQ(whole("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").method, "OPTIONS");
  EXPECT_EQ(whole("get / HTTP/1.0\r\n\r\n").method, "get");
}

TEST(Http, RefusesWhatIsNoRequest) {
  for (const std::string_view bytes :
       {"GET /\r\n", "GET  HTTP/1.1\r\n", "/ HTTP/1.1\r\n", "GET / HTTP/1.1 x\r\n",
        "GET / http/1.1\r\n", "GET / HTTP/11\r\n", "G(T / HTTP/1.1\r\n", "GET / x HTTP/1.1\r\n",
        "GET status HTTP/1.1\r\n", "GET * HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost\r\n",
        "GET / HTTP/1.1\r\n: h\r\n", "GET / HTTP/1.1\r\nHost : h\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n folded\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n",
        "GET / HTTP/1.1\r\nA: \x01\r\n", "GET / HTTP/1.1\r\nA: b\rc\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n", "GET / HTTP/1.1\r\nContent-Length:\r\n"})
    EXPECT_EQ(refused(bytes), 400) << bytes;
}

TEST(Http, KnowsAStrangerByItsFirstByte) {
  EXPECT_EQ(refused(std::string_view("\x16\x03\x01\x02", 4)), 400);
  EXPECT_EQ(refused(std::string_view("\0", 1)), 400);
  EXPECT_EQ(refused("\xff"), 400);
}

TEST(Http, WantsAHostFromHttp11Alone) {
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nAccept: */*\r\n\r\n"), 400);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost:\r\n\r\n"), 0);
}

TEST(Http, RefusesOtherVersions) {
  EXPECT_EQ(refused("GET / HTTP/2.0\r\n"), 505);
  EXPECT_EQ(refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
}

TEST(Http, RefusesBodies) {
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nContent-Length: 5\r\n"), 413);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"), 413);
  EXPECT_EQ(refused("POST / HTTP/1.1\r\nContent-Length: 5\r\n"), 405);
  EXPECT_EQ(whole("GET / HTTP/1.0\r\nContent-Length: 00\r\n\r\n").path, "/");
}

TEST(Http, RefusesAHeadThatIsTooLong) {
  const std::string head = "GET / HTTP/1.0\r\nA: ";
  const std::string at_the_limit =
      head + std::string(kHttpHeadBytes - head.size() - 4, 'x') + "\r\n\r\n";
  EXPECT_EQ(at_the_limit.size(), kHttpHeadBytes);
  EXPECT_EQ(whole(at_the_limit).path, "/");
  const std::string longer = head + std::string(kHttpHeadBytes - head.size() - 3, 'x') + "\r\n\r\n";
  EXPECT_EQ(refused(longer), 431);
  EXPECT_EQ(refused(std::string(kHttpHeadBytes, 'x')), 431);
  EXPECT_TRUE(needs_more(std::string(kHttpHeadBytes - 1, 'x')));
}

TEST(Http, WritesAnAnswerWithItsLength) {
  ByteBuffer out;
  append_http_response(out, {.status = 503, .body = "no\n", .keep_alive = true});
  EXPECT_THAT(std::string(out.view()),
              testing::AllOf(testing::StartsWith("HTTP/1.1 503 Service Unavailable\r\n"),
                             HasSubstr("\r\nContent-Length: 3\r\n"),
                             HasSubstr("\r\nConnection: keep-alive\r\n"),
                             testing::EndsWith("\r\n\r\nno\n")));
}

TEST(Http, AnswersHeadWithoutTheBody) {
  ByteBuffer out;
  append_http_response(out, {.body = "ok\n", .head_only = true});
  EXPECT_THAT(std::string(out.view()), testing::AllOf(HasSubstr("\r\nContent-Length: 3\r\n"),
                                                      HasSubstr("\r\nConnection: close\r\n"),
                                                      testing::EndsWith("\r\n\r\n")));
}

TEST(Http, SaysWhichMethodsThereAre) {
  ByteBuffer out;
  append_http_response(out, {.status = 405});
  EXPECT_THAT(std::string(out.view()), HasSubstr("\r\nAllow: GET, HEAD\r\n"));
}

}  // namespace
}  // namespace regroup::wire
