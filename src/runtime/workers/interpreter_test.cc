#include "runtime/workers/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace regroup::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A machine on which all of these could be used; tests take away what comes first.
struct Machine {
  std::map<std::string, std::string> environment = {
      {"PYTHON_EXEC", "/opt/exec/python"},
      {"VIRTUAL_ENV", "/venv"},
      {"CONDA_PREFIX", "/conda"},
      {"PATH", "/usr/local/bin:/usr/bin"},
  };
  std::set<std::string> programs = {
      "/opt/flag/python",  "/opt/exec/python",  "/venv/bin/python", "/conda/bin/python",
      "/ours/bin/python3", "/ours/bin/python",  "/usr/bin/python3", "/usr/local/bin/python",
      "/usr/bin/python",   "/usr/bin/pypy3.11",
  };
  std::vector<std::string> own_directories = {"/ours/bin"};
  std::set<std::string> environments = {};  // Directories of programs.
  bool own_first = false;

  Result<Interpreter> find(const std::string& flag = "") const {
    const InterpreterSearch search{
        .variable = [this](const char* name) -> std::optional<std::string> {
          const auto entry = environment.find(name);
          if (entry == environment.end()) return {};
          return entry->second;
        },
        .is_program = [this](const std::string& path) { return programs.count(path) > 0; },
        .own_directories = own_directories,
        .is_environment =
            [this](const std::string& directory) { return environments.count(directory) > 0; },
        .own_first = own_first};
    return find_interpreter(flag, search);
  }
  std::string found() const {
    const auto interpreter = find();
    return interpreter ? interpreter->path + " from " + interpreter->origin : "none";
  }
};

TEST(FindInterpreter, TakesTheFirstThatIsThere) {
  Machine machine;
  const auto flagged = machine.find("/opt/flag/python");
  ASSERT_TRUE(flagged);
  EXPECT_EQ(flagged->path, "/opt/flag/python");
  EXPECT_EQ(flagged->origin, "--python");

  EXPECT_EQ(machine.found(), "/opt/exec/python from PYTHON_EXEC");
  machine.environment.erase("PYTHON_EXEC");
  EXPECT_EQ(machine.found(), "/venv/bin/python from the active virtual environment");
  machine.environment.erase("VIRTUAL_ENV");
  EXPECT_EQ(machine.found(), "/conda/bin/python from the active conda environment");
  machine.environment.erase("CONDA_PREFIX");
  EXPECT_EQ(machine.found(), "/ours/bin/python3 from next to regroup itself");
  machine.programs.erase("/ours/bin/python3");
  EXPECT_EQ(machine.found(), "/ours/bin/python from next to regroup itself");
  machine.own_directories = {};
  EXPECT_EQ(machine.found(), "/usr/bin/python3 from PATH");
  machine.programs.erase("/usr/bin/python3");
  EXPECT_EQ(machine.found(), "/usr/local/bin/python from PATH");
}

// A link in an environment to a binary beside the system's Python, or the other way round.
TEST(FindInterpreter, PrefersAnEnvironmentOfTheTwoPlacesThatAreNextToUs) {
  Machine machine;
  machine.environment = {{"PATH", "/nowhere"}};
  machine.programs = {"/job/bin/python3", "/usr/bin/python3"};
  machine.environments = {"/job/bin"};
  machine.own_directories = {"/job/bin", "/usr/bin"};
  EXPECT_EQ(machine.found(), "/job/bin/python3 from next to regroup itself");
  machine.own_directories = {"/usr/bin", "/job/bin"};
  EXPECT_EQ(machine.found(), "/job/bin/python3 from next to regroup itself");
  machine.environments = {};
  EXPECT_EQ(machine.found(), "/usr/bin/python3 from next to regroup itself");
}

TEST(FindInterpreter, UnderTheNameOfAnEnvironmentsProgramTakesThatEnvironment) {
  Machine machine;
  machine.environment.erase("PYTHON_EXEC");
  machine.own_first = true;
  EXPECT_EQ(machine.found(), "/ours/bin/python3 from next to regroup itself");
  machine.programs.erase("/ours/bin/python3");
  machine.programs.erase("/ours/bin/python");
  EXPECT_EQ(machine.found(), "/venv/bin/python from the active virtual environment");
}

TEST(FindInterpreter, PassesOverAnEnvironmentThatIsGone) {
  Machine machine;
  machine.environment["PYTHON_EXEC"] = "";
  machine.programs.erase("/venv/bin/python");
  machine.environment["CONDA_PREFIX"] = "";
  EXPECT_EQ(machine.found(), "/ours/bin/python3 from next to regroup itself");
}

