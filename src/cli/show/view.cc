#include "cli/show/view.h"

#include <unistd.h>

#include <cstdlib>

namespace regroup::cli {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace

Surroundings look_around() {
  return {.terminal = ::isatty(STDERR_FILENO) == 1,
          .term = variable("TERM"),
          .no_color = variable("NO_COLOR")};
}

View choose_view(const ViewFlags& flags, const Surroundings& around) {
  View view;
  const bool terminal = around.terminal && !around.term.empty() && around.term != "dumb";
  if (terminal) view.form = View::Form::Terminal;
  if (flags.log_format == "json") view.form = View::Form::Json;
  if (flags.verbose) view.level = View::Level::Verbose;
  if (flags.quiet) view.level = View::Level::Quiet;
  if (flags.report == "torchrun") view.report = View::Report::Torchrun;
  view.paint.on =
      view.form != View::Form::Json &&
      (flags.color == "always" || (flags.color == "auto" && terminal && around.no_color.empty()));
  return view;
}

}  // namespace regroup::cli
