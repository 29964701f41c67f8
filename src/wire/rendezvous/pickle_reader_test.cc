// Pickles that want to do more, or cost more, than a state may.
#include "wire/pickle/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "wire/bytes/limits.h"
#include "wire/pickle/pickle_testing.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup::wire {
namespace {

using namespace pickle_testing;
using testing::AllOf;
using testing::HasSubstr;

// Of a state whose attribute `x` is made by these opcodes.
std::string complaint(const std::string& value) {
  Attributes attributes;
  attributes["x"] = value;
  const auto state = decode_state(pickle(attributes));
  return state ? "accepted" : state.error().message;
}

std::string complaint_of_all(const std::string& bytes) {
  const auto state = decode_state(bytes);
  return state ? "accepted" : state.error().message;
}

std::string four_bytes(std::uint32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

TEST(PickleReader, RunsNothing) {
  const std::string command = text("touch /tmp/owned");
  EXPECT_THAT(complaint(class_of("posix", "system") + command + "\x85R"),
              AllOf(HasSubstr("'system' of the Python module 'posix'"), HasSubstr("0x93 at byte"),
                    HasSubstr("near attribute 'x'")));
  EXPECT_THAT(complaint("cos\nsystem\n" + command + "\x85R"), HasSubstr("Python module 'os'"));
  EXPECT_THAT(complaint("(" + command + "ios\nsystem\n"), HasSubstr("opcode 0x69 at byte"));
  EXPECT_THAT(complaint("(cos\nsystem\n" + command + "o"), HasSubstr("Python module 'os'"));
  EXPECT_THAT(complaint("cbuiltins\neval\n"), HasSubstr("'eval'"));
  EXPECT_THAT(complaint("ctorch.distributed.elastic.rendezvous.dynamic_rendezvous\nos.system\n"),
              HasSubstr("'os.system'"));
  EXPECT_THAT(complaint(class_of("datetime", "date")), HasSubstr("'date'"));
  EXPECT_THAT(complaint(class_of("collections", "OrderedDict") + ")R"), HasSubstr("'OrderedDict'"));
  EXPECT_EQ(complaint_of_all("cos\nsystem\n(S'true'\ntR."),
            "the rendezvous state is corrupt: it does not begin like a pickle of protocol 3 to 5, "
            "but with 'cos\\x0asyst'");
}

TEST(PickleReader, KnowsNoOpcodeButThoseOfAState) {
  const std::string known = unhex(
      "28292e434a4b4d4e52585d61626365686a717273757d8185868788898a8c8f909394"
      "95");
  for (int opcode = 0; opcode < 256; ++opcode)
    if (known.find(static_cast<char>(opcode)) == std::string::npos) {
      EXPECT_THAT(complaint(byte(opcode) + std::string(20, '\0')),
                  AllOf(HasSubstr(" at byte "), HasSubstr(" does not belong there")))
          << opcode;
    }
}

TEST(PickleReader, MakesObjectsInKnownWaysOnly) {
  EXPECT_THAT(complaint(torch_class("_NodeDesc") + none() + "\x85\x81"),
              HasSubstr("with arguments"));
  EXPECT_THAT(complaint(class_of("datetime", "datetime") + ")\x81"), HasSubstr("made of datetime"));
  EXPECT_THAT(complaint(text("x") + ")\x81"), HasSubstr("made of a text"));
  EXPECT_THAT(complaint(torch_class("_RendezvousState") + ")\x81"), HasSubstr("a second state"));
  EXPECT_THAT(complaint(torch_class("_NodeDesc") + ")R"), HasSubstr("calls _NodeDesc"));
  EXPECT_THAT(complaint(torch_class("_RendezvousState") + ")R"),
              HasSubstr("calls _RendezvousState"));
  EXPECT_THAT(complaint(text("x") + ")R"), HasSubstr("calls a text with a tuple"));
  EXPECT_THAT(complaint(class_of("datetime", "datetime") + "]R"), HasSubstr("with a list"));
  EXPECT_THAT(complaint(class_of("datetime", "datetime") + ")R"),
              HasSubstr("a datetime is made of"));
  EXPECT_THAT(complaint(class_of("datetime", "datetime") + integer(1) + "\x85R"),
              HasSubstr("a datetime is made of an int"));
  EXPECT_THAT(complaint(class_of("datetime", "datetime") + ten_bytes(kNoon) + none() + "\x86R"),
              HasSubstr("a datetime is made of"));
  EXPECT_THAT(complaint(class_of("datetime", "timezone") + none() + "\x85R"),
              HasSubstr("not plain UTC"));
  EXPECT_THAT(complaint(class_of("datetime", "timedelta") + ")R"), HasSubstr("timedelta is not 0"));
  EXPECT_THAT(complaint(class_of("datetime", "timedelta") + "\x89\x89\x89\x87R"),
              HasSubstr("timedelta is not 0"));
  EXPECT_THAT(complaint(class_of("builtins", "set") + "}\x85R"), HasSubstr("else than a list"));
  EXPECT_THAT(complaint(integer(1) + text("x") + "\x93"), HasSubstr("class is no text"));
}

TEST(PickleReader, GivesAttributesToNodesAndTheStateOnly) {
  EXPECT_THAT(complaint("]}b"), HasSubstr("attributes are given to a list"));
  EXPECT_THAT(complaint(class_of("datetime", "datetime") + "}b"), HasSubstr("given to datetime"));
  EXPECT_THAT(complaint(unbuilt_node() + none() + "b"), HasSubstr("given as None"));
  EXPECT_THAT(complaint(unbuilt_node() + none() + "}\x86" + "b"), HasSubstr("given as a tuple"));
  EXPECT_THAT(complaint(node("a") + "}b"), HasSubstr("a node gets attributes twice"));
  EXPECT_THAT(complaint(unbuilt_node() + "}b"), HasSubstr("'addr' of a node is missing"));
  EXPECT_THAT(complaint(unbuilt_node() + dict({integer(1), none()}) + "b"), HasSubstr("no text"));
  EXPECT_THAT(complaint(node("a", text("pid") + text("1"))),
              HasSubstr("'pid' of a node is a text"));
  EXPECT_THAT(complaint(node("a", text("local_id") + "\x88")),
              HasSubstr("'local_id' of a node is a bool"));
  EXPECT_THAT(complaint(node("a", text("addr") + none())), HasSubstr("'addr' of a node is None"));
  std::string many;
  for (std::size_t i = 0; i < kNodeAttributes; ++i) many += text(std::to_string(i)) + none();
  EXPECT_THAT(complaint(node("a", many)), HasSubstr("a node with more than 32 attributes"));
  const std::string state = pickle({});
  EXPECT_THAT(complaint_of_all(state.substr(0, state.size() - 1) + "}b."),
              HasSubstr("attributes twice"));
  EXPECT_THAT(complaint_of_all("\x80\x04" + torch_class("_RendezvousState") + ")\x81."),
              HasSubstr("before the state has attributes"));
}

TEST(PickleReader, LetsNothingGrowThatIsInUse) {
  // What Python took from the dict when it built the node would not change any more.
  const std::string attributes =
      dict({text("addr"), text("a"), text("pid"), integer(1), text("local_id"), integer(0)});
  const std::string grow = "h" + byte(0) + text("pid") + integer(2) + "s";
  EXPECT_THAT(complaint(unbuilt_node() + attributes + "\x94" + "b" + grow),
              HasSubstr("already in use"));
  const std::string list = "]\x94";
  EXPECT_THAT(complaint(class_of("builtins", "set") + list + "\x85Rh" + byte(0) + none() + "a"),
              HasSubstr("already in use"));
  EXPECT_THAT(complaint(class_of("builtins", "set") + list + "\x85R(" + none() + "\x90"),
              HasSubstr("already in use"));
}

TEST(PickleReader, KeepsToItsStack) {
  for (const std::string opcode :
       {"s", "a", "u", "e", "\x90", "\x85", "\x86", "\x87", "\x81", "R", "b", "\x93", "\x94"})
    for (const std::string prefix : {"", "(", "N", "(N", "NN("})
      EXPECT_THAT(complaint_of_all("\x80\x04" + prefix + opcode + "."), HasSubstr("corrupt"))
          << prefix << opcode;
  EXPECT_THAT(complaint("}(Nu"), HasSubstr("a key without its value"));
  EXPECT_THAT(complaint("](Nu"), HasSubstr("members of a dict for a list"));
  EXPECT_THAT(complaint("}(N\x90"), HasSubstr("members of a set for a dict"));
  EXPECT_THAT(complaint("h" + byte(7)), HasSubstr("memo slot 7 is empty"));
  EXPECT_THAT(complaint("j" + four_bytes(0xffffffff)), HasSubstr("memo slot 4294967295 is empty"));
  EXPECT_THAT(complaint("Nr" + four_bytes(0xffffffff)), HasSubstr("memo slot 4294967295"));
  EXPECT_THAT(complaint_of_all("\x80\x04N."), HasSubstr("no state"));
  EXPECT_THAT(complaint_of_all(pickle({}) + "N"), HasSubstr("1 bytes follow its end"));
  EXPECT_THAT(complaint_of_all("\x80\x06N."), HasSubstr("protocol 3 to 5"));
  EXPECT_THAT(complaint_of_all("\x80\x04N" + pickle({}).substr(2)), HasSubstr("no state"));
}

TEST(PickleReader, BelievesNoLength) {
  EXPECT_THAT(complaint("X" + four_bytes(0xffffffff) + "a"), HasSubstr("ends too early"));
  EXPECT_THAT(complaint("\x8c\xff"
                        "a"),
              HasSubstr("ends too early"));
  EXPECT_THAT(complaint("\x95" + std::string(8, '\xff')),
              HasSubstr("a frame of 18446744073709551615"));
  EXPECT_THAT(complaint("\x8a\x09" + std::string(9, '\1')), HasSubstr("more than 64 bits"));
  EXPECT_THAT(complaint_of_all("\x80\x04" + std::string(kStateBytes, 'N')),
              HasSubstr("the limit is"));
}

TEST(PickleReader, HasLimits) {
  EXPECT_THAT(complaint(std::string(1000, '(')), HasSubstr("more than 32 containers"));
  EXPECT_THAT(complaint(std::string(kPickleValues + 1, 'N')),
              HasSubstr("more than 1048576 values"));
  // One list, named again and again as the member of itself.
  std::string members = "]\x94(";
  for (std::size_t i = 0; i <= kPickleValues; ++i) members += "h" + byte(0);
  EXPECT_THAT(complaint(members + "e"), HasSubstr("more than 1048576 members"));
  std::string deep = "N";
  for (int i = 0; i < 100'000; ++i) deep += "\x85";
  EXPECT_THAT(complaint(deep), HasSubstr("nested too deeply"));
  Attributes many;
  for (std::size_t i = 0; i < kStateAttributes; ++i) many["x" + std::to_string(i)] = none();
  EXPECT_THAT(complaint_of_all(pickle(many)), HasSubstr("more than 64 attributes"));
}

TEST(PickleReader, RefusesAStateThatWouldBeHugeWhenWritten) {
  // One long address, named by many nodes.
  std::string nodes = "\x8f(" + torch_class("_NodeDesc") + "\x94)\x81}(" + text("addr") + "\x94" +
                      text(std::string(kAddressBytes, 'x')) + "\x94" + text("pid") + "\x94" +
                      integer(-1) + text("local_id") + "\x94" + integer(0) + "ub";
  const auto get = [](int slot) { return "h" + byte(slot); };
  for (int i = 0; i < 10'000; ++i)
    nodes +=
        get(0) + ")\x81}(" + get(1) + get(2) + get(3) + integer(i) + get(4) + integer(0) + "ub";
  Attributes attributes;
  attributes["wait_list"] = nodes + "\x90";
  EXPECT_THAT(complaint_of_all(pickle(attributes)), HasSubstr("written again"));
}

TEST(PickleReader, ReadsTheFormsOfProtocol3) {
  std::string bytes =
      "\x80\x03"
      "ctorch.distributed.elastic.rendezvous.dynamic_rendezvous\n"
      "_RendezvousState\nq" +
      byte(0) + ")\x81q" + byte(1) + "}r" + four_bytes(200) + "(";
  Attributes attributes;
  attributes["round"] = "\x8a" + byte(0);  // 0 may also be written without a byte.
  attributes["redundancy_list"] = "cbuiltins\nset\nq" + byte(2) + "]" + node("c") + "a\x85R";
  attributes["wait_list"] = "h" + byte(2) + "](" + node("a") + node("b") + "e\x85R";
  attributes["participants"] = "}" + node("d") + "J" + four_bytes(77) + "s";
  for (const auto& [name, value] : attributes)
    bytes += "X" + four_bytes(static_cast<std::uint32_t>(name.size())) + name + value;
  const auto state = decode_state(bytes + "ub.");
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->round, 0);
  EXPECT_EQ(state->wait_list.size(), 2u);
  EXPECT_TRUE(state->redundancy_list.contains({"c", 1, 0}));
  EXPECT_EQ(state->participants.at({"d", 1, 0}), 77);
}

TEST(PickleReader, NumbersItsMemoAsPythonDoes) {
  // MEMOIZE takes the number of slots in use, gaps not counted.
  Attributes attributes;
  attributes["x"] = integer(1) + "q" + byte(5) + integer(2) + "q" + byte(5) + "\x86" + integer(3) +
                    "\x94" + "h" + byte(1) + "h" + byte(5) + "\x87\x86";
  const auto state = decode_state(pickle(attributes));
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->extra.at("x"),
            integer(1) + integer(2) + "\x86" + integer(3) + integer(3) + integer(2) + "\x87\x86");
}

TEST(PickleReader, ReadsNegativeAndLongNumbers) {
  Attributes attributes;
  attributes["wait_list"] =
      set({node("a", text("pid") + "\x8a" + byte(1) + "\xff"),
           node("b", text("pid") + "\x8a" + byte(3) + unhex("000080")),
           node("c", text("pid") + "\x8a" + byte(8) + unhex("ffffffffffffff7f")),
           node("d", text("pid") + "J" + unhex("00000080"))});
  const auto state = decode_state(pickle(attributes));
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->wait_list,
            (std::set<core::rendezvous::NodeId>{
                {"a", -1, 0}, {"b", -8'388'608, 0}, {"c", INT64_MAX, 0}, {"d", INT32_MIN, 0}}));
}

TEST(PickleReader, RefusesTextThatPythonWouldNotRead) {
  for (const char* bad : {"80", "c0af", "c3", "e0809f", "eda0", "f0808080", "f4908080", "f5808080",
                          "ff", "6162636465666768c3"}) {
    const std::string raw = unhex(bad);
    EXPECT_THAT(complaint("\x8c" + byte(static_cast<int>(raw.size())) + raw), HasSubstr("no UTF-8"))
        << bad;
  }
  for (const char* good :
       {"c3a4", "e282ac", "eda080", "f09f9a80", "f48fbfbf", "61626364656667c3a4"}) {
    const std::string raw = unhex(good);
    EXPECT_EQ(complaint("\x8c" + byte(static_cast<int>(raw.size())) + raw), "accepted") << good;
  }
}

TEST(PickleReader, RefusesEveryPartOfAState) {
  Attributes attributes;
  attributes["participants"] = dict({node("a"), integer(1)});
  attributes["last_heartbeats"] = dict({node("a"), aware(kNoon)});
  const std::string whole = pickle(attributes);
  ASSERT_EQ(complaint_of_all(whole), "accepted");
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_THAT(complaint_of_all(whole.substr(0, cut)), HasSubstr("corrupt")) << cut;
}

}  // namespace
}  // namespace regroup::wire
