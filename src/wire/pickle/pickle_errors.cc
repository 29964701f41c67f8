#include "wire/pickle/pickle_errors.h"

#include <string>

namespace regroup::wire {

tl::unexpected<Error> corrupt_state(std::string_view what) {
  return fail(ErrorKind::Protocol, "the rendezvous state is corrupt: " + std::string(what));
}

tl::unexpected<Error> outdated_state(std::string_view what) {
  return fail(ErrorKind::Unsupported,
              "the rendezvous state was written by a PyTorch that is too old: " +
                  std::string(what) + ". Every node needs PyTorch 2.4 or newer.");
}

}  // namespace regroup::wire