TEST(FindInterpreter, LooksForANameInPath) {
  const Machine machine;
  const auto interpreter = machine.find("pypy3.11");
  ASSERT_TRUE(interpreter);
  EXPECT_EQ(interpreter->path, "pypy3.11");  // As given: reports show it so.
}

TEST(FindInterpreter, DoesNotReplaceWhatTheUserNamed) {
  Machine machine;
  auto interpreter = machine.find("/opt/typo/python");
  ASSERT_FALSE(interpreter);
  EXPECT_EQ(interpreter.error().kind, ErrorKind::InvalidArgument);
  EXPECT_THAT(interpreter.error().message, HasSubstr("/opt/typo/python"));
  EXPECT_THAT(interpreter.error().message, HasSubstr("given by --python"));

  machine.environment["PYTHON_EXEC"] = "python9";
  interpreter = machine.find();
  ASSERT_FALSE(interpreter);
  EXPECT_THAT(interpreter.error().message, HasSubstr("given by PYTHON_EXEC: there is no such"));
  EXPECT_THAT(interpreter.error().message, HasSubstr("in PATH"));
}

TEST(FindInterpreter, SaysWhereItLooked) {
  Machine machine;
  machine.environment = {{"PATH", ""}};
  machine.programs.clear();
  auto interpreter = machine.find();
  ASSERT_FALSE(interpreter);
  EXPECT_THAT(interpreter.error().message,
              HasSubstr("no python3 or python is in /ours/bin or in PATH. Activate"));
  machine.own_directories = {};
  interpreter = machine.find();
  ASSERT_FALSE(interpreter);
  EXPECT_THAT(interpreter.error().message, HasSubstr("no python3 or python is in PATH. Activate"));
}

TEST(FindInterpreter, UnderstandsPathAsExecDoes) {
  Machine machine;
  machine.environment = {{"PATH", "/nowhere:"}};
  machine.own_directories = {};
  machine.programs = {"./python3"};
  EXPECT_EQ(machine.found(), "./python3 from PATH");
  machine.environment.clear();
  machine.programs = {"/bin/python3"};
  EXPECT_EQ(machine.found(), "/bin/python3 from PATH");
}

TEST(SearchThisMachine, TellsProgramsFromOtherFiles) {
  const InterpreterSearch search = search_this_machine("regroup");
  EXPECT_TRUE(search.is_program("/bin/sh"));
  EXPECT_FALSE(search.is_program("/bin"));
  EXPECT_FALSE(search.is_program("/etc/passwd"));
  EXPECT_FALSE(search.is_program("/no/such/file"));
  EXPECT_EQ(search.variable("REGROUP_TEST_NOT_SET"), std::nullopt);
  ASSERT_FALSE(search.own_directories.empty());
  EXPECT_TRUE(search.own_directories.back().starts_with('/'));

  const InterpreterSearch by_path = search_this_machine("/somewhere/else/../bin/regroup");
  ASSERT_EQ(by_path.own_directories.size(), 2u);
  EXPECT_EQ(by_path.own_directories.front(), "/somewhere/bin");
  const InterpreterSearch by_name = search_this_machine("sh");  // Found in PATH.
  ASSERT_EQ(by_name.own_directories.size(), 2u);
  EXPECT_TRUE(by_name.is_program(by_name.own_directories.front() + "/sh"));
}

TEST(WorkerCommand, DependsOnTheMode) {
  const std::vector<std::string> arguments = {"--lr", "1"};
  EXPECT_THAT(worker_command(ScriptMode::Script, "/p", "train.py", arguments),
              ElementsAre("/p", "-u", "train.py", "--lr", "1"));
  EXPECT_THAT(worker_command(ScriptMode::Module, "/p", "a.b", arguments),
              ElementsAre("/p", "-u", "-m", "a.b", "--lr", "1"));
  EXPECT_THAT(worker_command(ScriptMode::Program, "/p", "./train", arguments),
              ElementsAre("./train", "--lr", "1"));
  EXPECT_THAT(worker_command(ScriptMode::RunPath, "/p", "train.py", arguments),
              ElementsAre("/p", "-u", "-c", HasSubstr("runpy.run_path(sys.argv[0]"), "train.py",
                          "--lr", "1"));
}

TEST(WorkerCommand, HasNoDollarSignsOfItsOwn) {
  for (const std::string& word : worker_command(ScriptMode::RunPath, "/p", "s", {}))
    EXPECT_EQ(word.find('$'), std::string::npos) << word;
}

}  // namespace
}  // namespace regroup::runtime
