// How `regroup run` speaks: to a person at a terminal, to whoever reads a log later, to a program.
#pragma once

#include <string>

#include "cli/show/paint.h"

namespace regroup::cli {

struct View {
  enum class Form {
    Plain,     // Lines, and nothing that moves: a pipe, a file, a CI job.
    Terminal,  // Also what goes well, and a live line while something is waited for.
    Json,      // One object in each line.
  };
  enum class Level {
    Quiet,    // What went wrong.
    Calm,     // And what is waited for, and why workers are started again.
    Verbose,  // And what goes well.
  };
  enum class Report { Regroup, Torchrun };

  Form form = Form::Plain;
  Level level = Level::Calm;
  Report report = Report::Regroup;
  Paint paint = {};
};

// What was asked for; each text is one of its flag's choices.
struct ViewFlags {
  std::string color = "auto";
  std::string log_format = "text";
  std::string report = "regroup";
  bool quiet = false;
  bool verbose = false;
};

// Where standard error leads.
struct Surroundings {
  bool terminal = false;
  std::string term = {};      // TERM
  std::string no_color = {};  // NO_COLOR
};
Surroundings look_around();

// A terminal that knows no commands (TERM is empty or dumb) is written to as a file is. NO_COLOR,
// if it is not empty, takes the colours and nothing else; --color overrides it.
View choose_view(const ViewFlags& flags, const Surroundings& around);

}  // namespace regroup::cli
