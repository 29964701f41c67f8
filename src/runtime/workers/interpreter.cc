#include "runtime/workers/interpreter.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace regroup::runtime {
namespace {

constexpr std::string_view kDefaultPath = "/bin:/usr/bin";  // Where exec looks without a PATH.

std::optional<std::string> in_path(const std::string& name, const InterpreterSearch& search) {
  const std::string path = search.variable("PATH").value_or(std::string(kDefaultPath));
  std::string_view rest = path;
  for (;;) {
    const auto colon = rest.find(':');
    const std::string_view directory = rest.substr(0, colon);
    // An empty entry is the working directory, as exec understands it.
    std::string candidate(directory.empty() ? std::string_view(".") : directory);
    candidate.append("/").append(name);
    if (search.is_program(candidate)) return candidate;
    if (colon == std::string_view::npos) return {};
    rest.remove_prefix(colon + 1);
  }
}

Result<Interpreter> as_told(const std::string& program, std::string origin,
                            const InterpreterSearch& search) {
  const bool is_path = program.find('/') != std::string::npos;
  if (is_path ? search.is_program(program) : in_path(program, search).has_value())
    return Interpreter{.path = program, .origin = std::move(origin)};
  std::string message = "cannot run workers with ";
  message.append(printable(program)).append(", given by ").append(origin);
  message.append(is_path ? ": there is no such file that can be executed."
                         : ": there is no such program in PATH.");
  message.append(" Correct it, or leave it out to use the python of the active environment");
  return fail(ErrorKind::InvalidArgument, std::move(message));
}

}  // namespace

InterpreterSearch search_this_machine(const std::string& invoked_as) {
  InterpreterSearch search;
  search.variable = [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    if (value == nullptr) return {};
    return value;
  };
  search.is_program = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
  };
  search.is_environment = [](const std::string& directory) {
    std::error_code ignored;
    const auto above = std::filesystem::path(directory).parent_path();
    return std::filesystem::exists(above / "pyvenv.cfg", ignored) ||
           std::filesystem::exists(above / "conda-meta", ignored);
  };
  std::error_code unknown;
  const bool is_path = invoked_as.find('/') != std::string::npos;
  const auto called = is_path ? invoked_as : in_path(invoked_as, search).value_or("");
  if (!called.empty()) {
    const auto absolute = std::filesystem::absolute(called, unknown).lexically_normal();
    if (!unknown) search.own_directories.push_back(absolute.parent_path().string());
  }
  const auto own = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (const std::string directory = own.parent_path().string();
      !unknown && (search.own_directories.empty() || search.own_directories.front() != directory))
    search.own_directories.push_back(directory);
  return search;
}

namespace {

std::optional<Interpreter> next_to_us(const InterpreterSearch& search) {
  std::vector<std::string> directories = search.own_directories;
  // The binary may be in /usr/bin and the link in an environment, or the other way round: it is the
  // environment that was meant.
  std::stable_partition(directories.begin(), directories.end(), search.is_environment);
  for (const std::string& directory : directories)
    for (const char* name : {"/python3", "/python"})
      if (std::string path = directory + name; search.is_program(path))
        return Interpreter{.path = std::move(path), .origin = "next to regroup itself"};
  return {};
}

}  // namespace

Result<Interpreter> find_interpreter(const std::string& flag, const InterpreterSearch& search) {
  if (!flag.empty()) return as_told(flag, "--python", search);
  const std::string given = search.variable("PYTHON_EXEC").value_or(std::string());
  if (!given.empty()) return as_told(given, "PYTHON_EXEC", search);

  if (search.own_first)
    if (auto found = next_to_us(search)) return *std::move(found);
  const std::pair<const char*, const char*> environments[] = {
      {"VIRTUAL_ENV", "the active virtual environment"},
      {"CONDA_PREFIX", "the active conda environment"},
  };
  for (const auto& [variable, origin] : environments) {
    std::string path = search.variable(variable).value_or(std::string());
    if (path.empty()) continue;
    path += "/bin/python";
    if (search.is_program(path)) return Interpreter{.path = std::move(path), .origin = origin};
  }
  if (auto found = next_to_us(search)) return *std::move(found);
  for (const char* name : {"python3", "python"})
    if (auto path = in_path(name, search))
      return Interpreter{.path = *std::move(path), .origin = "PATH"};

  std::string message = "cannot find a Python for the workers: ";
  message.append(
      "no environment is active (VIRTUAL_ENV, CONDA_PREFIX), and no python3 or python is");
  for (const std::string& directory : search.own_directories)
    message.append(" in ").append(directory).append(" or");
  message.append(" in PATH. Activate an environment, pass --python=FILE, or pass --no-python if");
  message.append(" the script is a program itself");
  return fail(ErrorKind::InvalidArgument, std::move(message));
}

