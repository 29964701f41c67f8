#include "runtime/common/console.h"

#include <gmock/gmock.h>

#include "io/loop/clock.h"
#include "runtime/common/console_testing.h"
#include "runtime/common/limits.h"

namespace regroup::runtime {
namespace {

using testing::HasSubstr;

// A pipe that is not read at first.
struct Stuck {
  Stuck() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read = io::Descriptor(ends[0]);
    write = io::Descriptor(ends[1]);
  }
  io::Descriptor read;
  io::Descriptor write;
};

void put(ConsoleWriter& writer, std::string text) {
  writer.put(text, 1);
  EXPECT_EQ(text, "");
}

// Until the first is refused; returns how many were taken.
std::uint64_t fill(ConsoleWriter& writer) {
  for (std::uint64_t taken = 0;; ++taken) {
    std::string text(999'999, 'x');
    text += '\n';
    if (!writer.put(text, 1)) return taken;
    EXPECT_LT(taken, 100u);
  }
}

TEST(ConsoleWriter, WritesInOrder) {
  ReadConsole console;
  auto writer = ConsoleWriter::start(console.fd(), {});
  ASSERT_TRUE(writer);
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    put(**writer, std::to_string(i) + "\n");
    expected += std::to_string(i) + "\n";
  }
  EXPECT_TRUE((*writer)->flush(io::deadline_after(60s)));
  EXPECT_EQ((*writer)->lines(), 1000u);
  writer->reset();
  EXPECT_EQ(console.text(), expected);
}

TEST(ConsoleWriter, WritesEverythingBeforeItGoes) {
  ReadConsole console;
  auto writer = ConsoleWriter::start(console.fd(), {});
  const std::string text(5'000'000, 'x');
  put(**writer, text);
  writer->reset();
  EXPECT_EQ(console.text(), text);
}

TEST(ConsoleWriter, SaysWhatIsMissingWhereItIsMissing) {
  Stuck stuck;
  auto writer = ConsoleWriter::start(stuck.write.get(), {});
  const std::uint64_t taken = fill(**writer);
  EXPECT_LE(taken * 1'000'000, kConsoleBacklog);
  EXPECT_GT((taken + 1) * 1'000'000, kConsoleBacklog);
  std::string small = "still nothing\n";
  EXPECT_FALSE((*writer)->put(small, 1));  // Until half of it is free.
  EXPECT_EQ((*writer)->dropped_lines(), 2u);
  EXPECT_FALSE((*writer)->flush(io::now()));

  ReadConsole reader(std::move(stuck.read), std::move(stuck.write));
  EXPECT_TRUE((*writer)->flush(io::deadline_after(60s)));
  put(**writer, "after\n");
  writer->reset();
  const std::string text = reader.text();
  EXPECT_EQ(text.substr(taken * 1'000'000),
            "regroup: 2 lines were not shown, because the console did not read\nafter\n");
}

TEST(ConsoleWriter, DoesNotWriteIntoALineAboutAnother) {
  Stuck stuck;
  auto writer = ConsoleWriter::start(stuck.write.get(), {});
  (*writer)->set_files_have_all(true);
  constexpr std::size_t kLong = kConsoleBacklog + 1024 * 1024;  // More than the pipe can take off.
  put(**writer, std::string(kLong, 'x'));
  std::string text = "dropped\n";
  EXPECT_FALSE((*writer)->put(text, 1));
  ReadConsole reader(std::move(stuck.read), std::move(stuck.write));
  writer->reset();
  EXPECT_THAT(reader.text().substr(kLong),
              "\nregroup: 1 line was not shown, because the console did not read; the files have "
              "them\n");
}

TEST(ConsoleWriter, GivesUpAConsoleThatIsGone) {
  Stuck stuck;
  std::vector<std::string> warnings;
  auto writer = ConsoleWriter::start(stuck.write.get(),
                                     [&](const std::string& text) { warnings.push_back(text); });
  stuck.read.close();
  for (int i = 0; i < 10; ++i) {
    put(**writer, "line\n");
    EXPECT_TRUE((*writer)->flush(io::deadline_after(60s)));
  }
  writer->reset();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("Broken pipe"));
}

TEST(ConsoleWriter, LeavesAConsoleThatDoesNotRead) {
  Stuck stuck;
  auto writer = ConsoleWriter::start(stuck.write.get(), {});
  fill(**writer);
  writer->reset();
}

}  // namespace
}  // namespace regroup::runtime
