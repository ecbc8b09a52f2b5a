#include "kernels/gemm/blocked.h"

#include <algorithm>

#include "base/scratch.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/edges.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

// One element of the batch.
class Blocked {
 public:
  Blocked(const GemmCall& call, const GemmKernels& kernels, int64_t g)
      : call_(call),
        kernels_(kernels),
        g_(g),
        size_(gemm_blocking(call.M, call.N, call.K, kernels.mr, kernels.nr)) {}

  void run() {
    packed_ = static_cast<float*>(
        scratch(ScratchSlot::gemm_b, static_cast<size_t>(size_.nc * size_.ko) * sizeof(float)));
    for (n0_ = 0; n0_ < call_.N; n0_ += size_.nc) {
      n_ = std::min(size_.nc, call_.N - n0_);
      for (k0_ = 0; k0_ < call_.K; k0_ += size_.ko) {
        k_ = std::min(size_.ko, call_.K - k0_);
        pack();
        multiply();
      }
    }
  }

 private:
  int64_t padded() const { return round_up(n_, kernels_.nr); }

  // Each block of kc rows has its panels one behind the other.
  float* block(int64_t k) const { return packed_ + k * padded(); }

  void pack() const {
    constexpr int64_t kPanels = 4;  // of a piece of work
    const int64_t columns = kPanels * kernels_.nr;
    const int64_t runs = divide_up(n_, columns);
    const int64_t pieces = divide_up(k_, size_.kc) * runs;
    const int64_t grain = divide_up(int64_t{1} << 15, size_.kc * columns);
    for_each_piece(pieces, grain, [&](int64_t piece) {
      const int64_t k = piece / runs * size_.kc;
      const int64_t n = piece % runs * columns;
      const int64_t kc = std::min(size_.kc, k_ - k);
      pack_panels(
          call_, kernels_,
          {g_, k0_ + k, kc, n0_ + n, std::min(columns, n_ - n), kernels_.nr, block(k) + n * kc});
    });
  }

  void multiply() const {
    const int64_t groups = divide_up(n_, size_.columns);
    const int64_t pieces = divide_up(call_.M, size_.mc) * groups;
    for_each_piece(pieces, 1, [&](int64_t piece) {
      const int64_t m0 = piece / groups * size_.mc;
      const int64_t n0 = piece % groups * size_.columns;
      multiply(m0, std::min(size_.mc, call_.M - m0), n0, std::min(size_.columns, n_ - n0));
    });
  }

  // Rows m0 .. m0 + m of dst, columns n0_ + n .. n0_ + n + columns.
  void multiply(int64_t m0, int64_t m, int64_t n, int64_t columns) const {
    GemmResult result(call_, kernels_, {g_, m0, m, n0_ + n, columns});
    bool add = k0_ == 0 ? result.start() : result.resume();
    for (int64_t k = 0; k < k_; k += size_.kc) {
      const int64_t kc = std::min(size_.kc, k_ - k);
      const GemmRows a = rows(call_, kernels_, {g_, m0, m, k0_ + k, kc, 0, nullptr});
      for (int64_t j = 0; j < columns; j += kernels_.nr) {
        kernels_.tile({m, std::min(kernels_.nr, columns - j), kc, a.data, a.stride,
                       block(k) + (n + j) * kc, result.data() + j, result.stride(), call_.alpha,
                       add, g_tune[4] ? block(k) + (n + j + kernels_.nr) * kc : nullptr});
      }
      add = true;
    }
    result.finish();
  }

  const GemmCall& call_;
  const GemmKernels& kernels_;
  const int64_t g_;
  const GemmBlocking size_;
  float* packed_ = nullptr;
  int64_t n0_ = 0, n_ = 0, k0_ = 0, k_ = 0;
};

}  // namespace

void gemm_blocked(const GemmCall& call, const GemmKernels& kernels) {
  for (int64_t g = 0; g < call.batch; ++g) {
    Blocked(call, kernels, g).run();
  }
}

}  // namespace cpuaccel::kernels
