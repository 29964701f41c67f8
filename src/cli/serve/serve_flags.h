// The flags of commands that serve a port until they are told to stop: `store`, `coordinator`.
#pragma once

#include <memory>
#include <string>

#include "cli/flags/cli.h"
#include "cli/flags/secret_flag.h"
#include "regroup/result.h"
#include "runtime/store/store_service.h"

namespace regroup::cli {

struct ServeFlags {
  runtime::StoreServiceOptions options = {};
  std::int64_t linger_us = 0;
  SecretFile secret_file = {};  // Of a coordinator.
};

// `what` is served, as the help calls it. The defaults are those of `flags.options`.
void add_serve_flags(CLI::App& command, const std::string& what, ServeFlags& flags);

// Serves until it is told to stop, and gives the exit code.
int serve(const ServeFlags& flags);

}  // namespace regroup::cli
