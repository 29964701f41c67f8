#include "runtime/rendezvous/status_client.h"

#include <fmt/core.h>

#include <utility>
#include <variant>

#include "base/byte_buffer.h"
#include "io/loop/clock.h"
#include "io/net/address.h"
#include "runtime/session/frame_reader.h"
#include "runtime/store/store_channel.h"
#include "wire/session/run_status.h"
#include "wire/session/session.h"

namespace regroup::runtime {

using namespace core::coordinator;

std::string text_of(const Endpoint& where) { return io::join_host_port(where.host, where.port); }

Result<StatusAnswer> StatusClient::ask(const std::string& run_id) {
  const Instant deadline = io::deadline_after(limit_);
  const bool was_connected = session_.has_value();
  if (!was_connected)
    if (auto there = connect(deadline); !there) return tl::unexpected(there.error());
  auto json = look(run_id, deadline);
  if (!json && was_connected && json.error().kind == ErrorKind::Connection) {
    // It may have been started again since the last question.
    if (auto there = connect(deadline); !there) return tl::unexpected(there.error());
    json = look(run_id, deadline);
  }
  if (!json) return tl::unexpected(json.error());
  auto status = wire::decode_status(*json);
  if (!status)
    return fail(status.error().kind,
                fmt::format("the coordinator at {} says what nobody understands: {}",
                            text_of(where_), status.error().message));
  return StatusAnswer{std::move(*json), std::move(*status)};
}

Result<void> StatusClient::connect(Instant deadline) {
  auto addresses = io::resolve(where_.host, where_.port, deadline);
  if (!addresses) return tl::unexpected(addresses.error());
  auto channel = StoreChannel::try_once(*addresses, deadline);
  if (!channel) {
    const StoreChannel::Failure& failure = channel.error();
    const bool silent = failure.answered && failure.why.kind == ErrorKind::Timeout;
    return fail(
        failure.why.kind,
        !failure.answered
            ? fmt::format(
                  "nobody answers at {}: {}. Is the coordinator running, and is this its address?",
                  text_of(where_), failure.why.message)
            : fmt::format("no coordinator at {}: {}. {}", text_of(where_), failure.why.message,
                          silent ? "Something listens there and does not answer: it is stuck, or "
                                   "it is something else."
                                 : "Something else listens there."));
  }
  auto session = channel->into_session(deadline);
  if (!session) return tl::unexpected(session.error());
  if (!*session)
    return fail(ErrorKind::Unsupported,
                "the server at " + text_of(where_) +
                    " is a plain store: only runs of regroup have a status. If one of torchrun "
                    "meets there, 'regroup rendezvous show' tells of it.");
  auto opened = open_with_secret(std::move(**session), secret_ ? &*secret_ : nullptr, deadline);
  if (!opened) return tl::unexpected(unanswered(opened.error()));
  session_ = std::move(*opened);
  return {};
}

Result<std::string> StatusClient::look(const std::string& run_id, Instant deadline) {
  OpenedSession session = std::move(*session_);
  session_.reset();  // It is kept only if the answer comes whole.
  const auto lost = [this](const Error& why) { return tl::unexpected(unanswered(why)); };
  ByteBuffer out;
  if (session.proofs) session.proofs->append_ours(out);
  const std::size_t before = out.size();
  wire::append_frame(out, FromAgent{Look{run_id}});
  if (session.seals) session.seals->of_agent.seal(out, before);
  if (auto sent = session.socket.send(out.view(), deadline); !sent) return lost(sent.error());
  ByteBuffer in;
  FrameReader<FromCoordinator> reader;
  for (;;) {
    const bool awaits_proof = session.proofs.has_value();
    FrameSealer* sealer = session.seals && !awaits_proof ? &session.seals->of_coordinator : nullptr;
    auto frame = reader.next(in, {.sealer = sealer, .from_stranger = awaits_proof});
    if (const auto* wrong = std::get_if<wire::Malformed>(&frame))
      return lost({ErrorKind::Protocol, wrong->reason});
    if (std::holds_alternative<wire::NeedMore>(frame)) {
      constexpr std::size_t kRoom = 64 * 1024;
      auto got = session.socket.receive(in.prepare(kRoom), deadline);
      if (!got) return lost(got.error());
      in.commit(*got);
    }
    auto* whole = std::get_if<wire::WholeFrame<FromCoordinator>>(&frame);
    if (whole == nullptr) continue;
    if (const auto* refused = std::get_if<Refused>(&whole->message))
      return lost({ErrorKind::Refused, refused->why});
    if (session.proofs) {
      if (!session.proofs->is_theirs(whole->message)) return lost({ErrorKind::Refused, kNotProven});
      session.proofs.reset();
    }
    if (auto* report = std::get_if<Report>(&whole->message)) {
      session_.emplace(std::move(session));
      return std::move(report->json);
    }
  }
}

Error StatusClient::unanswered(const Error& why) const {
  return {why.kind,
          fmt::format("no answer from the coordinator at {}: {}", text_of(where_), why.message)};
}

}  // namespace regroup::runtime
