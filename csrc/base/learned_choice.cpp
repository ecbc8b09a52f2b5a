#include "base/learned_choice.h"

#include <algorithm>
#include <bit>
#include <ctime>
#include <limits>
#include <memory>
#include <mutex>

#include "base/fork.h"
#include "base/log.h"

namespace cpuaccel {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kLeastCalls = 2;  // the first calls map memory and create primitives
constexpr int kRounds = 3, kMostRounds = 6;
// A candidate this much slower than the suggested one is not tried again: the first probe may also
// create a primitive or pack weights.
constexpr double kHopelessAtFirst = 4.0, kHopeless = 1.3;
// The chosen one has to beat the suggested one by more than noise; nearer ones are tried again.
constexpr double kClearly = 0.97, kNear = 0.85;
constexpr double kUnknown = 2.0;  // expected time of a first probe, in times of a call
constexpr double kEnoughOfBound = 0.93;
constexpr double kDefaultShare = 0.01;

double cpu_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Slots are set once and never emptied, so readers take no lock.
constexpr size_t kSlots = 4096, kMostChoices = kSlots / 2;

struct Slot {
  std::atomic<bool> is_set{false};
  LearnedProblem problem;
  std::unique_ptr<LearnedChoice> choice;
};

struct Table {
  std::array<Slot, kSlots> slots;
  size_t choices = 0;
};

struct Learner {
  std::mutex& mutex = fork_safe_mutex(ForkLevel::leaf, this);
  std::atomic<bool> on{true};
  std::atomic<Table*> table{nullptr};
  // Replaced tables stay, because calls may hold their choices: tests alone replace them.
  std::vector<std::unique_ptr<Table>> tables;
  std::map<std::string, int> results;
  double share = kDefaultShare;
  double cpu_begin = -1;  // CPU time at the first probe that was wanted
  double spent = 0;       // CPU time of probes
  int64_t probes = 0;
};

// Never destroyed: ops run while the process exits.
Learner& learner() {
  static auto& instance = *std::make_unique<Learner>().release();
  return instance;
}

size_t hash_of(const LearnedProblem& p) {
  uint64_t hash = static_cast<uint64_t>(p.op) | static_cast<uint64_t>(p.type) << 8 |
                  static_cast<uint64_t>(p.flags) << 16 | static_cast<uint64_t>(p.isa) << 24 |
                  static_cast<uint64_t>(p.threads) << 32;
  constexpr uint64_t kPrime = 0x9e3779b97f4a7c15;
  hash *= kPrime;
  for (const uint8_t size : p.sizes) {
    hash = (std::rotl(hash, 5) ^ size) * kPrime;
  }
  return static_cast<size_t>(hash >> 40) % kSlots;
}

LearnedChoice* find(Table& table, const LearnedProblem& problem, Slot** empty) {
  for (size_t i = hash_of(problem);; i = (i + 1) % kSlots) {
    Slot& slot = table.slots[i];
    if (!slot.is_set.load(std::memory_order_acquire)) {
      *empty = &slot;
      return nullptr;
    }
    if (slot.problem == problem) {
      return slot.choice.get();
    }
  }
}

void log_if_any(const std::string& text) {
  if (!text.empty() && log_enabled()) {
    log_decision(text);
  }
}

const char* name_of(LearnedOp op) {
  constexpr std::array kNames{"product", "convolution", "attention"};
  return kNames[static_cast<size_t>(op)];
}

}  // namespace

uint8_t size_step(int64_t size) {
  if (size <= 4) {
    return static_cast<uint8_t>(std::max<int64_t>(size, 0));
  }
  const int octave = 63 - std::countl_zero(static_cast<uint64_t>(size));
  const bool upper_half = size >= (int64_t{3} << (octave - 1));
  return static_cast<uint8_t>(2 * octave + (upper_half ? 1 : 0));
}

