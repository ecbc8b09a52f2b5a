#include <algorithm>
#include <memory>
#include <vector>

#include "bench.h"
#include "data.h"
#include "kernels/qconv/qconv.h"

namespace cpuaccel::bench {
namespace {

struct Shape {
  int64_t IC, OC, G, size, K, S;
  int64_t N = 1;
  DataType type = DataType::u8;
  Activation activation = Activation::none;
};

constexpr auto kF32 = DataType::f32;
constexpr auto kU8 = DataType::u8;
constexpr auto kGelu = Activation::gelu;
constexpr auto kGeluTanh = Activation::gelu_tanh;
constexpr auto kSilu = Activation::silu;
constexpr auto kHardswish = Activation::hardswish;

// Stems; grouped convolutions of resnext50, regnet_y_400mf and regnet_y_1_6gf; narrow 1x1 ones of
// shufflenet, mobilenet and squeeze-and-excite; linear layers of one row; layers of resnet50; the
// last layers of mobile networks; linear layers of encoders with N rows each.
constexpr Shape kShapes[] = {
    {3, 32, 1, 224, 3, 2},
    {3, 24, 1, 224, 3, 2},
    {3, 64, 1, 224, 7, 2},
    {128, 128, 32, 56, 3, 1},
    {256, 256, 32, 28, 3, 1},
    {512, 512, 32, 14, 3, 1},
    {48, 48, 6, 56, 3, 1},
    {104, 104, 13, 28, 3, 1},
    {120, 120, 5, 28, 3, 1},
    {58, 58, 1, 28, 1, 1},
    {116, 116, 1, 14, 1, 1},
    {16, 96, 1, 112, 1, 1},
    {24, 144, 1, 56, 1, 1},
    {144, 24, 1, 56, 1, 1},
    {960, 240, 1, 1, 1, 1},
    {32, 8, 1, 1, 1, 1},
    {768, 768, 1, 1, 1, 1},
    {1280, 1000, 1, 1, 1, 1},
    {256, 64, 1, 56, 1, 1},
    {128, 128, 1, 28, 3, 1},
    {512, 2048, 1, 7, 1, 1},
    {160, 960, 1, 7, 1, 1},
    {960, 160, 1, 7, 1, 1},
    {320, 1280, 1, 7, 1, 1},
    {160, 960, 1, 7, 1, 1, 1, kU8, kHardswish},
    {384, 384, 1, 1, 1, 1, 128},
    {384, 1536, 1, 1, 1, 1, 128},
    {384, 1536, 1, 1, 1, 1, 128, kF32},
    {384, 1536, 1, 1, 1, 1, 128, kU8, kGelu},
    {384, 1536, 1, 1, 1, 1, 128, kU8, kGeluTanh},
    {384, 1536, 1, 1, 1, 1, 128, kU8, kSilu},
    {384, 1536, 1, 1, 1, 1, 128, kU8, kHardswish},
    {384, 1536, 1, 1, 1, 1, 128, kF32, kGelu},
    {1536, 384, 1, 1, 1, 1, 128},
    {768, 768, 1, 1, 1, 1, 128},
    {768, 3072, 1, 1, 1, 1, 128},
    {768, 3072, 1, 1, 1, 1, 128, kU8, kGelu},
    {3072, 768, 1, 1, 1, 1, 128},
    {4096, 4096, 1, 1, 1, 1, 128},
    {768, 3072, 1, 1, 1, 1, 8},
    {768, 3072, 1, 1, 1, 1, 16},
    {768, 3072, 1, 1, 1, 1, 32},
    {3072, 768, 1, 1, 1, 1, 8},
    {3072, 768, 1, 1, 1, 1, 32},
};

// Values of src: any bytes, or those of 7-bit quantizers.
enum class Bytes : uint8_t { any, low };

struct Data {
  Data(const Shape& s, kernels::QconvForm form, Bytes bytes)
      : shape{s.IC, s.OC, s.G, s.K, s.K, s.S, s.S, s.K / 2, s.K / 2},
        src(uniform_u8(s.N * s.size * s.size * s.IC)),
        weights(
            kernels::qconv_pack(shape, bell_shaped_s8(s.OC * s.IC / s.G * s.K * s.K).data(), form)),
        scales(static_cast<size_t>(s.OC), s.activation == Activation::none ? 1e-4f : 1e-5f),
        bias(static_cast<size_t>(s.OC), 1.0f) {
    if (bytes == Bytes::low) {
      std::transform(src.begin(), src.end(), src.begin(),
                     [](uint8_t byte) { return static_cast<uint8_t>(byte / 2); });
    }
    call.weights = &weights;
    call.N = s.N;
    call.IH = call.IW = s.size;
    call.OH = call.OW = (s.size - 1) / s.S + 1;
    call.dst.type = s.type;
    call.dst.activation = s.activation;
    if (s.activation != Activation::none && s.type != DataType::f32) {
      call.dst.inverse_scale = 20.0f;
    }
    dst.resize(static_cast<size_t>(s.N * call.OH * call.OW * s.OC * call.dst.element_size()));
    call.src = src.data();
    call.src_zero_point = 117;
    call.dst.data = dst.data();
    call.dst.scales = scales.data();
    call.dst.bias = bias.data();
    call.dst.zero_point = 120;
  }
  kernels::QconvShape shape;
  std::vector<uint8_t> src, dst;
  kernels::QconvWeights weights;
  std::vector<float> scales, bias;
  kernels::QconvCall call;
};

std::string ending(const Shape& s) {
  std::string text = s.N == 1 ? "" : " n" + std::to_string(s.N);
  text += s.type == DataType::f32 ? " f32" : "";
  switch (s.activation) {
    case Activation::none:
      return text;
    case Activation::gelu_tanh:
      return text + " tanh-gelu";
    default:
      return text + " " + std::string(activation_name(s.activation));
  }
}

Case qconv_case(const Shape& s, Bytes bytes) {
  const int64_t O = (s.size - 1) / s.S + 1;
  const int64_t weights = s.OC * s.IC / s.G * s.K * s.K;
  Case item;
  item.shape = std::to_string(s.IC) + "->" + std::to_string(s.OC) + " " + std::to_string(s.size) +
               "x" + std::to_string(s.size) + " " + std::to_string(s.K) + "x" +
               std::to_string(s.K) + " s" + std::to_string(s.S) + " g" + std::to_string(s.G) +
               ending(s) + (bytes == Bytes::low ? " u7" : "");
  item.operations = static_cast<double>(s.N * O * O * weights);
  item.rate = Rate::int8;
  item.bytes_read = static_cast<double>(s.N * s.size * s.size * s.IC + weights);
  item.bytes_written = static_cast<double>(s.N * O * O * s.OC * (s.type == DataType::f32 ? 4 : 1));
  item.prepare = [s, bytes] {
    const auto rows = kernels::qconv_kernels();
    return candidates(
        rows, [s, bytes, best = kernels::first_usable(rows).function](auto* function) {
          const auto form = function == best ? kernels::qconv_form() : kernels::QconvForm::whole;
          const auto data = std::make_shared<const Data>(s, form, bytes);
          return [data, function] { kernels::qconv(data->call, function); };
        });
  };
  // The bound of the products alone; AVX2's row multiplies with vpmaddubsw where that is exact.
  item.bound = [operations = item.operations, bytes](const Peaks& peaks, Isa isa) {
    const Rate of_avx2 = bytes == Bytes::low ? Rate::int8_low : Rate::int8_saturating;
    const double peak = peaks.operations(isa == Isa::avx2 ? of_avx2 : Rate::int8, isa);
    return isa == Isa::ref || peak <= 0 ? 0.0 : operations / peak;
  };
  return item;
}

}  // namespace

Family bench_qconv() {
  Family family{"qconv", {}};
  for (const Bytes bytes : {Bytes::any, Bytes::low}) {
    for (const Shape& shape : kShapes) {
      // With 7-bit src, the cases with one row or image and no post-op are enough.
      if (bytes == Bytes::any || (shape.N == 1 && shape.activation == Activation::none)) {
        family.cases.push_back(qconv_case(shape, bytes));
      }
    }
  }
  return family;
}

}  // namespace cpuaccel::bench
