// Simulates a machine with many cores on one core. Loaded with LD_PRELOAD, it replaces the entry
// points of GNU OpenMP (libgomp) and the clock.
//
// A parallel region runs the share of each thread one after the other, on the thread that opens it.
// The simulated clock advances by the longest share and a barrier, instead of by the sum. Torch,
// oneDNN and cpuaccel open all their regions through libgomp, so their code is the one that runs on
// many cores, and all times that they measure (also those of tuning) are simulated times.
//
// Shares are timed in CPU time of the thread, which other processes disturb less than wall time.
// simulation_call() says how the shares of one thread alone run, with the caches of its core.
#include <dlfcn.h>
#include <execinfo.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

namespace {

constexpr long kNanoseconds = 1000000000;  // of a second
constexpr double kCounted = 2e7;           // much longer than what runs between two regions

// What a region costs on the simulated clock. `measured`: its longest share, and a barrier.
// `longest` and `mean` read each thread's fastest recorded share. `counted`: kCounted,
// so that a time shows how many regions it has.
enum Cost : int { measured, longest, mean, counted };

struct Region {
  int threads = 0;
  std::vector<float> least;      // nanoseconds of each thread's share; infinite if not recorded
  double longest = 0, mean = 0;  // of these
};

struct Simulation {
  bool on = false;
  int cost = measured;
  double barrier = 0;  // nanoseconds
  bool noting = false;
  int only = -1;                // the thread whose shares alone run; -1: all
  std::vector<Region> regions;  // of a call, in order
  size_t next = 0;
  double saved = 0;  // nanoseconds that the simulated clock is behind CPU time, from its start on
  int64_t overhead = 0;  // nanoseconds of two reads of the clock
  long unsupported = 0;
};

// State of the share that runs.
struct Share {
  int depth = 0, thread = 0, threads = 1;
  std::vector<float> taken;
  int64_t began = 0;
  // The loop that GOMP_loop_*_start began.
  long start = 0, increment = 1, trips = 0, chunk = 0, trip = 0;
};

thread_local Simulation t_simulation;
thread_local Share t_share;
thread_local std::vector<Share> t_outer;  // shares inside of which a region was opened

using ClockGettime = int (*)(clockid_t, timespec*);

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int64_t now_of(clockid_t clock) {
  static const auto get = real<ClockGettime>("clock_gettime");
  timespec time{};
  get(clock, &time);
  return time.tv_sec * kNanoseconds + time.tv_nsec;
}

int64_t cpu_time() { return now_of(CLOCK_THREAD_CPUTIME_ID); }

void summarize(Region& region) {
  region.longest = *std::max_element(region.least.begin(), region.least.end());
  region.mean = std::accumulate(region.least.begin(), region.least.end(), 0.0) / region.threads;
}

double cost_of(const Share& share) {
  auto& s = t_simulation;
  const size_t number = s.next++;
  if (s.noting) {
    if (number >= s.regions.size()) {
      s.regions.resize(number + 1);
    }
    auto& region = s.regions[number];
    if (region.threads != share.threads) {
      region.threads = share.threads;
      region.least.assign(share.taken.size(), std::numeric_limits<float>::infinity());
    }
    for (size_t i = 0; i < share.taken.size(); ++i) {
      if (s.only < 0 || static_cast<size_t>(s.only) == i) {
        region.least[i] = std::min(region.least[i], share.taken[i]);
      }
    }
  }
  if (s.cost == counted) {
    return kCounted;
  }
  if (s.cost == measured || number >= s.regions.size() ||
      s.regions[number].threads != share.threads) {
    return *std::max_element(share.taken.begin(), share.taken.end()) + s.barrier;
  }
  return s.cost == mean ? s.regions[number].mean : s.regions[number].longest;
}

void begin_share(int thread) {
  t_share.thread = thread;
  t_share.began = cpu_time();
}

void end_share() {
  const auto taken = cpu_time() - t_share.began - t_simulation.overhead / 2;
  t_share.taken[static_cast<size_t>(t_share.thread)] =
      static_cast<float>(std::max<int64_t>(taken, 0));
}

int64_t g_region_began;

void open_region(int threads) {
  t_share.depth = 1;
  t_share.threads = threads;
  t_share.taken.assign(static_cast<size_t>(threads), 0);
  g_region_began = cpu_time();
}

void close_region() {
  const double cost = cost_of(t_share);
  t_share.depth = 0;
  t_share.thread = 0;
  t_share.threads = 1;
  // Last, so that the time of the simulation itself is not counted.
  t_simulation.saved += static_cast<double>(cpu_time() - g_region_began) - cost;
}

bool runs(int thread) { return t_simulation.only < 0 || t_simulation.only == thread; }

// A region inside of a share has one thread, as is the default of OpenMP.
void open_nested() {
  t_outer.push_back(t_share);
  Share share;
  share.depth = t_share.depth + 1;
  t_share = share;
}

void close_nested() {
  t_share = t_outer.back();
  t_outer.pop_back();
}

int threads_of(unsigned wanted) {
  static const auto most = real<int (*)()>("omp_get_max_threads");
  return wanted != 0 ? static_cast<int>(wanted) : most();
}

// Whether a region of this thread is simulated. Regions inside of shares have one thread.
bool simulates() { return t_simulation.on || t_share.depth > 0; }

// The first or next trips of the loop that are the thread's: in one run if chunk is 0, else every
// chunk whose number is the thread's modulo the number of threads.
bool next_trips(long* first, long* end) {
  auto& s = t_share;
  long from = 0, to = 0;
  if (s.chunk == 0) {
    if (s.trip++ > 0) {
      return false;
    }
    const long each = s.trips / s.threads, more = s.trips % s.threads;
    from = each * s.thread + std::min<long>(s.thread, more);
    to = from + each + (s.thread < more ? 1 : 0);
  } else {
    from = (s.trip++ * s.threads + s.thread) * s.chunk;
    to = std::min(from + s.chunk, s.trips);
  }
  if (from >= to) {
    return false;
  }
  *first = s.start + from * s.increment;
  *end = s.start + to * s.increment;
  return true;
}

bool start_loop(long start, long end, long increment, long chunk, long* first, long* last) {
  auto& s = t_share;
  s.start = start;
  s.increment = increment;
  s.trips = std::max(0L, (end - start + increment + (increment > 0 ? -1 : 1)) / increment);
  s.chunk = chunk;
  s.trip = 0;
  return next_trips(first, last);
}

}  // namespace

