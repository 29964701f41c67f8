#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "cli/flags/cli.h"

namespace {

// Python's `regroup.install()` waits for us as its child, in a process group of our own: a signal that
// kills it is meant for us, too. Nobody else sets the variable, and our workers do not see it.
void end_with_parent() {
  const char* text = std::getenv("REGROUP_PARENT");
  if (text == nullptr) return;
  pid_t parent = 0;
  const char* end = text + std::strlen(text);
  const bool is_named = std::from_chars(text, end, parent).ptr == end;
  ::unsetenv("REGROUP_PARENT");
  // A child of someone else has inherited the variable.
  if (!is_named || (::getppid() != parent && ::kill(parent, 0) == 0)) return;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::raise(SIGTERM);  // It was killed a moment ago.
}

}  // namespace

int main(int argc, char** argv) {
  // If one of the three is closed, the next file that is opened would take its number, and be
  // written to as if it were the console.
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0 && fd <= STDERR_FILENO;)
    fd = ::open("/dev/null", O_RDWR | (fd == STDERR_FILENO ? O_CLOEXEC : 0));
  // A process that ignores SIGCHLD gets no exit status of its children.
  ::signal(SIGCHLD, SIG_DFL);
  end_with_parent();
  return regroup::cli::run(argc, argv);
}
