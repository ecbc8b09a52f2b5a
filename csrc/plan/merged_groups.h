// Merges narrow groups of a BF16 grouped convolution into fewer, wider groups. Weights between
// channels of different groups are zero. AMX tiles multiply 32 channels at once, many times as fast
// as AVX512-BF16 multiplies the 4 or 8 channels of a group.
//
// The results are the same sums, with zeros added. But a NaN or an infinity in a source channel
// makes the whole wider group NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/layer_shape.h"

namespace cpuaccel::plan {

// The layout of weights [groups * OC, IC, ...] as [groups, OC, IC, ...].
TensorDesc split_groups(TensorDesc weights, int64_t groups);

// How many groups of `layer` to merge into one; 1 for none. `shaped` has its weights as [groups,
// OC, IC, ...]. The tuning cache has the number (dnnl/tuning_cache.h), or tuning finds it now
// if there is AMX.
int64_t groups_to_merge(const Building& building, const Layer& layer, const Shaped& shaped);

// The dense layout of weights [groups, OC, IC, ...] after every `merged` groups are merged into
// one.
TensorDesc merge_groups(const TensorDesc& weights, int64_t merged);

// The weights at `data`, with the layout `weights` and elements of `type`, in merged groups.
std::vector<std::byte> merge_groups(const void* data, const TensorDesc& weights, DataType type,
                                    int64_t merged);

}  // namespace cpuaccel::plan
