#include <algorithm>
#include <memory>
#include <vector>

#include "bench.h"
#include "data.h"
#include "kernels/dwconv/dwconv.h"

namespace cpuaccel::bench {
namespace {

struct Shape {
  int64_t C, size, K, S;
};

// Depthwise layers of mobilenet_v2, mobilenet_v3_large, efficientnet_b0, mnasnet1_0 and
// shufflenet_v2_x1_0; the last is convnext_tiny's.
constexpr Shape kShapes[] = {
    {32, 112, 3, 1}, {96, 112, 3, 2}, {144, 56, 3, 1}, {144, 56, 3, 2}, {192, 28, 3, 1},
    {384, 14, 3, 1}, {576, 14, 3, 2}, {960, 7, 3, 1},  {16, 112, 3, 1}, {64, 112, 3, 2},
    {72, 56, 3, 1},  {72, 56, 5, 2},  {120, 28, 5, 1}, {240, 28, 3, 2}, {200, 14, 3, 1},
    {184, 14, 3, 1}, {672, 14, 5, 1}, {960, 7, 5, 1},  {144, 56, 5, 2}, {240, 28, 5, 1},
    {480, 14, 5, 1}, {1152, 7, 5, 1}, {58, 28, 3, 1},  {116, 14, 3, 1}, {232, 7, 3, 1},
    {24, 56, 3, 2},  {96, 56, 7, 1},
};

struct Data {
  explicit Data(const Shape& s)
      : shape{s.C, s.K, s.K, s.S, s.S, s.K / 2, s.K / 2, 1, 1},
        src(uniform_u8(s.size * s.size * s.C)),
        weights(kernels::dwconv_pack(shape, uniform_s8(s.C * s.K * s.K).data())),
        scales(static_cast<size_t>(s.C), 1e-3f),
        bias(static_cast<size_t>(s.C), 1.0f) {
    call.weights = &weights;
    call.N = 1;
    call.IH = call.IW = s.size;
    call.OH = call.OW = (s.size - 1) / s.S + 1;
    dst.resize(static_cast<size_t>(call.OH * call.OW * s.C));
    call.src = src.data();
    call.src_zero_point = 117;
    call.dst.data = dst.data();
    call.dst.scales = scales.data();
    call.dst.bias = bias.data();
    call.dst.zero_point = 120;
  }
  kernels::DwconvShape shape;
  std::vector<uint8_t> src, dst;
  kernels::DwconvWeights weights;
  std::vector<float> scales, bias;
  kernels::DwconvCall call;
};

// AVX512-VNNI (columns_avx512vnni.h, tall_avx512vnni.h). For each vector of results:
//   multiply     KW * quads, and one that scales
//   requantize   2 converts; for four of them 2 packs, 2 adds, 1 pack; tall: min, max, flip
// and 8 unpacks for each quad of a column of four vectors of channels. Two rows of results share
// them if that takes no more quads. A core with two multiply units has up to two more units for the
// rest. The bound is therefore the time of the multiplications, or half the time of all
// instructions there, whichever is longer.
double lanes_bound(const Shape& s, double multiply_rate) {
  const int64_t O = (s.size - 1) / s.S + 1;
  const bool tall = s.K > 3;
  const int64_t rows = s.S == 1 || tall ? 2 : 1;
  const double quads = tall ? 2 : 1;
  const auto vectors = static_cast<double>(O * O * s.C) / 16;
  const double multiply = static_cast<double>(s.K) * quads + 1;
  const double requantize = 2 + (tall ? 8.0 : 5.0) / 4;
  const double unpack = static_cast<double>(s.S) / static_cast<double>(rows) * quads * 8 / 4;
  return vectors * std::max(multiply, (multiply + requantize + unpack) / 2) / multiply_rate;
}

// The other rows: all vector instructions of the loop, at the rate at which the peak's loop runs
// its own instructions (two for 4 * lanes / 2 multiply-adds without VNNI, one for 4 * lanes with
// it). Loads and stores are not counted, because they use other ports. For each vector of results:
//   multiply     KW * quads * parts * (multiply, add), or KW * quads with VNNI
//   requantize   convert, scale, convert; for four of them 2 packs, 2 adds, 1 pack, min, max, flip,
//                order, 1 extraction
// and for four vectors of channels and a quad of rows of a column, shared by two rows of results at
// stride 1:
//   interleave   4 orders, 8 unpacks, and 8 to widen them without VNNI
// AVX2 has another loop for up to 5x5 (direct_avx2.h). For each vector of results and each pair of
// taps, two of its instructions multiply and add, and one unpacks. Half an instruction widens each
// tap; at stride 1, four results together have K * (K + 3) taps.
double bound(const Shape& s, const Peaks& peaks, Isa isa) {
  const bool vnni = isa == Isa::avx_vnni;
  constexpr double lanes = 8;
  const double peak = peaks.operations(Rate::int8, isa);
  if (isa == Isa::ref || peak <= 0) {
    return 0.0;
  }
  if (isa == Isa::avx512_vnni) {
    return lanes_bound(s, peak / 64);
  }
  const int64_t O = (s.size - 1) / s.S + 1;
  const int64_t rows = s.S == 1 ? 2 : 1;
  const auto quads = static_cast<double>((s.K + rows - 1 + 3) / 4);
  const auto outputs = static_cast<double>(O * O);
  const auto vectors =
      static_cast<double>((s.C + static_cast<int64_t>(lanes) - 1) / static_cast<int64_t>(lanes));
  const double requantize = 3 + 10.0 / 4;
  if (isa == Isa::avx2 && s.K <= 5) {
    const auto pairs = static_cast<double>((s.K * s.K + 1) / 2);
    const auto taps = static_cast<double>(s.S == 1 ? s.K * (s.K + 3) : 4 * s.K * s.K) / 4;
    return outputs * vectors * (3 * pairs + taps / 2 + requantize) / (peak / lanes);
  }
  const double multiply = static_cast<double>(s.K) * quads * (vnni ? 1 : 4);
  const double columns = static_cast<double>(s.S) * outputs / static_cast<double>(rows);
  const double interleave = columns * quads * (vectors / 4) * (vnni ? 12 : 20);
  const double rate = peak / (vnni ? 4 * lanes : lanes);
  return (outputs * vectors * (multiply + requantize) + interleave) / rate;
}

Case dwconv_case(const Shape& s) {
  const int64_t O = (s.size - 1) / s.S + 1;
  Case item;
  item.shape = std::to_string(s.C) + "x" + std::to_string(s.size) + "x" + std::to_string(s.size) +
               " " + std::to_string(s.K) + "x" + std::to_string(s.K) + " s" + std::to_string(s.S);
  item.operations = static_cast<double>(O * O * s.C * s.K * s.K);
  item.rate = Rate::int8;
  item.bytes_read = static_cast<double>(s.size * s.size * s.C);
  item.bytes_written = static_cast<double>(O * O * s.C);
  item.prepare = [s] {
    const auto data = std::make_shared<const Data>(s);
    return candidates(kernels::dwconv_kernels(), [data](auto* function) {
      return [data, function] { kernels::dwconv(data->call, function); };
    });
  };
  item.bound = [s](const Peaks& peaks, Isa isa) { return bound(s, peaks, isa); };
  return item;
}

}  // namespace

Family bench_dwconv() {
  Family family{"dwconv", {}};
  for (const Shape& shape : kShapes) {
    family.cases.push_back(dwconv_case(shape));
  }
  return family;
}

}  // namespace cpuaccel::bench
