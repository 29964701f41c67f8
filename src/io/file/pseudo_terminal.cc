#include "io/file/pseudo_terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <cerrno>
#include <string>

namespace regroup::io {
namespace {

tl::unexpected<Error> failed() {
  return fail(ErrorKind::Io, "cannot make a pseudo-terminal: " + error_in_words(errno));
}

}  // namespace

Result<PseudoTerminal> make_pseudo_terminal(int like) {
  PseudoTerminal made;
  made.master = Descriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  const int master = made.master.get();
  char name[128];
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0 ||
      ::ptsname_r(master, name, sizeof name) != 0)
    return failed();
  made.slave = Descriptor(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!made.slave) return failed();

  termios modes{};
  if (::tcgetattr(made.slave.get(), &modes) != 0) return failed();
  // Our own terminal already turns newlines into line ends; doing it here too would double them.
  modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  modes.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL | ICANON);
  if (::tcsetattr(made.slave.get(), TCSANOW, &modes) != 0) return failed();
  copy_window_size(like, master);
  return made;
}

void copy_window_size(int from, int to) {
  winsize window{};
  if (::ioctl(from, TIOCGWINSZ, &window) == 0) ::ioctl(to, TIOCSWINSZ, &window);
}

int window_columns(int fd) {
  winsize window{};
  return ::ioctl(fd, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

}  // namespace regroup::io
