// How `regroup run` talks: to a person at a terminal, to a person who reads a log later, to a
// program.
#pragma once

#include <string>

#include "cli/show/paint.h"

namespace regroup::cli {

struct View {
  enum class Form {
    Plain,     // Lines, and nothing that moves: a pipe, a file, a CI job.
    Terminal,  // Also shows what goes well, and a live line during a wait.
    Json,      // One object in each line.
  };
  enum class Level {
    Quiet,    // Prints what went wrong.
    Calm,     // Also what the run waits for, and why workers are started again.
    Verbose,  // Also what goes well.
    Debug,    // Also every step of the rendezvous.
  };
  enum class Report { Regroup, Torchrun };

  Form form = Form::Plain;
  Level level = Level::Calm;
  Report report = Report::Regroup;
  Paint paint = {};
};

// What the user asked for; each text is one of its flag's choices.
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

// A terminal without escape sequences (TERM is empty or dumb) is treated like a file. NO_COLOR, if
// it is not empty, turns off colours and nothing else; --color overrides it.
View choose_view(const ViewFlags& flags, const Surroundings& around);

}  // namespace regroup::cli
