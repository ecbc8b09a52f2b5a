// Names of oneDNN Graph's ops, attributes and dtypes, as the text of a region writes them.
#pragma once

#include <optional>
#include <string_view>

#include "dnnl/api.h"

namespace cpuaccel::plan {

std::optional<dnnl::graph::op::kind> kind_of(std::string_view name);
// Whether oneDNN Graph has no such kind, and finds partitions with a similar kind in its place. It
// must not run such an op; oneDNN's primitives do.
bool is_primitive_only(std::string_view name);
std::optional<dnnl::graph::op::attr> attribute_of(std::string_view name);
std::optional<dnnl::graph::logical_tensor::data_type> type_of(std::string_view name);

// The name of a type; "" if regions do not name it.
std::string_view name_of(dnnl::graph::logical_tensor::data_type type);

// Bytes of an element of this type.
size_t bytes_of(dnnl::graph::logical_tensor::data_type type);

}  // namespace cpuaccel::plan
