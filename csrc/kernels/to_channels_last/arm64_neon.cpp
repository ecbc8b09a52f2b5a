#include <arm_neon.h>

#include <array>

#include "kernels/to_channels_last/impl.h"
#include "kernels/to_channels_last/to_channels_last.h"

namespace cpuaccel::kernels {
namespace {

// Interleaves one vector of each plane and stores them with one instruction.
inline void store_in_turn(uint16_t* dst, const std::array<uint16x8_t, 2>& v) {
  vst2q_u16(dst, {{v[0], v[1]}});
}
inline void store_in_turn(uint16_t* dst, const std::array<uint16x8_t, 3>& v) {
  vst3q_u16(dst, {{v[0], v[1], v[2]}});
}
inline void store_in_turn(uint16_t* dst, const std::array<uint16x8_t, 4>& v) {
  vst4q_u16(dst, {{v[0], v[1], v[2], v[3]}});
}
inline void store_in_turn(uint32_t* dst, const std::array<uint32x4_t, 2>& v) {
  vst2q_u32(dst, {{v[0], v[1]}});
}
inline void store_in_turn(uint32_t* dst, const std::array<uint32x4_t, 3>& v) {
  vst3q_u32(dst, {{v[0], v[1], v[2]}});
}
inline void store_in_turn(uint32_t* dst, const std::array<uint32x4_t, 4>& v) {
  vst4q_u32(dst, {{v[0], v[1], v[2], v[3]}});
}
inline uint16x8_t load_vector(const uint16_t* src) { return vld1q_u16(src); }
inline uint32x4_t load_vector(const uint32_t* src) { return vld1q_u32(src); }

template <int kWidth>
struct Number;
template <>
struct Number<2> {
  using Type = uint16_t;
  using Vector = uint16x8_t;
};
template <>
struct Number<4> {
  using Type = uint32_t;
  using Vector = uint32x4_t;
};

template <int kChannels, int kWidth>
struct Loop {
  static int64_t run(const ToChannelsLastCall& call) {
    using Type = typename Number<kWidth>::Type;
    constexpr int64_t kStep = 16 / kWidth;
    const auto* src = reinterpret_cast<const Type*>(call.src);
    auto* dst = reinterpret_cast<Type*>(call.dst);
    int64_t i = 0;
    for (; i + kStep <= call.pixels; i += kStep) {
      std::array<typename Number<kWidth>::Vector, kChannels> planes;
      for (int c = 0; c < kChannels; ++c) {
        planes[static_cast<size_t>(c)] = load_vector(src + c * call.plane + i);
      }
      store_in_turn(dst + i * kChannels, planes);
    }
    return i;
  }
};

}  // namespace

void to_channels_last_arm64_neon(const ToChannelsLastCall& call) {
  to_channels_last_by<Loop>(call);
}

}  // namespace cpuaccel::kernels
