// Which Python runs the workers, and their command lines.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "regroup/result.h"

namespace regroup::runtime {

struct Interpreter {
  std::string path;
  std::string origin;  // Why this one: "the active virtual environment".
};

// What the choice depends on.
struct InterpreterSearch {
  std::function<std::optional<std::string>(const char* name)> variable;  // Of the environment.
  std::function<bool(const std::string& path)> is_program;               // There, and executable.
  // Where we were called (a link in an environment, say) and where our binary is; each without the
  // links in its path, and none if it is not known.
  std::vector<std::string> own_directories;
  // The programs in the directory belong to a virtual or conda environment.
  std::function<bool(const std::string& directory)> is_environment;
  // We are called by the name of a program that is the environment's own, torchrun: it does not ask
  // which environment is active.
  bool own_first = false;
};
// `invoked_as` is argv[0]: a path, or a name that was found in PATH.
InterpreterSearch search_this_machine(const std::string& invoked_as);

// The first of: `flag` (--python, may be empty), PYTHON_EXEC, the active virtual or conda
// environment, next to us (an environment before other directories, where we were called before
// where the binary is), PATH. The first two were chosen by the user: they are used as given, and it
// is an error if there is no such program. Of the others, those that do not exist are skipped; an
// environment may have been deleted long ago.
Result<Interpreter> find_interpreter(const std::string& flag, const InterpreterSearch& search);

enum class ScriptMode {
  Script,   // A file for Python.
  Module,   // -m: a module for Python.
  Program,  // --no-python: executed as it is.
  RunPath,  // --run-path: a file, a directory or a zip file, run by Python's runpy.
};

// The argv of a worker. `interpreter` is not used for Program.
std::vector<std::string> worker_command(ScriptMode mode, const std::string& interpreter,
                                        const std::string& script,
                                        const std::vector<std::string>& arguments);

}  // namespace regroup::runtime