extern "C" {

void simulation_start(double barrier) {
  auto& s = t_simulation;
  const int64_t began = cpu_time();
  for (int i = 0; i < 100; ++i) {
    cpu_time();
  }
  s.overhead = 2 * (cpu_time() - began) / 101;
  s.barrier = barrier;
  s.saved = static_cast<double>(cpu_time() - now_of(CLOCK_MONOTONIC));
  s.on = true;
}

void simulation_stop() { t_simulation.on = false; }

// Called before each call of a model whose regions are recorded, or charged from records. If `only`
// is a thread, its shares alone run: the core's caches then hold what that thread's core holds, and
// results are those of earlier calls.
void simulation_call(int noting, int cost, int only) {
  auto& s = t_simulation;
  s.next = 0;
  s.noting = noting != 0;
  s.cost = cost;
  s.only = only;
  if (cost != measured) {
    std::for_each(s.regions.begin(), s.regions.end(), summarize);
  }
}

void simulation_forget() { t_simulation.regions.clear(); }

// Regions of the last call.
long simulation_regions() { return static_cast<long>(t_simulation.next); }

// Nanoseconds in which a cache line moves from one core to another, the least of several attempts.
double simulation_line_nanoseconds() {
  constexpr int kAttempts = 200, kTrips = 200;
  std::atomic<int> turn{0};
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done.load(std::memory_order_relaxed)) {
      if (turn.load(std::memory_order_acquire) == 1) {
        turn.store(0, std::memory_order_release);
      }
    }
  });
  int64_t least = kNanoseconds;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int64_t began = now_of(CLOCK_MONOTONIC);
    for (int trip = 0; trip < kTrips; ++trip) {
      turn.store(1, std::memory_order_release);
      while (turn.load(std::memory_order_acquire) == 1) {
      }
    }
    least = std::min(least, now_of(CLOCK_MONOTONIC) - began);
  }
  done.store(true);
  other.join();
  return static_cast<double>(least) / (2.0 * kTrips);
}

// Calls of OpenMP that shares cannot keep when they run one after the other, such as barriers.
long simulation_unsupported() { return t_simulation.unsupported; }

int clock_gettime(clockid_t clock, timespec* time) {
  static const auto get = real<ClockGettime>("clock_gettime");
  if (!t_simulation.on || (clock != CLOCK_MONOTONIC && clock != CLOCK_THREAD_CPUTIME_ID)) {
    return get(clock, time);
  }
  // Time passes as the thread computes. Reading the clock takes none.
  const int64_t cpu = cpu_time();
  const auto nanoseconds = static_cast<int64_t>(static_cast<double>(cpu) - t_simulation.saved);
  time->tv_sec = nanoseconds / kNanoseconds;
  time->tv_nsec = nanoseconds % kNanoseconds;
  t_simulation.saved += static_cast<double>(cpu_time() - cpu + t_simulation.overhead / 2);
  return 0;
}

void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
  if (!simulates()) {
    static const auto run =
        real<void (*)(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
    run(body, data, threads, flags);
    return;
  }
  if (t_share.depth > 0) {
    open_nested();
    body(data);
    close_nested();
    return;
  }
  const int count = threads_of(threads);
  open_region(count);
  for (int thread = 0; thread < count; ++thread) {
    if (runs(thread)) {
      begin_share(thread);
      body(data);
      end_share();
    }
  }
  close_region();
}

