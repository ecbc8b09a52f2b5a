#include "plan/engine.h"

#include "dnnl/describe.h"
#include "dnnl/primitive.h"

namespace cpuaccel::plan {

const dnnl::engine& engine() {
  // oneDNN Graph's cache would give two layers of the same shape one compiled partition, and so the
  // weights of one of them. Its constant cache keeps packed weights with the compiled partition,
  // and frees them with it. It has to be on before the first partition is compiled.
  static const bool set = [] {
    dnnl::graph::set_compiled_partition_cache_capacity(0);
    dnnl::graph::set_constant_tensor_cache(1);
    return true;
  }();
  static_cast<void>(set);
  return dnnl_layer::engine();
}

dnnl::stream& stream() { return dnnl_layer::stream(); }

}  // namespace cpuaccel::plan