namespace {

// The script has to find itself as argv[0]; -c leaves it at argv[1]. An exception is left in the
// error file, in the form of PyTorch's `record`, which torchrun puts around the script. No dollar
// signs: what starts workers replaces ${rank} and the like in here too.
//
// A worker that is done waits until the others of this node are: so do torchrun's, whose agent
// fetches every result first, and scripts rely on it without knowing (PyTorch aborts in a rank whose
// store went away with rank 0). Each holds a lock on its byte of a file beside the error files, and
// writes into it that it has begun. A lock goes with its process, however that ends, and no child
// inherits it. Where there are no files, or no locks, nobody waits.
constexpr const char* kRunPath = R"(import sys
class Others:
    def __init__(self):
        import fcntl, os
        self.fcntl, self.os, self.file = fcntl, os, None
        try:
            folder, me = os.path.split(os.path.dirname(os.environ.get('TORCHELASTIC_ERROR_FILE', '')))
            self.me, self.count = int(me), int(os.environ['LOCAL_WORLD_SIZE'])
            self.path = os.path.join(folder, '.running')
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.lockf(self.file, fcntl.LOCK_EX, 1, self.me)
            os.pwrite(self.file, b'1', self.me)
        except (OSError, KeyError, ValueError):
            self.file = None
    def forget(self):
        try:
            if self.file is not None: self.os.unlink(self.path)
        except OSError: pass
    def wait(self):
        import time
        if self.file is None: return
        try:
            self.fcntl.lockf(self.file, self.fcntl.LOCK_UN, 1, self.me)
            for rank in range(self.count):
                while self.os.pread(self.file, 1, rank) != b'1': time.sleep(0.01)
                self.fcntl.lockf(self.file, self.fcntl.LOCK_SH, 1, rank)
                self.fcntl.lockf(self.file, self.fcntl.LOCK_UN, 1, rank)
        except OSError: pass
        self.forget()
def leave(error):
    import json, os, time, traceback
    path = os.environ.get('TORCHELASTIC_ERROR_FILE')
    if not path: return
    extra = {'py_callstack': traceback.format_exc(), 'timestamp': str(int(time.time()))}
    try:
        with open(path, 'w') as file:
            json.dump({'message': {'message': f'{type(error).__name__}: {error}', 'extraInfo': extra}}, file)
    except OSError as trouble:
        print(f'cannot write the error file: {trouble}', file=sys.stderr)
def run():
    import faulthandler, runpy
    if sys.stderr: faulthandler.enable()
    sys.argv = sys.argv[1:]
    others = Others()
    try:
        runpy.run_path(sys.argv[0], run_name='__main__')
    except SystemExit as end:
        if end.code: others.forget()
        if end.code: raise
    except Exception as error:
        others.forget()
        leave(error)
        raise
    others.wait()
run())";

}  // namespace

std::vector<std::string> worker_command(ScriptMode mode, const std::string& interpreter,
                                        const std::string& script,
                                        const std::vector<std::string>& arguments) {
  std::vector<std::string> argv;
  if (mode != ScriptMode::Program) {
    argv.push_back(interpreter);
    argv.emplace_back("-u");  // Otherwise the last output of a killed worker is lost in its buffer.
  }
  switch (mode) {
    case ScriptMode::Script:
    case ScriptMode::Program:
      break;
    case ScriptMode::Module:
      argv.emplace_back("-m");
      break;
    case ScriptMode::RunPath:
      argv.emplace_back("-c");
      argv.emplace_back(kRunPath);
      break;
  }
  argv.push_back(script);
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

}  // namespace regroup::runtime
