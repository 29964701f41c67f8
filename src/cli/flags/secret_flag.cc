#include "cli/flags/secret_flag.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdlib>
#include <utility>

#include "cli/flags/cli.h"
#include "cli/flags/report.h"

namespace regroup::cli {

void add_secret_flag(CLI::App& command, SecretFile& file, const std::string& help) {
  command.add_option("--rdzv-secret-file", file, help + ". Default PET_RDZV_SECRET_FILE, or none")
      ->type_name("FILE");
}

Result<std::optional<runtime::Secret>> read_secret_flag(const SecretFile& file) {
  std::string name = "--rdzv-secret-file";
  std::string path = file.value_or("");
  if (!file) {
    const char* variable = std::getenv("PET_RDZV_SECRET_FILE");
    if (variable == nullptr) return std::nullopt;
    name = "PET_RDZV_SECRET_FILE";
    path = variable;
  }
  auto secret = runtime::Secret::read(path);
  if (!secret) return fail(secret.error().kind, name + ": " + secret.error().message);
  if (!secret->warning().empty()) report(kOk, secret->warning());
  return std::move(*secret);
}

}  // namespace regroup::cli
