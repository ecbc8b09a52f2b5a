// What trials of steps read and write: memory as oneDNN's descriptions say, with numbers that are
// the same in every trial.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "graph/engine.h"
#include "graph/program.h"

namespace cpuaccel::graph {

using TrialBlock = std::shared_ptr<std::byte[]>;

// From -1 to 1, as many as there are in `desc`.
std::vector<float> random_floats(const dnnl::memory::desc& desc);
TrialBlock block_of(const dnnl::memory::desc& desc);
// Writes `floats`, in order, to memory as `desc` says; and back.
void write_floats(const dnnl::memory::desc& desc, std::vector<float>& floats, void* to);
std::vector<float> read_floats(const dnnl::memory::desc& desc, void* from);
TrialBlock filled_block(const dnnl::memory::desc& desc, std::vector<float>& floats);

// Whether results that are rounded to `type` are those of another order of sums, or were rounded
// once more on the way.
bool are_near(const std::vector<float>& a, const std::vector<float>& b,
              dnnl::memory::data_type type);

}  // namespace cpuaccel::graph
