// What may grow in this room.
#pragma once

#include <cstddef>
#include <cstdint>

#include "regroup/time.h"

namespace regroup::runtime {

// A client with this many bytes of unread answers is not read from until it has taken them.
inline constexpr std::size_t kUnreadAnswers = 1024 * 1024;
// Clients of one store at one time. One more is accepted and closed at once, which it sees as a
// lost connection.
inline constexpr std::size_t kClients = 100'000;
// A connection that has not greeted within this time is closed. (PyTorch's clients greet at once;
// those of 2.4 may then ask for nothing for minutes.) If there is no room for one more client, the
// first that came within this time, and has asked for nothing yet, makes room.
inline constexpr Duration kGreetingLimit = 30s;
// Descriptors that clients leave to the rest of the process. A store that is a program of its own
// needs few for itself; beside an agent it leaves half of what the process may have, but no more
// than the second number.
inline constexpr std::size_t kReservedByServer = 32;
inline constexpr std::size_t kReservedDescriptors = 1024;
// What is held for one connection (requests that are not whole, answers that are not read) counts
// towards the limit on memory beyond this many bytes. If all of it is too much, the connection with
// the most is closed. Beside a store that is full, a quarter of the limit may be held.
inline constexpr std::size_t kUncountedBuffer = 4096;
inline constexpr std::size_t kLeastBufferShare = 4;
// Sessions and runs at one port. One more is refused, and told so.
inline constexpr std::size_t kSessions = 50'000;
inline constexpr std::size_t kRuns = 10'000;
// A session that has not said hello within this time is closed.
inline constexpr Duration kHelloLimit = 10s;
// Messages of one session in one second; beyond it, it is closed. A look at all runs counts as the
// second number of messages.
inline constexpr int kMessagesInASecond = 1000;
inline constexpr int kLookCosts = 100;
// A session that leaves this many bytes unread is closed: they must not pile up here.
inline constexpr std::size_t kUnreadBySession = 1024 * 1024;
// A session that was told why it ends has this long to read it.
inline constexpr Duration kSessionGoodbyeLimit = 5s;
// If a server announces a longer answer than this, the connection is given up.
inline constexpr std::size_t kLargestAnswer = std::size_t{4} << 30;
// A late joiner of a torchrun run looks for the workers' store among the keys of this many earlier
// rounds; if it is in none of them, it counts as absent.
inline constexpr std::int64_t kRoundsLookedBack = 1000;
// The highest rank that a filter may name; a longer range is a mistake, and is refused.
inline constexpr int kHighestRank = 9'999'999;
// Text that waits for a console that does not read. Beyond it, lines are dropped from the console
// alone, and counted.
inline constexpr std::size_t kConsoleBacklog = 32 * 1024 * 1024;
// A text for the console is handed over when it is this long, or at the end of the turn.
inline constexpr std::size_t kConsoleText = 256 * 1024;
// What the pipe of a worker's output holds, where the system allows it; a full one blocks the
// worker.
inline constexpr std::size_t kOutputPipe = 1024 * 1024;
// Read from one stream at a time, before the others have their turn.
inline constexpr std::size_t kOutputRead = 256 * 1024;
// Lines of events or metrics that wait for a file that does not take them (a pipe without a reader,
// a full disk). Beyond it they are dropped, and counted.
inline constexpr std::size_t kRecordBacklog = 1024 * 1024;
// Connections to the health port at one time. For one more, the one that has been silent for the
// longest time is closed; if none is silent, the one that has not taken its answer for the longest
// time.
inline constexpr std::size_t kHealthClients = 64;

// How long a request to the health port may take to come, and its answer to be taken.
inline constexpr Duration kHealthRequestLimit = 10s;
// A client that was told that we close has this long to close, too.
inline constexpr Duration kHealthGoodbyeLimit = 5s;
// A question about an agent whose loop does not turn is answered after this time: probes of
// Kubernetes wait for a second.
inline constexpr Duration kHealthPatience = 500ms;
// However short the limit is, the loop has this long to show that it turns.
inline constexpr Duration kHealthLeastPatience = 10ms;

// How long an interruption, or that there is no use in waiting, may go unnoticed.
inline constexpr Duration kNoticedWithin = 250ms;
// A node that still waits for others says so again this often.
inline constexpr Duration kSayAgain = 10s;
// A coordinator that does not take a node's messages within this time is lost.
inline constexpr Duration kSayLimit = 2s;

// Room for descriptors that is reserved in advance; more may be opened. For each worker: its
// control groups, its pipes and files, its end, its connections to a store of ours.
inline constexpr std::size_t kDescriptors = 64;
inline constexpr std::size_t kDescriptorsOfAWorker = 16;
// Read from the timer pipe at a time.
inline constexpr std::size_t kTimerRead = 256 * 1024;
// How long a client of the timer pipe waits for room in it.
inline constexpr Duration kTimerPatience = 10s;
// Only this many complaints about what comes through the timer pipe are logged.
inline constexpr int kTimerComplaints = 100;

// While workers are being stopped, this often we say what we wait for.
inline constexpr Duration kStopProgress = 2s;
// A worker has ended, but its tracer still holds it: we look again after this time.
inline constexpr Duration kSecondLook = 20ms;
// A process that is not ours may hold the end of a worker's pipe; after this time we stop reading
// it.
inline constexpr Duration kDrainLimit = 2s;
// A failure is told with what its worker wrote last if that can be read within this time.
inline constexpr Duration kTailPatience = 100ms;
// How long we wait for a console that does not read to take the last lines.
inline constexpr Duration kConsolePatience = 2s;
// How long we wait at the end of a run for a full pipe to take the last records.
inline constexpr Duration kRecordPatience = 1s;

// All stacks of a group are taken within this time.
inline constexpr Duration kStacksLimit = 5s;
// Before a worker is ended for an expired timer they are taken within this time, and it is ended
// after the second time whether they have come or not.
inline constexpr Duration kTimerStacksLimit = 400ms;
inline constexpr Duration kTimerEndPatience = 500ms;
// gdb is asked about programs with no more code than this: it reads the symbols of all of it
// first. For PyTorch (300 MB) that takes longer than any of the limits above.
inline constexpr std::uint64_t kDebuggedCode = 32ULL * 1024 * 1024;
// If all ranks of this node wait, most likely they wait for another node. If none of the others
// acts within this time, we do.
inline constexpr Duration kOtherNodesTurn = 15s;
// How much of one worker's stacks is kept.
inline constexpr std::size_t kStackText = 1024 * 1024;
// If the disk for the stacks file hangs, we go on without the file after this additional time.
inline constexpr Duration kStacksDisk = 2s;
// When stacks are given up, we wait this long for their taker to end.
inline constexpr Duration kGiveUpPatience = 500ms;
// A worker that was asked for its stacks writes them within this time; the second is the pause
// between looks.
inline constexpr Duration kDumpPatience = 1s;
inline constexpr Duration kDumpPause = 20ms;

}  // namespace regroup::runtime
