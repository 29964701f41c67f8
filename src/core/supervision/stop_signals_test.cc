#include "core/supervision/stop_signals.h"

#include <gtest/gtest.h>

namespace regroup::core::supervision {
namespace {

Instant at(Duration time) { return Instant{} + time; }

TEST(StopSignals, ADoubledSignalIsOne) {
  StopSignals signals;
  EXPECT_EQ(signals.hear({kSigTerm}, at(10s)), SignalMeaning::First);
  EXPECT_EQ(signals.hear({kSigTerm}, at(10s + 2ms)), SignalMeaning::Echo);
  EXPECT_EQ(signals.hear({kSigTerm}, at(11s)), SignalMeaning::Echo);
  EXPECT_EQ(signals.first(), kSigTerm);
}

TEST(StopSignals, TheSameAfterASecondIsMeant) {
  StopSignals signals;
  signals.hear({kSigTerm}, at(10s));
  EXPECT_EQ(signals.hear({kSigTerm}, at(10s + 900ms)), SignalMeaning::Echo);
  // The second is counted from the first, or a patient sender would never be heard.
  EXPECT_EQ(signals.hear({kSigTerm}, at(11s + 1ms)), SignalMeaning::Again);
}

TEST(StopSignals, AnotherOneIsMeantAtOnce) {
  StopSignals signals;
  signals.hear({kSigTerm}, at(10s));
  EXPECT_EQ(signals.hear({kSigInt}, at(10s)), SignalMeaning::Again);
}

TEST(StopSignals, EveryKeyCounts) {
  StopSignals signals;
  EXPECT_EQ(signals.hear({kSigInt, true}, at(10s)), SignalMeaning::First);
  EXPECT_EQ(signals.hear({kSigInt, true}, at(10s + 200ms)), SignalMeaning::Again);
}

TEST(StopSignals, AKeyThatAWrapperHandsOnIsOneKey) {
  for (const bool key_is_first : {true, false}) {
    StopSignals signals;
    signals.hear({kSigInt, key_is_first}, at(10s));
    EXPECT_EQ(signals.hear({kSigInt, !key_is_first}, at(10s + 5ms)), SignalMeaning::Echo);
    EXPECT_EQ(signals.hear({kSigInt, true}, at(10s + 300ms)), SignalMeaning::Again);
  }
}

TEST(StopSignals, ATerminalIsClosedOnce) {
  StopSignals signals;
  signals.hear({kSigHup}, at(10s));
  EXPECT_EQ(signals.hear({kSigHup}, at(20s)), SignalMeaning::Echo);
}

TEST(LooksSignalled, TellsEndsThatASignalToAllMayHaveMade) {
  for (const int code : {-15, -2, 143, 130}) EXPECT_TRUE(looks_signalled(code, "")) << code;
  EXPECT_TRUE(looks_signalled(1, "KeyboardInterrupt"));
  for (const int code : {1, -9, -11, 137, 15, 2}) EXPECT_FALSE(looks_signalled(code, "")) << code;
  EXPECT_FALSE(looks_signalled(1, "RuntimeError: KeyboardInterrupt"));
}

}  // namespace
}  // namespace regroup::core::supervision
