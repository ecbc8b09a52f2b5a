#include "kernels/gemm/blocked.h"

#include <algorithm>

#include "base/scratch.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/edges.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

float* panel_scratch(int64_t count) {
  return static_cast<float*>(
      scratch(ScratchSlot::gemm_b, static_cast<size_t>(count) * sizeof(float)));
}

// With more rows, packed 16-bit panels are widened to floats before they are multiplied. Below, the
// tile widens what it loads, and reads half the bytes: twice as fast with 2 to 4 rows, and 0.85
// times with 64 and more (Zen 3).
constexpr int64_t kWidenAbove = 32;

class Blocked {
 public:
  Blocked(const GemmCall& call, const GemmKernels& kernels, int64_t g)
      : call_(call),
        kernels_(kernels),
        g_(g),
        kc_(call.packed != nullptr ? call.packed->kc() : gemm_kc(call.K)),
        widens_(call.packed != nullptr && call.packed->type() != DataType::f32 &&
                call.M > kWidenAbove),
        mc_(gemm_mc(call.M, kernels.mr, call.pack_b.is_fast || widens_)) {}

  void run() {
    if (call_.packed != nullptr) {
      source_ = Source::ready;
      multiply_all(512);
    } else if (call_.M <= mc_ || call_.pack_b.is_fast) {
      // Each piece of work packs its panels itself.
      source_ = Source::own;
      multiply_all(1024);
    } else {
      source_ = Source::shared;
      pack_and_multiply();
    }
  }

 private:
  enum class Source { ready, own, shared };

  void multiply_all(int64_t columns) {
    n_ = call_.N;
    k_ = call_.K;
    multiply(columns);
  }

  void pack_and_multiply() {
    const GemmPackSize size = gemm_pack_size(call_.N, call_.K, kernels_.nr);
    shared_ = panel_scratch(size.n * size.k);
    for (n0_ = 0; n0_ < call_.N; n0_ += size.n) {
      n_ = std::min(size.n, call_.N - n0_);
      for (k0_ = 0; k0_ < call_.K; k0_ += size.k) {
        k_ = std::min(size.k, call_.K - k0_);
        pack_shared();
        multiply(512);
      }
    }
  }

  // In each block of kc rows, the panels follow one another.
  float* shared(int64_t k, int64_t n) const {
    return shared_ + k * round_up(n_, kernels_.nr) + n * std::min(kc_, k_ - k);
  }

  void pack_shared() const {
    constexpr int64_t kPanels = 4;  // per piece of work
    const int64_t columns = kPanels * kernels_.nr;
    const int64_t runs = divide_up(n_, columns);
    const int64_t grain = gemm_grain(8, columns, kc_);
    for_each_piece(divide_up(k_, kc_) * runs, grain, [&](int64_t piece) {
      const int64_t k = piece / runs * kc_;
      const int64_t n = piece % runs * columns;
      pack(k, n, std::min(columns, n_ - n), shared(k, n));
    });
  }

  void pack(int64_t k, int64_t n, int64_t columns, float* panels) const {
    pack_panels(call_, kernels_,
                {g_, k0_ + k, std::min(kc_, k_ - k), n0_ + n, columns, kernels_.nr, panels});
  }

  void multiply(int64_t most) const {
    const int64_t mr = kernels_.mr, nr = kernels_.nr;
    const int64_t row_tiles = divide_up(call_.M, mr), column_tiles = divide_up(n_, nr);
    const GemmParts parts = gemm_parts(row_tiles, divide_up(call_.M, mc_), n_, most, nr,
                                       parallel_threads(), source_ == Source::ready);
    const auto row = [&](int64_t part) {
      return std::min(gemm_part_begin(part, parts.rows, row_tiles) * mr, call_.M);
    };
    const auto column = [&](int64_t part) {
      return std::min(gemm_part_begin(part, parts.columns, column_tiles) * nr, n_);
    };
    const int64_t grain =
        gemm_grain(divide_up(call_.M, parts.rows), divide_up(n_, parts.columns), k_);
    for_each_piece(parts.rows * parts.columns, grain, [&](int64_t piece) {
      const int64_t rows = piece / parts.columns, columns = piece % parts.columns;
      const int64_t m0 = row(rows), n0 = column(columns);
      multiply(m0, row(rows + 1) - m0, n0, column(columns + 1) - n0);
    });
  }

