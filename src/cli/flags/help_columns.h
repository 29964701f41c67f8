// Help pages that fit a window.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace regroup::cli {

// Breaks lines that are longer, between words. What follows a break is indented as the text that it
// continues: a description, below the beginning of the description. A word that is too long by
// itself stays whole.
std::string in_columns(std::string_view text, std::size_t columns);

// The columns of standard output if it is a terminal, 100 at the most and elsewhere.
std::size_t help_columns();

// A word of a command line as a shell would take it: in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace regroup::cli
