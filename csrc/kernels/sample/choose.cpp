#include "kernels/sample/choose.h"

#include <algorithm>

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kFew = 64;  // picks for which a search is faster than marks

// Floyd's algorithm (Bentley, Floyd, CACM 1987). `take` returns whether a number is new, and marks
// it.
template <typename Take>
void floyd(RandomStream& random, int64_t degree, int64_t count, int64_t* picks, const Take& take) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t last = degree - count + i;
    const int64_t number = random.below(last + 1);
    if (take(number, i)) {
      picks[i] = number;
    } else {
      take(last, i);
      picks[i] = last;
    }
  }
}

}  // namespace

void choose_some(RandomStream random, int64_t degree, int64_t count, int64_t* picks,
                 std::vector<uint64_t>& taken) {
  if (count == degree) {
    for (int64_t i = 0; i < count; ++i) {
      picks[i] = i;
    }
    return;
  }
  // Marking costs as much as clearing all marks does, so few picks are searched instead.
  if (count <= kFew || count <= degree / 32 / count) {
    floyd(random, degree, count, picks, [picks](int64_t number, int64_t before) {
      return std::find(picks, picks + before, number) == picks + before;
    });
    return;
  }
  taken.assign(static_cast<size_t>(degree / 64 + 1), 0);
  floyd(random, degree, count, picks, [&taken](int64_t number, int64_t /*before*/) {
    uint64_t& word = taken[static_cast<size_t>(number / 64)];
    const uint64_t mark = uint64_t{1} << (number % 64);
    const bool is_new = (word & mark) == 0;
    word |= mark;
    return is_new;
  });
}

void choose_any(RandomStream random, int64_t degree, int64_t count, int64_t* picks) {
  for (int64_t i = 0; i < count; ++i) {
    picks[i] = random.below(degree);
  }
}

}  // namespace cpuaccel::kernels