// The caller runs a share, that of thread 0 or of the only thread, between start and end.
void GOMP_parallel_start(void (*body)(void*), void* data, unsigned threads) {
  if (!simulates()) {
    static const auto run = real<void (*)(void (*)(void*), void*, unsigned)>("GOMP_parallel_start");
    run(body, data, threads);
    return;
  }
  if (t_share.depth > 0) {
    open_nested();
    return;
  }
  const int count = threads_of(threads);
  open_region(count);
  for (int thread = 1; thread < count && t_simulation.only < 0; ++thread) {
    begin_share(thread);
    body(data);
    end_share();
  }
  begin_share(std::clamp(t_simulation.only, 0, count - 1));
}

void GOMP_parallel_end() {
  if (!simulates()) {
    static const auto run = real<void (*)()>("GOMP_parallel_end");
    run();
    return;
  }
  if (t_share.depth > 1) {
    close_nested();
    return;
  }
  end_share();
  close_region();
}

int omp_get_thread_num() {
  static const auto get = real<int (*)()>("omp_get_thread_num");
  return t_share.depth > 0 ? t_share.thread : get();
}

int omp_get_num_threads() {
  static const auto get = real<int (*)()>("omp_get_num_threads");
  return t_share.depth > 0 ? t_share.threads : get();
}

int omp_in_parallel() {
  static const auto get = real<int (*)()>("omp_in_parallel");
  return t_share.depth > 1 || (t_share.depth == 1 && t_share.threads > 1) || get();
}

bool GOMP_loop_static_start(long start, long end, long increment, long chunk, long* first,
                            long* last) {
  if (t_share.depth == 0) {
    static const auto run =
        real<bool (*)(long, long, long, long, long*, long*)>("GOMP_loop_static_start");
    return run(start, end, increment, chunk, first, last);
  }
  return start_loop(start, end, increment, chunk, first, last);
}

bool GOMP_loop_static_next(long* first, long* last) {
  if (t_share.depth == 0) {
    static const auto run = real<bool (*)(long*, long*)>("GOMP_loop_static_next");
    return run(first, last);
  }
  return next_trips(first, last);
}

// Chunks go to threads in turn, as when all of them take as long.
bool GOMP_loop_dynamic_start(long start, long end, long increment, long chunk, long* first,
                             long* last) {
  if (t_share.depth == 0) {
    static const auto run =
        real<bool (*)(long, long, long, long, long*, long*)>("GOMP_loop_dynamic_start");
    return run(start, end, increment, chunk, first, last);
  }
  return start_loop(start, end, increment, std::max(chunk, 1L), first, last);
}

bool GOMP_loop_dynamic_next(long* first, long* last) {
  if (t_share.depth == 0) {
    static const auto run = real<bool (*)(long*, long*)>("GOMP_loop_dynamic_next");
    return run(first, last);
  }
  return next_trips(first, last);
}

void GOMP_loop_end_nowait() {
  if (t_share.depth == 0) {
    static const auto run = real<void (*)()>("GOMP_loop_end_nowait");
    run();
  }
}

// The end of a loop is a barrier, which shares that run one after the other cannot keep. Results
// may be wrong then, so it is counted.
void GOMP_loop_end() {
  if (t_share.depth == 0) {
    static const auto run = real<void (*)()>("GOMP_loop_end");
    run();
    return;
  }
  ++t_simulation.unsupported;
}

void GOMP_barrier() {
  if (t_share.depth == 0) {
    static const auto run = real<void (*)()>("GOMP_barrier");
    run();
    return;
  }
  t_simulation.unsupported += t_share.threads > 1 ? 1 : 0;
}

// A share that yields its core waits for another share, which cannot run before it ends.
int sched_yield() {
  if (t_share.depth == 1 && t_share.threads > 1) {
    std::fputs("simulated_openmp: the threads of a region wait for each other:\n", stderr);
    std::array<void*, 12> frames{};
    backtrace_symbols_fd(frames.data(), backtrace(frames.data(), 12), STDERR_FILENO);
    std::abort();
  }
  static const auto run = real<int (*)()>("sched_yield");
  return run();
}

// MKL's threads wait for each other inside of a region, so its products get one thread.
int MKL_Set_Num_Threads_Local(int threads) {
  static const auto set = [] {
    void* library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
    return library == nullptr
               ? nullptr
               : reinterpret_cast<int (*)(int)>(dlsym(library, "MKL_Set_Num_Threads_Local"));
  }();
  return set == nullptr ? 0 : set(t_simulation.on ? 1 : threads);
}

bool GOMP_single_start() {
  if (t_share.depth == 0) {
    static const auto run = real<bool (*)()>("GOMP_single_start");
    return run();
  }
  t_simulation.unsupported += t_share.threads > 1 ? 1 : 0;
  return t_share.thread == 0;
}

}  // extern "C"