  // The panel that begins at column n.
  struct Panel {
    const char* data;
    DataType type;
    int64_t bytes;
  };
  Panel panel(int64_t k, int64_t n, int64_t columns) const {
    const int64_t size = std::min(kc_, k_ - k) * kernels_.nr;
    if (source_ == Source::ready) {
      return widens_ ? widened(k, n, size) : packed(k, n, size);
    }
    float* data = source_ == Source::shared ? shared(k, n) : panel_scratch(kernels_.nr * kc_);
    if (source_ == Source::own) {
      pack(k, n, columns, data);
    }
    return {reinterpret_cast<const char*>(data), DataType::f32, size * int64_t{sizeof(float)}};
  }

  Panel packed(int64_t k, int64_t n, int64_t size) const {
    const DataType type = call_.packed->type();
    return {call_.packed->panel(k, n), type, size * data_type_size(type)};
  }

  Panel widened(int64_t k, int64_t n, int64_t size) const {
    float* data = panel_scratch(kernels_.nr * kc_);
    kernels_.load({call_.packed->panel(k, n), call_.packed->type(), size, 1, 1, size, data, size});
    return {reinterpret_cast<const char*>(data), DataType::f32, size * int64_t{sizeof(float)}};
  }

  GemmPrefetch ready_panel(int64_t k, int64_t n) const {
    const Panel next = packed(k, n, std::min(kc_, k_ - k) * kernels_.nr);
    return {next.data, 1, next.bytes, 0};
  }

  // What is read after that panel, for prefetching, in a piece of columns [n0, n1).
  GemmPrefetch after(int64_t k, int64_t n, int64_t n0, int64_t n1, const Panel& current) const {
    int64_t next = n + kernels_.nr;
    if (source_ == Source::shared) {
      return next < n1 ? GemmPrefetch{current.data + current.bytes, 1, current.bytes, 0}
                       : GemmPrefetch{};
    }
    if (source_ == Source::ready) {
      return next < n1      ? ready_panel(k, next)
             : k + kc_ < k_ ? ready_panel(k + kc_, n0)
             : n1 < n_      ? ready_panel(0, n1)
                            : GemmPrefetch{};
    }
    if (next >= n1) {
      next = n0;
      k += kc_;
    }
    if (k >= k_) {
      return {};
    }
    return panels_source(call_, {g_, k0_ + k, std::min(kc_, k_ - k), n0_ + next,
                                 std::min(kernels_.nr, n1 - next), kernels_.nr, nullptr});
  }

  // Computes rows m0 .. m0 + m of dst, columns n0_ + n0 .. n0_ + n0 + columns.
  void multiply(int64_t m0, int64_t m, int64_t n0, int64_t columns) const {
    const GemmTiles tiles(kernels_);
    const GemmResult result(call_, kernels_, {g_, m0, m, n0_ + n0, columns});
    const int64_t n1 = n0 + columns;
    GemmStart start = k0_ == 0 ? result.tile_start() : result.resume();
    for (int64_t k = 0; k < k_; k += kc_) {
      const int64_t kc = std::min(kc_, k_ - k);
      const bool reused = m > 2 * kernels_.mr && columns >= 64;
      const GemmRows a = rows(call_, kernels_, {g_, m0, m, k0_ + k, kc, 0, nullptr}, reused);
      for (int64_t n = n0; n < n1; n += kernels_.nr) {
        const int64_t width = std::min(kernels_.nr, n1 - n);
        const Panel b = panel(k, n, width);
        kernels_.tile({.m = m,
                       .n = width,
                       .k = kc,
                       .a = a.data,
                       .a_stride = a.stride,
                       .panel = b.data,
                       .type = b.type,
                       .c = result.data() + n - n0,
                       .c_stride = result.stride(),
                       .alpha = call_.alpha,
                       .from = start.at_column(n - n0),
                       .again = n != n0,
                       .next = after(k, n, n0, n1, b)});
      }
      start = result.start_of_dst();
    }
    result.finish(k0_ + k_ == call_.K);
  }

  const GemmCall& call_;
  const GemmKernels& kernels_;
  const int64_t g_;
  const int64_t kc_;
  const bool widens_;
  const int64_t mc_;
  Source source_ = Source::own;
  float* shared_ = nullptr;
  int64_t n0_ = 0, n_ = 0, k0_ = 0, k_ = 0;  // the part of B that is packed
};

}  // namespace

void gemm_blocked(const GemmCall& call, const GemmKernels& kernels, int64_t g) {
  Blocked(call, kernels, g).run();
}

}  // namespace cpuaccel::kernels
