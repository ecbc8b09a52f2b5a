// Names of the oneDNN Graph specification, as programs have them.
#pragma once

#include <optional>
#include <string_view>

#include "dnnl/api.h"

namespace cpuaccel::graph {

std::optional<dnnl::graph::op::kind> kind_of(std::string_view name);
// Whether the library has the kind only in another form, in which it finds partitions: it must not
// run it.
bool is_primitive_only(std::string_view name);
std::optional<dnnl::graph::op::attr> attribute_of(std::string_view name);
std::optional<dnnl::graph::logical_tensor::data_type> type_of(std::string_view name);

// The other way round; "" of a type that programs do not name.
std::string_view name_of(dnnl::graph::logical_tensor::data_type type);

// Bytes of a number of this type.
size_t bytes_of(dnnl::graph::logical_tensor::data_type type);

}  // namespace cpuaccel::graph
