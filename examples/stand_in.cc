// A training in miniature, for machines without PyTorch: what train.py does, on regroup's own store
// client instead of gloo. It fits a line, every rank on data of its own; after each step the ranks
// add up their gradients in the store that the launcher serves at MASTER_ADDR:MASTER_PORT.
//
//   regroup run --no-python --nproc-per-node 2 --max-restarts 3
//       build/release/examples/stand_in --checkpoint /tmp/line
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "regroup/error_file.h"
#include "regroup/store.h"

namespace {

constexpr std::size_t kWeights = 3;
using Line = std::array<double, kWeights + 1>;  // The weights, and the bias behind them.
constexpr Line kTruth{2.0, -3.0, 0.5, 0.7};     // What it should find.
constexpr double kRate = 0.01;
constexpr int kBatch = 32;

struct Settings {
  std::string checkpoint;  // A file that every node sees.
  int steps = 300;
  int save_every = 10;
  double pause = 0;  // Seconds after every step, to watch it.
};

// Whoever starts the workers sets RANK and the others.
std::string from_launcher(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr)
    throw std::runtime_error(std::string(name) + " is not set: start this with regroup run");
  return value;
}

// What the world refused ends this worker, and record() tells the launcher why.
template <class T>
T must(regroup::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

std::string text_of(const std::vector<double>& numbers) {
  std::ostringstream text;
  text.precision(17);  // All of them, so that every rank reads what was written.
  for (const double number : numbers) text << number << ' ';
  return text.str();
}

class Peers {
 public:
  Peers()
      : rank_(std::stoi(from_launcher("RANK"))),
        world_size_(std::stoi(from_launcher("WORLD_SIZE"))),
        store_(must(regroup::connect_tcp_store(
            {.host = from_launcher("MASTER_ADDR"),
             .port = static_cast<std::uint16_t>(std::stoi(from_launcher("MASTER_PORT")))}))) {}

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  void meet(const char* where) { must(store_->barrier(where, world_size_)); }

  // The mean over all ranks; returns when everybody has given his numbers for this step. A step
  // that is done again gives the same ones, so keys of an earlier attempt do no harm.
  std::vector<double> mean(int step, const std::vector<double>& mine) {
    must(store_->set(key(step, rank_), text_of(mine)));
    regroup::Store::Keys keys;
    keys.reserve(static_cast<std::size_t>(world_size_));
    for (int rank = 0; rank < world_size_; ++rank) keys.push_back(key(step, rank));
    std::vector<double> sum(mine.size());
    for (const std::string& text : must(store_->multi_get(keys))) {
      std::istringstream numbers(text);
      for (double& total : sum) {
        double number = 0;
        numbers >> number;
        total += number;
      }
    }
    // Whoever has given his numbers for this step has read those of the last.
    must(store_->delete_key(key(step - 1, rank_)));
    for (double& total : sum) total /= world_size_;
    return sum;
  }

 private:
  static std::string key(int step, int rank) {
    return "step " + std::to_string(step) + "/rank " + std::to_string(rank);
  }

  int rank_;
  int world_size_;
  std::shared_ptr<regroup::Store> store_;
};

// The gradient on this rank's batch, and its loss behind it. The batch is the same whenever a step
// is done again.
std::vector<double> learn(const Line& line, int step, int rank) {
  std::mt19937_64 random(1'000'003ull * static_cast<unsigned>(step) + static_cast<unsigned>(rank));
  std::normal_distribution<double> normal;
  std::vector<double> result(line.size() + 1);
  for (int i = 0; i < kBatch; ++i) {
    Line x;
    x.fill(1);  // For the bias.
    for (std::size_t k = 0; k < kWeights; ++k) x[k] = normal(random);
    double error = 0;
    for (std::size_t k = 0; k < x.size(); ++k) error += (line[k] - kTruth[k]) * x[k];
    for (std::size_t k = 0; k < x.size(); ++k) result[k] += 2 * error * x[k] / kBatch;
    result.back() += error * error / kBatch;
  }
  return result;
}

// The file is the old checkpoint or the new one, never half of one: a rename is atomic.
void save(const std::string& path, int step, const Line& line) {
  const std::string unfinished = path + "." + std::to_string(::getpid());
  std::ofstream file(unfinished);
  file << step << ' ' << text_of({line.begin(), line.end()}) << '\n';
  file.close();
  if (!file || std::rename(unfinished.c_str(), path.c_str()) != 0)
    throw std::runtime_error("cannot write the checkpoint " + path);
}

// How many steps were done; 0 where there is no checkpoint yet.
int load(const std::string& path, Line& line) {
  std::ifstream file(path);
  if (!file) return 0;
  int step = 0;
  file >> step;
  for (double& number : line) file >> number;
  if (!file) throw std::runtime_error(path + " is no checkpoint");
  return step;
}

int train(const Settings& settings) {
  Peers peers;
  Line line{};
  const int done = load(settings.checkpoint, line);
  // Rank 0 must not save again while another one still reads.
  peers.meet("all have loaded");
  const bool speaks = peers.rank() == 0;
  if (speaks) {
    const char* restart = std::getenv("TORCHELASTIC_RESTART_COUNT");
    std::printf("begins at step %d, %d ranks, restart %s\n", done, peers.world_size(),
                restart == nullptr ? "0" : restart);
    std::fflush(stdout);
  }
  for (int step = done + 1; step <= settings.steps; ++step) {
    const std::vector<double> mean = peers.mean(step, learn(line, step, peers.rank()));
    for (std::size_t k = 0; k < line.size(); ++k) line[k] -= kRate * mean[k];
    if (speaks && (step % settings.save_every == 0 || step == settings.steps)) {
      save(settings.checkpoint, step, line);
      std::printf("step %d loss %.6f\n", step, mean.back());
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(settings.pause));
  }
  peers.meet("all are done");  // The last checkpoint is written before anybody leaves.
  if (speaks) std::printf("done at step %d\n", std::max(done, settings.steps));
  return 0;
}

Settings parse(const std::vector<std::string>& words) {
  Settings settings;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    const std::string& name = words[i];
    const std::string& value = words[i + 1];
    if (name == "--checkpoint") settings.checkpoint = value;
    if (name == "--steps") settings.steps = std::stoi(value);
    if (name == "--save-every") settings.save_every = std::stoi(value);
    if (name == "--pause") settings.pause = std::stod(value);
  }
  if (settings.checkpoint.empty() || settings.save_every < 1)
    throw std::runtime_error(
        "usage: stand_in --checkpoint FILE [--steps N] [--save-every STEPS] [--pause SECONDS]");
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  return regroup::record([&] { return train(parse({argv + 1, argv + argc})); });
}
