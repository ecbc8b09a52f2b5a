// Eight columns at a time, each from as many masked loads as pieces have a part in them: one or
// two, unless rows are shorter than eight. A masked load doesn't touch what is masked.
#include <immintrin.h>

#include "kernels/conv_f32/unfold.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kLanes = 8;

// A piece's part of eight columns, at an offset that would be the first's.
struct Unit {
  static constexpr int64_t kStride = 1;
  int64_t offset;
  __m256i mask;

  Unit() = default;
  CPUACCEL_INLINE Unit(int64_t first, __m256i lanes) : offset(first), mask(lanes) {}
  CPUACCEL_INLINE __m256 load(const float* plane) const {
    return _mm256_maskload_ps(plane + offset, mask);
  }
};

// Every other float.
struct Pair {
  static constexpr int64_t kStride = 2;
  int64_t offset;
  __m256i low, high;

  Pair() = default;
  CPUACCEL_INLINE Pair(int64_t first, __m256i lanes) : offset(first) {
    const __m256i even = _mm256_setr_epi32(-1, 0, -1, 0, -1, 0, -1, 0);
    const __m256i index = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    const __m256i next = _mm256_add_epi32(index, _mm256_set1_epi32(4));
    low = _mm256_and_si256(even, _mm256_permutevar8x32_epi32(lanes, index));
    high = _mm256_and_si256(even, _mm256_permutevar8x32_epi32(lanes, next));
  }
  CPUACCEL_INLINE __m256 load(const float* plane) const {
    const __m256 both = _mm256_shuffle_ps(_mm256_maskload_ps(plane + offset, low),
                                          _mm256_maskload_ps(plane + offset + kLanes, high), 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(both), 0xd8));
  }
};

CPUACCEL_INLINE __m256i lanes_between(int64_t begin, int64_t end) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const auto before = _mm256_set1_epi32(static_cast<int>(begin) - 1);
  const auto after = _mm256_set1_epi32(static_cast<int>(end));
  return _mm256_and_si256(_mm256_cmpgt_epi32(lane, before), _mm256_cmpgt_epi32(after, lane));
}

// The parts of eight columns.
template <typename Part>
struct Eight {
  Part parts[kLanes];
  int64_t count = 0;

  Eight(std::span<const UnfoldPiece> pieces, int64_t first) {
    for (const auto& piece : pieces) {
      const int64_t begin = piece.column - first, end = begin + piece.count;
      if (begin < kLanes && end > 0) {
        parts[count++] = Part(piece.offset - begin * Part::kStride,
                              lanes_between(begin > 0 ? begin : 0, end < kLanes ? end : kLanes));
      }
    }
  }
  // Parts of nothing, which read nothing.
  void fill_up(int64_t to) {
    while (count < to) {
      parts[count++] = Part(0, _mm256_setzero_si256());
    }
  }
};

template <typename Part, int kParts>
CPUACCEL_INLINE __m256 merged(const Eight<Part>& eight, const float* plane) {
  __m256 value = eight.parts[0].load(plane);
  for (int64_t i = 1; i < (kParts < 3 ? kParts : eight.count); ++i) {
    value = _mm256_or_ps(value, eight.parts[i].load(plane));
  }
  return value;
}

// kEights vectors together: they are in the same lines and pages.
template <typename Part, int kParts, int kEights>
CPUACCEL_INLINE void copy(const UnfoldTap& tap, const Eight<Part>* eights, float* dst) {
  const float* plane = tap.plane;
  for (int64_t c = 0; c < tap.channels; ++c, plane += tap.area, dst += tap.step) {
    for (int i = 0; i < kEights; ++i) {
      _mm256_storeu_ps(dst + i * kLanes, merged<Part, kParts>(eights[i], plane));
    }
  }
}

template <typename Part, int kEights>
CPUACCEL_INLINE void columns(const UnfoldTap& tap, Eight<Part>* eights, float* dst) {
  int64_t most = 1;
  for (int i = 0; i < kEights; ++i) {
    most = eights[i].count > most ? eights[i].count : most;
  }
  for (int i = 0; i < kEights; ++i) {
    eights[i].fill_up(most);
  }
  if (most == 1) {
    copy<Part, 1, kEights>(tap, eights, dst);
  } else if (most == 2) {
    copy<Part, 2, kEights>(tap, eights, dst);
  } else {
    copy<Part, 3, kEights>(tap, eights, dst);
  }
}

template <typename Part>
void unfold(const UnfoldTap& tap) {
  int64_t j = 0;
  for (; j + 2 * kLanes <= tap.nr; j += 2 * kLanes) {
    Eight<Part> eights[]{{tap.pieces, j}, {tap.pieces, j + kLanes}};
    columns<Part, 2>(tap, eights, tap.dst + j);
  }
  if (j < tap.nr) {
    Eight<Part> eights[]{{tap.pieces, j}};
    columns<Part, 1>(tap, eights, tap.dst + j);
  }
}

}  // namespace

void unfold_x86_avx2(const UnfoldTap& tap) {
  if (tap.stride == 1) {
    unfold<Unit>(tap);
  } else if (tap.stride == 2) {
    unfold<Pair>(tap);
  } else {
    unfold_ref(tap);
  }
}

}  // namespace cpuaccel::kernels
