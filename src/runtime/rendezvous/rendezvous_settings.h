// What --rdzv-conf says, made into settings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/rendezvous/settings.h"
#include "regroup/rendezvous.h"

namespace regroup::runtime {

// Checked: bad values are InvalidArgument, with their key.
Result<core::rendezvous::Settings> settings_of(const RendezvousParameters& parameters);
RendezvousSettings public_settings(const core::rendezvous::Settings& settings);

// What --segment asks for can be had: groups have a key, and the numbers of nodes are whole ones.
Result<void> check_groups(const RendezvousParameters& parameters, std::int64_t segment);

// Where nodes meet if the endpoint names no port.
inline constexpr std::uint16_t kRendezvousPort = 29400;

enum class StoreType { Tcp, File };

// Of the c10d backend: the option store_type.
Result<StoreType> store_type_of(const RendezvousParameters& parameters);

// A key that its backend does not know is most likely misspelt. torchrun accepts it silently, so it
// is no error, but a warning that names the nearest known key.
void warn_of_unknown_keys(const RendezvousParameters& parameters,
                          const std::vector<std::string>& known);

// The keys that settings_of() reads.
const std::vector<std::string>& settings_keys();

}  // namespace regroup::runtime
