// Random values to run kernels on, the same in every run.
#pragma once

#include <cstdint>
#include <vector>

namespace cpuaccel::bench {

// Mean 0, deviation 1.
std::vector<float> normal_floats(int64_t count);

// Uniformly distributed from `low` to `high`, both included.
std::vector<uint8_t> uniform_u8(int64_t count, int low = 0, int high = 255);
std::vector<int8_t> uniform_s8(int64_t count, int low = -128, int high = 127);
// Like trained weights, quantized by the largest: four standard deviations are 127.
std::vector<int8_t> bell_shaped_s8(int64_t count);

}  // namespace cpuaccel::bench
