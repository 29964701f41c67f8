#include "io/file/fifo.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "io/loop/clock.h"
#include "io/loop/loop.h"

namespace regroup::io {
namespace {

using testing::HasSubstr;

class FifoTest : public testing::Test {
 public:
  FifoTest() {
    std::string name = (std::filesystem::temp_directory_path() / "fifo_testXXXXXX").string();
    folder = ::mkdtemp(name.data());
    path = (folder / "pipe").string();
  }
  ~FifoTest() override { std::filesystem::remove_all(folder); }

 protected:
  static std::string read(const Fifo& fifo) {
    std::array<char, 8192> room{};
    return std::string(room.data(), fifo.read(room));
  }

  std::filesystem::path folder;
  std::string path;
};

TEST_F(FifoTest, CarriesWhatIsWritten) {
  const auto fifo = Fifo::create(path);
  ASSERT_TRUE(fifo) << fifo.error().message;
  EXPECT_EQ(read(**fifo), "");
  ASSERT_TRUE(write_to_fifo(path, "one\n", 1s));
  ASSERT_TRUE(write_to_fifo(path, "two\n", 1s));
  EXPECT_EQ(read(**fifo), "one\ntwo\n");
  EXPECT_EQ(read(**fifo), "");
}

TEST_F(FifoTest, IsForOurUserAloneWhateverTheMask) {
  const mode_t before = ::umask(0);
  const auto fifo = Fifo::create(path);
  ::umask(before);
  ASSERT_TRUE(fifo);
  struct stat info {};
  ASSERT_EQ(::lstat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(FifoTest, IsGoneWithItsOwner) {
  { ASSERT_TRUE(Fifo::create(path)); }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(FifoTest, DoesNotRemoveWhatIsNotItsOwnAnyMore) {
  {
    const auto fifo = Fifo::create(path);
    ASSERT_TRUE(fifo);
    std::filesystem::remove(path);
    std::ofstream(path) << "another's";
  }
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(FifoTest, ReplacesAPipeThatNobodyReads) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0644), 0);
  const auto fifo = Fifo::create(path);
  ASSERT_TRUE(fifo) << fifo.error().message;
  ASSERT_TRUE(write_to_fifo(path, "x", 1s));
  EXPECT_EQ(read(**fifo), "x");
}

TEST_F(FifoTest, ReplacesAnEmptyFile) {
  std::ofstream(path).close();
  EXPECT_TRUE(Fifo::create(path));
}

TEST_F(FifoTest, RefusesWhatIsSomebodys) {
  const auto in_use = Fifo::create(path);
  ASSERT_TRUE(in_use);
  const auto second = Fifo::create(path);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("somebody reads it"));
  ASSERT_TRUE(write_to_fifo(path, "x", 1s));
  EXPECT_EQ(read(**in_use), "x");

  const std::string file = (folder / "file").string();
  std::ofstream(file) << "precious";
  const auto over_file = Fifo::create(file);
  ASSERT_FALSE(over_file);
  EXPECT_THAT(over_file.error().message, HasSubstr("something in it"));
  EXPECT_EQ(std::filesystem::file_size(file), 8u);

  const std::string link = (folder / "link").string();
  std::filesystem::create_symlink(folder / "nowhere", link);
  for (const std::string& other : {folder.string(), link, std::string("/dev/null")}) {
    const auto refused = Fifo::create(other);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("Choose another path"));
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::symlink_status(other)));
  }
  const auto nowhere = Fifo::create((folder / "none" / "pipe").string());
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("No such file or directory"));
}

TEST_F(FifoTest, AWriterHearsThatNobodyReads) {
  EXPECT_EQ(write_to_fifo(path, "x", 1s).error().kind, ErrorKind::Connection);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto left_over = write_to_fifo(path, "x", 1s);
  EXPECT_EQ(left_over.error().kind, ErrorKind::Connection);
  EXPECT_THAT(left_over.error().message, HasSubstr("nobody reads it"));
  const std::string file = (folder / "file").string();
  std::ofstream(file).close();
  EXPECT_EQ(write_to_fifo(file, "x", 1s).error().kind, ErrorKind::InvalidArgument);
  EXPECT_EQ(std::filesystem::file_size(file), 0u);
}

TEST_F(FifoTest, TakesNoMoreAtOnceThanStaysWhole) {
  const auto fifo = Fifo::create(path);
  ASSERT_TRUE(fifo);
  EXPECT_TRUE(write_to_fifo(path, std::string(PIPE_BUF, 'x'), 1s));
  const auto refused = write_to_fifo(path, std::string(PIPE_BUF + 1, 'x'), 1s);
  EXPECT_EQ(refused.error().kind, ErrorKind::InvalidArgument);
  EXPECT_EQ(read(**fifo).size(), std::size_t{PIPE_BUF});
}

TEST_F(FifoTest, AWriterWaitsWhileItIsFullButNotForEver) {
  const auto fifo = Fifo::create(path);
  ASSERT_TRUE(fifo);
  const std::string page(PIPE_BUF, 'x');
  for (std::size_t put = 0; put < (*fifo)->capacity(); put += page.size())
    ASSERT_TRUE(write_to_fifo(path, page, 1s));
  EXPECT_EQ(write_to_fifo(path, page, 1ms).error().kind, ErrorKind::Timeout);

  std::thread writer([&] { EXPECT_TRUE(write_to_fifo(path, page, 60s)); });
  std::size_t got = 0;
  const Instant limit = deadline_after(60s);
  while (got < (*fifo)->capacity() + page.size() && now() < limit) got += read(**fifo).size();
  writer.join();
  EXPECT_EQ(got, (*fifo)->capacity() + page.size());
}

TEST_F(FifoTest, TellsTheLoopWhenThereIsSomething) {
  auto loop = Loop::open();
  ASSERT_TRUE(loop);
  const auto fifo = Fifo::create(path);
  ASSERT_TRUE(fifo);
  std::string got;
  ASSERT_TRUE((*fifo)->watch(**loop, [&] {
    got += read(**fifo);
    if (got == "one\ntwo\n") (*loop)->stop();
  }));
  std::thread writer([&] {
    EXPECT_TRUE(write_to_fifo(path, "one\n", 1s));
    EXPECT_TRUE(write_to_fifo(path, "two\n", 1s));
  });
  (*loop)->run();
  writer.join();
  EXPECT_EQ(got, "one\ntwo\n");
}

}  // namespace
}  // namespace regroup::io
