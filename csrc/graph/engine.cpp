#include "graph/engine.h"

#include <cstdlib>
#include <memory>

namespace cpuaccel::graph {
namespace {

void* allocate(size_t bytes, size_t alignment) {
  void* block = nullptr;
  return posix_memalign(&block, alignment < 64 ? 64 : alignment, bytes) == 0 ? block : nullptr;
}

dnnl::engine make_engine() {
  // oneDNN's own cache would give two layers of the same shape one compiled partition, and with it
  // the weights of one of them. Weights that it packs belong to a compiled partition, and go with
  // it: that has to be on before the first is compiled.
  dnnl::graph::set_compiled_partition_cache_capacity(0);
  dnnl::graph::set_constant_tensor_cache(1);
  return dnnl::graph::make_engine_with_allocator(dnnl::engine::kind::cpu, 0,
                                                 dnnl::graph::allocator(allocate, std::free));
}

}  // namespace

const dnnl::engine& engine() {
  static const auto& instance = *std::make_unique<dnnl::engine>(make_engine()).release();
  return instance;
}

dnnl::stream& stream() {
  thread_local dnnl::stream instance(engine());
  return instance;
}

}  // namespace cpuaccel::graph
