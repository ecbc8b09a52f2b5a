#include "base/team.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace cpuaccel {
namespace {

thread_local Team* t_led = nullptr;

std::atomic<bool> g_on{true};
std::atomic<int64_t> g_opened{0};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

// Waits for another thread: spins for a few microseconds, then yields the core.
class Waiting {
 public:
  void once() {
    if (++spins_ < kSpins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }

 private:
  static constexpr int kSpins = 2000;
  int spins_ = 0;
};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Shared calls are numbered. `news_` is twice the number of the current call, plus one after the
// last call. `ranges_[i]` is twice the number of the last call that had a range i, plus one once a
// thread took it. So a thread that is late for a call finds no ranges of it, and can take those of
// the next call. A thread that took a range may read `begin_` and so on, because the leader waits
// for it.
class ThreadTeam final : public Team {
 public:
  int threads() const override { return threads_; }

  void open(int threads) {
    threads_ = threads;
    if (ranges_.size() < static_cast<size_t>(threads)) {
      ranges_ = std::vector<Range>(static_cast<size_t>(threads));
    }
    news_.store(2 * ++number_, std::memory_order_relaxed);
  }

  void lead(const std::function<void()>& body) {
    struct Leading {
      ThreadTeam& team;
      explicit Leading(ThreadTeam& of) : team(of) { t_led = &team; }
      ~Leading() {
        t_led = nullptr;
        team.news_.store(2 * ++team.number_ + 1, std::memory_order_release);
      }
      Leading(const Leading&) = delete;
      Leading& operator=(const Leading&) = delete;
    };
    const Leading leading(*this);
    body();
  }

  // Loop of the thread with number `first_range`, which takes that range first, until the leader
  // has finished.
  void serve(size_t first_range) {
    uint64_t seen = 0;
    for (Waiting waiting;;) {
      const uint64_t news = news_.load(std::memory_order_acquire);
      if (news % 2 == 1) {
        return;
      }
      if (news == seen) {
        waiting.once();
        continue;
      }
      seen = news;
      take_ranges(first_range, news);
      waiting = {};
    }
  }

  void share(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body) override {
    const int64_t most = ceil_div(end - begin, std::max<int64_t>(grain_size, 1));
    length_ = ceil_div(end - begin, std::min<int64_t>(threads_, most));
    begin_ = begin;
    end_ = end;
    body_ = &body;
    const auto count = static_cast<size_t>(ceil_div(end - begin, length_));
    left_.store(count, std::memory_order_relaxed);
    const uint64_t news = 2 * ++number_;
    for (size_t i = 0; i < count; ++i) {
      ranges_[i].state.store(news, std::memory_order_release);
    }
    news_.store(news, std::memory_order_release);
    t_led = nullptr;  // splits inside of a range stay on its thread
    take_ranges(0, news);
    for (Waiting waiting; left_.load(std::memory_order_acquire) > 0;) {
      waiting.once();
    }
    t_led = this;
    if (failed_.exchange(false, std::memory_order_relaxed)) {
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
  }

 private:
  struct alignas(64) Range {
    std::atomic<uint64_t> state{0};
  };

  void take_ranges(size_t first_range, uint64_t news) {
    const auto threads = static_cast<size_t>(threads_);
    for (size_t i = 0; i < threads; ++i) {
      const size_t range = first_range + i < threads ? first_range + i : first_range + i - threads;
      uint64_t free = news;
      if (ranges_[range].state.load(std::memory_order_relaxed) == news &&
          ranges_[range].state.compare_exchange_strong(free, news + 1, std::memory_order_acquire)) {
        run(static_cast<int64_t>(range));
      }
    }
  }

  void run(int64_t range) {
    const int64_t begin = begin_ + range * length_;
    try {
      (*body_)(begin, std::min(begin + length_, end_));
    } catch (...) {
      if (!failed_.exchange(true, std::memory_order_relaxed)) {
        error_ = std::current_exception();
      }
    }
    left_.fetch_sub(1, std::memory_order_acq_rel);
  }

  int threads_ = 0;
  uint64_t number_ = 0;
  std::vector<Range> ranges_;
  int64_t begin_ = 0, end_ = 0, length_ = 1;
  const RangeBody* body_ = nullptr;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  alignas(64) std::atomic<uint64_t> news_{0};
  alignas(64) std::atomic<size_t> left_{0};
};

}  // namespace

Team* Team::led() { return t_led; }

void in_team(const std::function<void()>& body) {
  const int threads = parallel_threads();
  if (threads == 1 || t_led != nullptr || !teams_on()) {
    body();
    return;
  }
  thread_local ThreadTeam team;  // thread_local, so that its memory is reused
  ThreadTeam& mine = team;
  mine.open(threads);
  g_opened.fetch_add(1, std::memory_order_relaxed);
  parallel_ranges(0, threads, 1, [&](int64_t begin, int64_t /*end*/) {
    if (begin == 0) {
      mine.lead(body);
    } else {
      mine.serve(static_cast<size_t>(begin));
    }
  });
}

void set_teams(bool on) { g_on.store(on, std::memory_order_relaxed); }
bool teams_on() { return g_on.load(std::memory_order_relaxed); }
int64_t teams_opened() { return g_opened.load(std::memory_order_relaxed); }

}  // namespace cpuaccel
