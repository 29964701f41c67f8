#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "cli/flags/cli.h"

int main(int argc, char** argv) {
  // If one of the three is closed, the next file that is opened would take its number, and be
  // written to as if it were the console.
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0 && fd <= STDERR_FILENO;)
    fd = ::open("/dev/null", O_RDWR | (fd == STDERR_FILENO ? O_CLOEXEC : 0));
  // A process that ignores SIGCHLD gets no exit status of its children.
  ::signal(SIGCHLD, SIG_DFL);
  return regroup::cli::run(argc, argv);
}