std::string LearnedProblem::key() const {
  std::string text = std::string("learned ") + name_of(op);
  for (const int part : {static_cast<int>(type), static_cast<int>(flags)}) {
    text += " " + std::to_string(part);
  }
  for (const uint8_t size : sizes) {
    text += size != 0 ? " " + std::to_string(size) : "";
  }
  return text + " t" + std::to_string(threads) + " i" + std::to_string(isa);
}

LearnedChoice::LearnedChoice(const LearnedProblem& problem, std::span<const int8_t> candidates,
                             std::optional<int> chosen)
    : problem_(problem) {
  for (const int8_t candidate : candidates) {
    timings_.push_back({.candidate = candidate, .seconds = kNever});
  }
  if (chosen && timing_of(*chosen) != nullptr) {
    chosen_.store(*chosen, std::memory_order_relaxed);
  }
}

LearnedChoice::Timing* LearnedChoice::timing_of(int candidate) {
  const auto found = std::ranges::find(timings_, candidate, &Timing::candidate);
  return found != timings_.end() ? &*found : nullptr;
}

std::optional<LearnedChoice::Probe> LearnedChoice::next_probe() {
  auto& state = learner();
  const std::scoped_lock lock(state.mutex);
  if (chosen() >= 0 || calls_ < kLeastCalls || call_seconds_ < 0) {
    return std::nullopt;
  }
  const auto now = Clock::now();
  if (now < next_probe_) {
    return std::nullopt;
  }
  const Timing* next = nullptr;
  for (size_t i = 1; i < timings_.size(); ++i) {
    if (!timings_[i].dropped && (next == nullptr || timings_[i].rounds < next->rounds)) {
      next = &timings_[i];
    }
  }
  if (next == nullptr) {
    return std::nullopt;
  }
  const double cpu_now = cpu_seconds();
  if (state.cpu_begin < 0 || cpu_now < state.cpu_begin) {  // a forked child's clock begins at 0
    state.cpu_begin = cpu_now;
    state.spent = 0;
  }
  const double seconds = next->rounds == 0 ? kUnknown * call_seconds_ : next->seconds * call_work_;
  const double cost = seconds * problem_.threads;
  const double allowed = state.share * (cpu_now - state.cpu_begin) - state.spent;
  if (cost > allowed) {
    // This thread alone earns the rest in this time; others may earn, too.
    constexpr double kLongest = 1.0;
    const double wait = (cost - allowed) / (state.share * problem_.threads);
    next_probe_ = now + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::min(wait, kLongest)));
    return std::nullopt;
  }
  state.spent += cost;
  const Probe probe{next->candidate, call_seconds_ / call_work_, cost};
  call_seconds_ = -1;  // the next probe is compared with another call
  return probe;
}

void LearnedChoice::add_probe(const Probe& probe, double seconds, double work) {
  auto& state = learner();
  std::string text;
  {
    const std::scoped_lock lock(state.mutex);
    state.spent += seconds * problem_.threads - probe.cost;
    state.probes += 1;
    Timing& suggested = timings_.front();
    suggested.rounds += 1;
    suggested.seconds = std::min(suggested.seconds, probe.call_seconds);
    Timing& timing = *timing_of(probe.candidate);
    timing.rounds += 1;
    timing.seconds = std::min(timing.seconds, seconds / work);
    const double hopeless = timing.rounds == 1 ? kHopelessAtFirst : kHopeless;
    timing.dropped = timing.seconds > hopeless * suggested.seconds;
    text = choose_if_ready();
  }
  log_if_any(text);
}

void LearnedChoice::drop(const Probe& probe) {
  std::string text;
  {
    const std::scoped_lock lock(learner().mutex);
    timing_of(probe.candidate)->dropped = true;
    text = choose_if_ready();
  }
  log_if_any(text);
}

void LearnedChoice::add_call(double seconds, double work, double least_seconds) {
  std::string text;
  {
    const std::scoped_lock lock(learner().mutex);
    call_seconds_ = seconds;
    call_work_ = work;
    if (++calls_ >= kLeastCalls && seconds * kEnoughOfBound <= least_seconds) {
      text = choose(timings_.front().candidate);
    }
  }
  log_if_any(text);
}

