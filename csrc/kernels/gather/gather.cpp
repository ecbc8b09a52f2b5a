#include "kernels/gather/gather.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/parallel.h"
#include "kernels/inline.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<CopyRowFunction>, name, copy_row_##name)
#include "kernels/gather/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrainBytes = 1 << 16;  // per thread at least
// If src takes more bytes than this, rows are prefetched: short ones if an L2 cannot hold them
// besides other data, long ones, which the hardware prefetcher follows, only if they are in memory.
constexpr int64_t kNearBytes = 1 << 18, kNearBytesOfLongRows = 8 << 20;
constexpr int64_t kLine = 64;
// For larger rows the C library's copy is faster: its stores are 32 or 64 bytes wide, these are 16.
constexpr int64_t kOwnBytes = 64;
constexpr int64_t kStreamedBytes = int64_t{1} << 25;  // of a dst that no cache will hold

template <int64_t kBytes>
CPUACCEL_INLINE void copy(std::byte* dst, const std::byte* src) {
  std::byte piece[kBytes];  // in registers
  std::memcpy(piece, src, kBytes);
  std::memcpy(dst, piece, kBytes);
}

// Copies rows of exactly kBytes bytes, in pieces that may overlap.
template <int64_t kBytes>
struct ExactRow {
  static constexpr int64_t bytes(int64_t /*row_bytes*/) { return kBytes; }
  CPUACCEL_INLINE void run(std::byte* dst, const std::byte* src, int64_t /*bytes*/) const {
    copy<kBytes>(dst, src);
  }
};

// Copies rows of at least kPiece bytes. The last piece may overlap the one before.
template <int64_t kPiece>
struct RowInPieces {
  static int64_t bytes(int64_t row_bytes) { return row_bytes; }
  CPUACCEL_INLINE void run(std::byte* dst, const std::byte* src, int64_t bytes) const {
    for (int64_t at = 0; at + kPiece < bytes; at += kPiece) {
      copy<kPiece>(dst + at, src + at);
    }
    copy<kPiece>(dst + bytes - kPiece, src + bytes - kPiece);
  }
};

#if defined(__SSE2__)
// Copies rows of whole lines past the caches: an ordinary store first reads the line that it
// overwrites.
struct StreamedRow {
  static int64_t bytes(int64_t row_bytes) { return row_bytes; }
  CPUACCEL_INLINE void run(std::byte* dst, const std::byte* src, int64_t bytes) const {
    for (int64_t at = 0; at < bytes; at += kLine) {
      __m128i line[4];
      std::memcpy(line, src + at, kLine);
      for (int i = 0; i < 4; ++i) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(dst + at) + i, line[i]);
      }
    }
  }
};

bool is_streamed(const GatherCall& call) {
  return call.row_bytes % kLine == 0 && reinterpret_cast<uintptr_t>(call.dst) % kLine == 0 &&
         call.E >= kStreamedBytes / call.row_bytes;
}
#endif

struct AnyRow {
  static int64_t bytes(int64_t row_bytes) { return row_bytes; }
  CPUACCEL_INLINE void run(std::byte* dst, const std::byte* src, int64_t bytes) const {
    std::memcpy(dst, src, static_cast<size_t>(bytes));
  }
};

struct RowByIsa {
  CopyRowFunction* function;

  static int64_t bytes(int64_t row_bytes) { return row_bytes; }
  void run(std::byte* dst, const std::byte* src, int64_t bytes) const { function(dst, src, bytes); }
};

template <typename Index, typename Copy>
void rows(const GatherCall& call, int64_t begin, int64_t end, Copy copy = {}) {
  const auto* index = static_cast<const Index*>(call.index);
  const auto* src = static_cast<const std::byte*>(call.src);
  auto* dst = static_cast<std::byte*>(call.dst);
  const auto N = static_cast<uint64_t>(call.N);
  const uint64_t wrapped = call.wraps ? N : 0;
  const int64_t bytes = Copy::bytes(call.row_bytes), stride = call.src_stride;
  const auto row_of = [&](int64_t e) {
    const auto number = static_cast<int64_t>(index[e]);
    return static_cast<uint64_t>(number) + (number < 0 ? wrapped : 0);
  };
  // N * bytes may overflow, N alone does not.
  const int64_t near = bytes < kLongRow ? kNearBytes : kNearBytesOfLongRows;
  const int64_t ahead = call.N > near / bytes ? std::clamp<int64_t>(8192 / bytes, 4, 32) : 0;
  const int64_t fetched = std::min<int64_t>(bytes, 8 * kLine);  // prefetchers load the rest
  for (int64_t e = begin; e < end; ++e) {
    if (ahead > 0) {
      // Computes with integers, not pointers: the row may be out of range.
      const auto first =
          reinterpret_cast<uintptr_t>(src) +
          row_of(e + ahead < end ? e + ahead : end - 1) * static_cast<uint64_t>(stride);
      for (int64_t at = 0; at < fetched; at += kLine) {
        __builtin_prefetch(
            reinterpret_cast<const void*>(first + static_cast<uint64_t>(at)));  // NOLINT: not read
      }
    }
    if (const uint64_t row = row_of(e); row < N) [[likely]] {
      copy.run(dst + e * bytes, src + static_cast<int64_t>(row) * stride, bytes);
    }
  }
}

template <typename Index>
void by_size(const GatherCall& call, int64_t begin, int64_t end, CopyRowFunction* copy_row) {
#if defined(__SSE2__)
  if (is_streamed(call)) {
    rows<Index, StreamedRow>(call, begin, end);
    return _mm_sfence();  // before other threads learn that this part is done
  }
#endif
  switch (call.row_bytes) {
    case 4:
      return rows<Index, ExactRow<4>>(call, begin, end);
    case 8:
      return rows<Index, ExactRow<8>>(call, begin, end);
    case 12:
      return rows<Index, ExactRow<12>>(call, begin, end);
    case 16:
      return rows<Index, ExactRow<16>>(call, begin, end);
    case 32:
      return rows<Index, ExactRow<32>>(call, begin, end);
    case 64:
      return rows<Index, ExactRow<64>>(call, begin, end);
    default:
      break;
  }
  if (call.row_bytes >= kLongRow) {
    rows<Index>(call, begin, end, RowByIsa{copy_row});
  } else if (call.row_bytes < 4 || call.row_bytes > kOwnBytes) {
    rows<Index, AnyRow>(call, begin, end);
  } else if (call.row_bytes < 16) {
    rows<Index, RowInPieces<4>>(call, begin, end);
  } else {
    rows<Index, RowInPieces<16>>(call, begin, end);
  }
}

}  // namespace

std::span<const KernelRow<CopyRowFunction>> copy_row_kernels() { return kRows; }

void gather(const GatherCall& call, CopyRowFunction* copy_row) {
  if (call.row_bytes == 0) {
    return;
  }
  parallel_for(0, call.E, divide_up(kGrainBytes, call.row_bytes), [&](int64_t begin, int64_t end) {
    if (call.wide) {
      by_size<int64_t>(call, begin, end, copy_row);
    } else {
      by_size<int32_t>(call, begin, end, copy_row);
    }
  });
}

void gather(const GatherCall& call) { gather(call, first_usable(copy_row_kernels()).function); }

}  // namespace cpuaccel::kernels
