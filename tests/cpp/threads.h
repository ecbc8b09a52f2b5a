// parallel_for on threads of the test's own, for results that must not depend on their number.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "base/parallel.h"

namespace cpuaccel {

// While an object exists, parallel_for splits each range into `count` pieces, on as many threads.
class Threads {
 public:
  explicit Threads(int count) {
    number() = count;
    set_parallel_for(run, [] { return number(); });
  }
  ~Threads() {
    number() = 1;
    set_parallel_for(run, [] { return 1; });
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  static int& number() {
    static int count = 1;
    return count;
  }
  static void run(int64_t begin, int64_t end, int64_t /*grain*/, const RangeBody& body) {
    const int count = number();
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      const int64_t from = begin + (end - begin) * i / count;
      const int64_t to = begin + (end - begin) * (i + 1) / count;
      if (from < to) {
        threads.emplace_back([&body, from, to] { body(from, to); });
      }
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }
};

}  // namespace cpuaccel
