#include "runtime/common/console_thread.h"

#include <signal.h>

#include <string>
#include <system_error>
#include <utility>

#include "io/loop/thread_name.h"

namespace regroup::runtime {

Result<std::thread> start_quiet_thread(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // Signals of our own mistakes stay unblocked.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, fault);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  Result<std::thread> started;
  try {
    started = std::thread([name, body = std::move(body)] {
      io::name_this_thread(name);
      body();
    });
  } catch (const std::system_error& error) {
    started =
        fail(ErrorKind::Io, std::string("cannot start the thread '") + name + "': " + error.what() +
                                ". Raise the limit on processes (ulimit -u).");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace regroup::runtime
