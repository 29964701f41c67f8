#include "cli/cli.h"

int main(int argc, char** argv) { return regroup::cli::run(argc, argv); }
