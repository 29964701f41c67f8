#include "io/loop/thread_name.h"

#include <pthread.h>
#include <unistd.h>

#include <cstring>

#include "base/check.h"

namespace regroup::io {

void name_this_thread(const char* name) {
  CHECK(std::strlen(name) <= kLongestThreadName);
  CHECK(::gettid() != ::getpid());
  ::pthread_setname_np(::pthread_self(), name);
}

}  // namespace regroup::io
