// What may grow in this room.
#pragma once

#include <cstddef>
#include <cstdint>

#include "regroup/time.h"

namespace regroup::runtime {

// A client with so many bytes of answers unread is not read from until it has taken them.
inline constexpr std::size_t kUnreadAnswers = 1024 * 1024;
// Clients of one store at one time. One more is accepted and closed at once, which it sees as a
// lost connection.
inline constexpr std::size_t kClients = 100'000;
// Sessions and runs at one port. One more is refused, and told so.
inline constexpr std::size_t kSessions = 50'000;
inline constexpr std::size_t kRuns = 10'000;
// A session that has not said in so long who it is, is closed.
inline constexpr Duration kHelloLimit = 10s;
// Messages of one session in one second; beyond it, it is closed. A look at all runs costs as much
// as so many others.
inline constexpr int kMessagesInASecond = 1000;
inline constexpr int kLookCosts = 100;
// A session that leaves so many bytes unread is closed: what it was told must not pile up with us.
inline constexpr std::size_t kUnreadBySession = 1024 * 1024;
// Whoever was told why its session ends has so long to read it.
inline constexpr Duration kSessionGoodbyeLimit = 5s;
// A server that announces a longer answer is not believed: the connection is given up.
inline constexpr std::size_t kLargestAnswer = std::size_t{4} << 30;
// A late joiner of a torchrun run looks for the workers' store among the keys of so many earlier
// rounds; beyond them it counts as not there.
inline constexpr std::int64_t kRoundsLookedBack = 1000;
// The highest rank that a filter may name; a longer range is a mistake, and is refused.
inline constexpr int kHighestRank = 9'999'999;
// Text that waits for a console that does not read. Beyond it, lines are dropped from the console
// alone, and counted.
inline constexpr std::size_t kConsoleBacklog = 32 * 1024 * 1024;
// A text for the console is handed over when it is so long, or at the end of the turn.
inline constexpr std::size_t kConsoleText = 256 * 1024;
// What the pipe of a worker's output holds, where the system allows it; a full one blocks the
// worker.
inline constexpr std::size_t kOutputPipe = 1024 * 1024;
// Read from one stream at a time, before the others have their turn.
inline constexpr std::size_t kOutputRead = 256 * 1024;
// Lines of events or metrics that wait for a file that does not take them (a pipe that nobody
// reads, a full disk). Beyond it they are dropped, and counted.
inline constexpr std::size_t kRecordBacklog = 1024 * 1024;
// Connections to the health port at one time. For one more, whoever has been silent for the longest
// time is closed; if none is silent, whoever has not taken its answer for the longest time.
inline constexpr std::size_t kHealthClients = 64;

// A request to the health port has so long to come, and so long its answer has to be taken.
inline constexpr Duration kHealthRequestLimit = 10s;
// Whoever was told that we close has so long to close, too.
inline constexpr Duration kHealthGoodbyeLimit = 5s;
// A question about an agent whose loop does not turn is answered after so long: probes of
// Kubernetes wait for a second.
inline constexpr Duration kHealthPatience = 500ms;
// However short the limit is, the loop has so long to show that it turns.
inline constexpr Duration kHealthLeastPatience = 10ms;

// A coordinator that does not take what a node says within so long is lost.
inline constexpr Duration kSayLimit = 2s;

// Room for descriptors that is made beforehand; more may be opened. Of a worker: its control
// groups, its pipes and files, its end, its connections to a store of ours.
inline constexpr std::size_t kDescriptors = 64;
inline constexpr std::size_t kDescriptorsOfAWorker = 16;
// Read from the timer pipe at a time.
inline constexpr std::size_t kTimerRead = 256 * 1024;
// A client of the timer pipe waits so long for room in it.
inline constexpr Duration kTimerPatience = 10s;
// So many complaints about what comes through the timer pipe are told; then no more.
inline constexpr int kTimerComplaints = 100;

// While workers are being stopped, what is waited for is said so often.
inline constexpr Duration kStopProgress = 2s;
// A worker has ended, but its tracer has not let go of it: looked at again after so long.
inline constexpr Duration kSecondLook = 20ms;
// Somebody who is not ours may hold the end of a worker's pipe; then its output ends here.
inline constexpr Duration kDrainLimit = 2s;
// The last lines on a console that does not read are waited for so long.
inline constexpr Duration kConsolePatience = 2s;
// What waits for a pipe that is full at the end of a run is waited for so long.
inline constexpr Duration kRecordPatience = 1s;

// All stacks of a group are taken within so long.
inline constexpr Duration kStacksLimit = 5s;
// All ranks of this node wait for another node, most likely. If none of the others acts within so
// long, we do.
inline constexpr Duration kOtherNodesTurn = 15s;
// What is kept of one worker's stacks.
inline constexpr std::size_t kStackText = 1024 * 1024;
// Where the disk hangs that they are to be written to, we go on without that after a bit longer.
inline constexpr Duration kStacksDisk = 2s;
// Somebody who gives up on stacks waits so long for their taker to end.
inline constexpr Duration kGiveUpPatience = 500ms;
// A worker that was asked for its stacks writes them within so long; looked at so often.
inline constexpr Duration kDumpPatience = 1s;
inline constexpr Duration kDumpPause = 20ms;

}  // namespace regroup::runtime
