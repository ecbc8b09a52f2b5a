#include <memory>
#include <string>
#include <vector>

#include "bench.h"
#include "data.h"
#include "kernels/conv_f32/conv_f32.h"
#include "kernels/conv_f32/packed.h"

namespace cpuaccel::bench {
namespace {

using kernels::Conv2dShape;
using kernels::ImageLayout;

struct Layer {
  int64_t C, OC, size, K, S;  // square images and kernels, padded by half a kernel
};

// Layers of resnet50; the last ones are of mobilenet_v2 and densenet121.
constexpr Layer kLayers[] = {
    {3, 64, 224, 7, 2},   {64, 64, 56, 3, 1},   {128, 128, 56, 3, 2},  {128, 128, 28, 3, 1},
    {256, 256, 14, 3, 1}, {512, 512, 14, 3, 2}, {512, 512, 7, 3, 1},   {64, 64, 56, 1, 1},
    {64, 256, 56, 1, 1},  {256, 64, 56, 1, 1},  {256, 128, 56, 1, 1},  {128, 512, 28, 1, 1},
    {512, 128, 28, 1, 1}, {256, 512, 56, 1, 2}, {256, 1024, 14, 1, 1}, {1024, 256, 14, 1, 1},
    {512, 2048, 7, 1, 1}, {2048, 512, 7, 1, 1}, {32, 192, 28, 1, 1},   {128, 32, 14, 3, 1}};

// The reference kernel is not timed beyond this many operations: it would take seconds.
constexpr double kMostForRef = 1e7;

Conv2dShape shape_of(const Layer& layer) {
  Conv2dShape s{.C = layer.C, .IH = layer.size, .IW = layer.size, .OC = layer.OC};
  s.KH = s.KW = layer.K;
  s.SH = s.SW = layer.S;
  s.PH = s.PW = layer.K / 2;
  s.OH = s.OW = (layer.size + 2 * s.PH - layer.K) / layer.S + 1;
  return s;
}

struct Data {
  Data(const Conv2dShape& s, ImageLayout layout)
      : src(normal_floats(s.C * s.IH * s.IW)),
        weights(normal_floats(s.OC * s.C * s.taps())),
        dst(static_cast<size_t>(s.OC * s.pixels())),
        call{s, layout, src.data(), weights.data(), nullptr, dst.data()} {}
  std::vector<float> src, weights, dst;
  kernels::ConvF32Call call;
};

// With plain weights, and with packed weights.
std::vector<Candidate> both(const Conv2dShape& s, ImageLayout layout, double operations) {
  const auto data = std::make_shared<const Data>(s, layout);
  std::vector<Candidate> all;
  for (const auto& row : kernels::gemm_kernels()) {
    if (left_out(row.isa, operations, kMostForRef)) {
      continue;
    }
    all.push_back({row.name, row.isa,
                   [data, function = row.function] { kernels::conv_f32(data->call, function); }});
    const int64_t K = s.C * s.taps();
    const auto packed = std::make_shared<const kernels::GemmPacked>(
        kernels::GemmMatrix{.data = data->weights.data(), .row_stride = 1, .column_stride = K}, K,
        s.OC, row.function);
    all.push_back({std::string(row.name) + " packed", row.isa, [data, packed] {
                     const auto& call = data->call;
                     kernels::conv_f32_packed({call.shape, call.layout, call.src,
                                               std::span(packed.get(), 1), nullptr, call.dst});
                   }});
  }
  return all;
}

Case conv_case(const Layer& layer, ImageLayout layout) {
  const auto s = shape_of(layer);
  const auto text = [](int64_t value) { return std::to_string(value); };
  Case item;
  item.shape = text(s.C) + "x" + text(s.IH) + "x" + text(s.IW) + " to " + text(s.OC) + ", " +
               text(s.KH) + "x" + text(s.KW) + (s.SH > 1 ? " / " + text(s.SH) : "") +
               (layout == ImageLayout::channels_last ? ", last" : "");
  item.operations = static_cast<double>(s.OC * s.pixels()) * static_cast<double>(s.C * s.taps());
  item.rate = Rate::fp32;
  item.bytes_read = 4.0 * static_cast<double>(s.C * s.IH * s.IW + s.OC * s.C * s.taps());
  item.bytes_written = 4.0 * static_cast<double>(s.OC * s.pixels());
  item.prepare = [s, layout, operations = item.operations] { return both(s, layout, operations); };
  return item;
}

}  // namespace

Family bench_conv_f32() {
  Family family{"conv_f32", {}};
  for (const auto layout : {ImageLayout::channels_first, ImageLayout::channels_last}) {
    for (const Layer& layer : kLayers) {
      family.cases.push_back(conv_case(layer, layout));
    }
  }
  return family;
}

}  // namespace cpuaccel::bench
