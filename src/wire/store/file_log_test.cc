#include "wire/store/file_log.h"

#include <gtest/gtest.h>

#include <string>

namespace regroup::wire {
namespace {

TEST(FileLog, WritesRecordsAsPyTorchDoes) {
  ByteBuffer bytes;
  append_file_record(bytes, "/a", "xy");
  append_file_deletion(bytes, "/nope");
  EXPECT_EQ(bytes.view(), std::string_view("\2\0\0\0/a\2\0\0\0xy\6\0\0\0-/nope\0\0\0\0", 26));
}

TEST(FileLog, ReadsWhatItWrites) {
  ByteBuffer bytes;
  append_file_record(bytes, "/a", "");
  append_file_deletion(bytes, "/a");
  const auto first = parse_file_record(bytes.view());
  ASSERT_TRUE(first);
  EXPECT_EQ(first->key, "/a");
  EXPECT_EQ(first->value, "");
  EXPECT_FALSE(first->deletes);
  bytes.consume(first->size);
  const auto second = parse_file_record(bytes.view());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->key, "/a");
  EXPECT_TRUE(second->deletes);
  EXPECT_EQ(second->size, bytes.size());
}

TEST(FileLog, SeesATornRecordWhereverItIsTorn) {
  ByteBuffer bytes;
  append_file_record(bytes, "/key", "value");
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_FALSE(parse_file_record(bytes.view().substr(0, cut))) << cut;
  EXPECT_FALSE(parse_file_record(std::string_view("\xff\xff\xff\xff/a", 6)));
}

TEST(FileLog, TellsAStoreFromAnotherFile) {
  EXPECT_TRUE(may_begin_file(""));
  EXPECT_TRUE(may_begin_file("abc"));
  EXPECT_FALSE(may_begin_file("import torch\n"));
  ByteBuffer record;
  append_file_record(record, "refcount/", "1");
  for (std::size_t cut = 0; cut <= record.size(); ++cut)
    EXPECT_TRUE(may_begin_file(record.view().substr(0, cut)));
}

}  // namespace
}  // namespace regroup::wire
