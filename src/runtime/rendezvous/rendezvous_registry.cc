// The backends by name.
#include <map>
#include <mutex>
#include <utility>

#include "base/nearest.h"
#include "base/text.h"
#include "regroup/rendezvous.h"
#include "runtime/rendezvous/rendezvous_creators.h"
#include "runtime/rendezvous/rendezvous_settings.h"

namespace regroup {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, RendezvousCreator> creators{
      {"c10d", runtime::make_c10d_rendezvous},
      {"static", runtime::make_static_rendezvous},
  };
};

Registry& registry() {
  static Registry the_one;
  return the_one;
}

Result<RendezvousCreator> find_creator(const std::string& name) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto found = known.creators.find(name);
  if (found != known.creators.end()) return found->second;
  std::vector<std::string> names;
  std::string list;
  for (const auto& [each, unused] : known.creators) {
    names.push_back(each);
    list += (list.empty() ? "" : ", ") + each;
  }
  const auto meant = nearest(name, names);
  return fail(ErrorKind::InvalidArgument,
              "no rendezvous backend is called " + printable(name) +
                  (meant ? ". Did you mean " + *meant + "?" : "; there are: " + list));
}

}  // namespace

Result<void> register_rendezvous(std::string name, RendezvousCreator creator) {
  if (name.empty() || creator == nullptr)
    return fail(ErrorKind::InvalidArgument, "a rendezvous backend needs a name and a creator");
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto [entry, is_new] = known.creators.emplace(std::move(name), creator);
  if (is_new || entry->second == creator) return {};
  return fail(ErrorKind::InvalidArgument,
              "the rendezvous backend " + printable(entry->first) + " is registered already");
}

Result<std::unique_ptr<RendezvousHandler>> make_rendezvous(const RendezvousParameters& parameters) {
  const auto creator = find_creator(parameters.backend);
  if (!creator) return tl::unexpected(creator.error());
  // Checked here for every backend, so that none forgets it.
  if (auto settings = runtime::settings_of(parameters); !settings)
    return tl::unexpected(settings.error());
  return (*creator)(parameters);
}

Result<void> runtime::check_backend(const std::string& name) {
  if (auto creator = find_creator(name); !creator) return tl::unexpected(creator.error());
  return {};
}

}  // namespace regroup
