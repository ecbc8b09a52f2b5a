// Convolutions of narrow groups in BF16 as convolutions of fewer and wider groups: channels of
// several groups together, with weights of zero between those that do not belong together. Tiles of
// AMX multiply 32 channels at once, many times as fast as AVX512-BF16 multiplies the 4 or 8 that a
// group has.
//
// Results are the same sums, with zeros added. But a NaN or an infinity in a source channel makes
// NaN of the whole wider group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/layer_shape.h"

namespace cpuaccel::graph {

// Weights [OC, IC, ...] of all groups as [groups, OC, IC, ...].
TensorDesc by_group(TensorDesc weights, int64_t groups);

// How many of the groups of `layer`, whose weights `shaped` has as [groups, OC, IC, ...], are
// faster together: as it is known (dnnl/ranks.h), or found out by running some where there is AMX.
// 1 where that is not to be.
int64_t groups_at_once(const Building& building, const Layer& layer, const Shaped& shaped);

// Makes weights [groups, OC, IC, ...] those of groups that are `at_once` wide, dense.
TensorDesc in_wide_groups(const TensorDesc& weights, int64_t at_once);

// The weights at `data`, which lie as `weights` says and are of `type`, in wide groups.
std::vector<std::byte> in_wide_groups(const void* data, const TensorDesc& weights, DataType type,
                                      int64_t at_once);

}  // namespace cpuaccel::graph
