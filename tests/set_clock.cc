// A library to preload: the wall clock goes wrong by as many seconds as the file that
// SET_CLOCK_FILE names says, a 64-bit integer, now. The monotonic clock stays as it is. To see what
// happens when somebody sets the clock, without being root or disturbing anybody.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

const volatile std::int64_t* map_shift() {
  static const std::int64_t none = 0;
  const char* path = ::getenv("SET_CLOCK_FILE");
  const int fd = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return &none;
  void* mapped = ::mmap(nullptr, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  return mapped == MAP_FAILED ? &none : static_cast<const std::int64_t*>(mapped);
}

std::int64_t shift() {
  static const volatile std::int64_t* const cell = map_shift();
  return *cell;
}

bool is_wall_clock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* at) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, at);
  if (result == 0 && is_wall_clock(clock)) at->tv_sec += shift();
  return result;
}

extern "C" int gettimeofday(timeval* at, void*) noexcept {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return result;
}

extern "C" time_t time(time_t* at) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != nullptr) *at = now.tv_sec;
  return now.tv_sec;
}
