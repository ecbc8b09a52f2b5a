// Names of oneDNN Graph's ops, attributes and dtypes, as the text of a region writes them.
#pragma once

#include <optional>
#include <string_view>

#include "base/data_type.h"
#include "dnnl/api.h"

namespace cpuaccel::plan {

std::optional<dnnl::graph::op::kind> kind_of(std::string_view name);
// Whether oneDNN Graph has no such kind, and finds partitions with a similar kind in its place. It
// must not run such an op; oneDNN's primitives do.
bool is_primitive_only(std::string_view name);
std::optional<dnnl::graph::op::attr> attribute_of(std::string_view name);
// A type that a region may name.
std::optional<DataType> type_of(std::string_view name);

}  // namespace cpuaccel::plan
