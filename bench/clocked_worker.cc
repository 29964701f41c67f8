// A worker that tells when it began: CLOCK_MONOTONIC in its first line, for the benchmark of what
// starts it.
//
//   clocked_worker FOLDER              writes FOLDER/<restart>.<rank>, the nanoseconds, and ends
//   clocked_worker FOLDER wait         writes it, and waits to be stopped
//   clocked_worker FOLDER fail         of the first start: rank 0 ends with 1 once there is a file
//                                      FOLDER/fail, and the others wait; of the next one: all end
//   clocked_worker FOLDER log          writes FOLDER/start.<pid>: BENCH_NODE, the nanoseconds, its
//   pid,
//                                      how many workers there are; and waits to be stopped
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string from_launcher(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "0" : value;
}

std::string nanoseconds(const timespec& time) {
  return std::to_string(static_cast<long long>(time.tv_sec) * 1'000'000'000 + time.tv_nsec);
}

void write_down(const std::string& path, const std::string& text) {
  const std::string unfinished = path + ".unfinished";
  std::FILE* file = std::fopen(unfinished.c_str(), "w");
  if (file == nullptr) std::exit(2);
  std::fprintf(file, "%s\n", text.c_str());
  std::fclose(file);
  if (std::rename(unfinished.c_str(), path.c_str()) != 0) std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  if (argc < 2) return 2;
  const std::string folder = argv[1];
  const std::string restart = from_launcher("TORCHELASTIC_RESTART_COUNT");
  const std::string rank = from_launcher("RANK");
  const std::string what = argc > 2 ? argv[2] : "";
  if (what == "log") {
    const std::string pid = std::to_string(::getpid());
    write_down(folder + "/start." + pid, from_launcher("BENCH_NODE") + " " + nanoseconds(now) +
                                             " " + pid + " " + from_launcher("WORLD_SIZE"));
  } else {
    write_down(folder + "/" + restart + "." + rank, nanoseconds(now));
  }
  if (what.empty() || (what == "fail" && restart != "0")) return 0;
  if (what == "fail" && rank == "0") {
    while (::access((folder + "/fail").c_str(), F_OK) != 0) ::usleep(1000);
    timespec end{};
    ::clock_gettime(CLOCK_MONOTONIC, &end);
    write_down(folder + "/failed", nanoseconds(end));
    return 1;
  }
  for (;;) ::pause();
}