std::string LearnedChoice::choose_if_ready() {
  const Timing& suggested = timings_.front();
  const Timing* best = &suggested;
  for (size_t i = 1; i < timings_.size(); ++i) {
    const Timing& timing = timings_[i];
    if (timing.dropped) {
      continue;
    }
    const double ratio = timing.seconds / suggested.seconds;
    const bool is_near = ratio > kNear && ratio < 1.0 / kNear;
    if (timing.rounds < (is_near ? kMostRounds : kRounds)) {
      return {};
    }
    if (ratio < kClearly && timing.seconds < best->seconds) {
      best = &timing;
    }
  }
  return choose(best->candidate);
}

std::string LearnedChoice::choose(int candidate) {
  if (chosen() >= 0) {
    return {};
  }
  const std::string key = problem_.key();
  learner().results.emplace(key, candidate);
  chosen_.store(candidate, std::memory_order_relaxed);
  std::string text = key + ": ";
  for (const Timing& timing : timings_) {
    text += std::to_string(timing.candidate) +
            (timing.rounds > 0
                 ? " takes " + std::to_string(timing.seconds * 1e12) + " ps for a multiply-add, "
                 : std::string(" was not tried, "));
  }
  return text + "chosen: " + std::to_string(candidate);
}

LearnedChoice* learned_choice(const LearnedProblem& problem, std::span<const int8_t> candidates) {
  auto& state = learner();
  if (!state.on.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  Slot* empty = nullptr;
  Table* table = state.table.load(std::memory_order_acquire);
  if (table != nullptr) {
    if (LearnedChoice* const found = find(*table, problem, &empty)) {
      return found;
    }
  }
  const std::scoped_lock lock(state.mutex);
  table = state.table.load(std::memory_order_acquire);
  if (table == nullptr) {
    table = state.tables.emplace_back(std::make_unique<Table>()).get();
    state.table.store(table, std::memory_order_release);
  }
  if (LearnedChoice* const found = find(*table, problem, &empty)) {
    return found;
  }
  if (table->choices == kMostChoices) {
    return nullptr;
  }
  const auto known = state.results.find(problem.key());
  const auto chosen =
      known != state.results.end() ? std::optional<int>(known->second) : std::nullopt;
  table->choices += 1;
  empty->problem = problem;
  empty->choice = std::make_unique<LearnedChoice>(problem, candidates, chosen);
  empty->is_set.store(true, std::memory_order_release);
  return empty->choice.get();
}

void set_learning(bool on) { learner().on.store(on, std::memory_order_relaxed); }
bool learning() { return learner().on.load(std::memory_order_relaxed); }

void set_learning_share(double share) {
  auto& state = learner();
  const std::scoped_lock lock(state.mutex);
  state.share = share;
}

LearningStats learning_stats() {
  auto& state = learner();
  const std::scoped_lock lock(state.mutex);
  LearningStats stats{.probes = state.probes, .probe_seconds = state.spent};
  if (const Table* const table = state.table.load(std::memory_order_acquire)) {
    for (const Slot& slot : table->slots) {
      if (slot.is_set.load(std::memory_order_acquire)) {
        (slot.choice->chosen() >= 0 ? stats.chosen : stats.open) += 1;
      }
    }
  }
  return stats;
}

std::map<std::string, int> learned_results() {
  auto& state = learner();
  const std::scoped_lock lock(state.mutex);
  return state.results;
}

void set_learned_results(std::map<std::string, int> results) {
  auto& state = learner();
  const std::scoped_lock lock(state.mutex);
  state.results = std::move(results);
}

void clear_learned_choices() {
  auto& state = learner();
  const std::scoped_lock lock(state.mutex);
  state.results.clear();
  state.table.store(nullptr, std::memory_order_release);
  state.cpu_begin = -1;
  state.spent = 0;
  state.probes = 0;
}

}  // namespace cpuaccel
