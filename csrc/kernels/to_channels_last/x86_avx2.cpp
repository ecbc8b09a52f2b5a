#include <immintrin.h>

#include <array>

#include "kernels/to_channels_last/impl.h"
#include "kernels/to_channels_last/to_channels_last.h"

namespace cpuaccel::kernels {
namespace {

constexpr int kBytes = 16;

// Shuffle masks, by dst vector and channel: the byte of the channel's vector for each byte of dst,
// or 0x80, for which the shuffle gives 0, if that byte belongs to another channel.
template <int kChannels, int kWidth>
constexpr auto places() {
  std::array<std::array<std::array<uint8_t, kBytes>, kChannels>, kChannels> table{};
  for (int at = 0; at < kChannels * kBytes; ++at) {
    const int number = at / kWidth, pixel = number / kChannels;
    for (int c = 0; c < kChannels; ++c) {
      table[at / kBytes][c][at % kBytes] =
          static_cast<uint8_t>(c == number % kChannels ? pixel * kWidth + at % kWidth : 0x80);
    }
  }
  return table;
}

template <int kChannels, int kWidth>
struct Loop {
  static int64_t run(const ToChannelsLastCall& call) {
    static constexpr auto kPlaces = places<kChannels, kWidth>();
    constexpr int64_t kStep = kBytes / kWidth;
    __m128i masks[kChannels][kChannels];
    for (int v = 0; v < kChannels; ++v) {
      for (int c = 0; c < kChannels; ++c) {
        masks[v][c] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kPlaces[v][c].data()));
      }
    }
    int64_t i = 0;
    for (; i + kStep <= call.pixels; i += kStep) {
      __m128i planes[kChannels];
      for (int c = 0; c < kChannels; ++c) {
        planes[c] = _mm_loadu_si128(
            reinterpret_cast<const __m128i*>(call.src + (c * call.plane + i) * kWidth));
      }
      for (int v = 0; v < kChannels; ++v) {
        __m128i sum = _mm_shuffle_epi8(planes[0], masks[v][0]);
        for (int c = 1; c < kChannels; ++c) {
          sum = _mm_or_si128(sum, _mm_shuffle_epi8(planes[c], masks[v][c]));
        }
        _mm_storeu_si128(reinterpret_cast<__m128i*>(call.dst + i * kChannels * kWidth + v * kBytes),
                         sum);
      }
    }
    return i;
  }
};

}  // namespace

void to_channels_last_x86_avx2(const ToChannelsLastCall& call) { to_channels_last_by<Loop>(call); }

}  // namespace cpuaccel::kernels
