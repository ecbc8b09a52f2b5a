// The Python module cpuaccel._C: configuration, statistics, and checks of Python objects that take
// long in Python. Ops go through torch.

#include <c10/core/ScalarType.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/isa.h"
#include "base/learned_choice.h"
#include "base/log.h"
#include "base/plugin.h"
#include "base/team.h"
#include "bind/front_ends.h"
#include "bind/layer_places.h"
#include "bind/layer_views.h"
#include "bind/registration.h"
#include "bind/same_objects.h"
#include "bind/settings.h"
#include "bind/step_times.h"
#include "bind/watched_numbers.h"
#include "kernels/qgemm/block.h"
#include "memory/machine.h"
#include "ops/allocator.h"
#include "ops/conv_choice.h"
#include "ops/matmul/fastmath.h"
#include "ops/matmul/providers.h"
#include "ops/packed_weight_cache.h"
#include "ops/prepack/packed_weight.h"
#include "ops/tensor_cache.h"
#include "quant/providers.h"

#ifdef CPUACCEL_HAS_ONEDNN
#include "dnnl/primitive_cache.h"
#include "dnnl/tuning_cache.h"
#include "ops/attention_tuning.h"
#include "ops/region/region_cache.h"
#include "plan/packed_weights.h"
#include "plan/partitions.h"
#include "plan/plan.h"
#include "plan/step_registry.h"
#endif

namespace py = pybind11;

namespace cpuaccel {
namespace {

void set_provider_by_name(const std::string& name) {
  if (name == "auto") {
    quant::force_provider(std::nullopt);
    return;
  }
  for (const auto provider :
       {Provider::cpuaccel, Provider::onednn, Provider::fbgemm, Provider::intree}) {
    if (name == provider_name(provider)) {
      quant::force_provider(provider);
      return;
    }
  }
  throw std::invalid_argument(
      "provider: expected auto, cpuaccel, onednn, fbgemm or intree, but got '" + name + "'");
}

std::optional<Provider> matmul_provider_by_name(const std::string& name) {
  for (const auto provider : {Provider::cpuaccel, Provider::onednn, Provider::intree}) {
    if (name == provider_name(provider)) {
      return provider;
    }
  }
  return std::nullopt;
}

void force_matmul_provider_by_name(const std::string& name) {
  const auto provider = matmul_provider_by_name(name);
  if (!provider && name != "auto") {
    throw std::invalid_argument(
        "matmul_provider: expected auto, cpuaccel, onednn or intree, but got '" + name + "'");
  }
  ops::force_matmul_provider(provider);
}

at::ScalarType matmul_type_by_name(const std::string& name) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    if (name == c10::getDtypeNames(type).first) {
      return type;
    }
  }
  throw std::invalid_argument(
      "matmul rows: dtype: expected float32, bfloat16 or float16, but got '" + name + "'");
}

// Rows of (dtype, max_M, max_work, provider, measured_here).
using NamedRow = std::tuple<std::string, int64_t, int64_t, std::string, bool>;

void set_matmul_rows(const std::vector<NamedRow>& named) {
  std::vector<ops::MatmulRow> rows;
  for (const auto& [type, max_M, max_work, name, measured_here] : named) {
    const auto provider = matmul_provider_by_name(name);
    if (!provider) {
      throw std::invalid_argument(
          "matmul rows: provider: expected cpuaccel, onednn or intree, but got '" + name + "'");
    }
    rows.push_back({matmul_type_by_name(type), max_M, max_work, *provider, measured_here});
  }
  ops::set_matmul_rows(std::move(rows));
}

void set_fastmath_by_name(const std::string& name) {
  if (name != "auto" && name != "off" && name != "emulate") {
    throw std::invalid_argument("fastmath: expected auto, off or emulate, but got '" + name + "'");
  }
  ops::set_fastmath_mode(name == "auto"  ? ops::FastmathMode::automatic
                         : name == "off" ? ops::FastmathMode::off
                                         : ops::FastmathMode::emulate);
}

void check_capacity(const char* name, int64_t capacity) {
  if (capacity < 0) {
    throw std::invalid_argument(std::string(name) + ": expected 0 or more, but got " +
                                std::to_string(capacity));
  }
}

void set_primitive_cache_capacity(int64_t capacity) {
  check_capacity("primitive_cache_capacity", capacity);
#ifdef CPUACCEL_HAS_ONEDNN
  dnnl_layer::PrimitiveCache::instance().set_capacity(capacity);
#endif
}

// Of plans' layers and of learned choices, whose keys begin with "learned".
std::map<std::string, int> tuning_results() {
  auto results = learned_results();
#ifdef CPUACCEL_HAS_ONEDNN
  results.merge(dnnl_layer::tuning_results());
#endif
  return results;
}

void set_tuning_results(std::map<std::string, int> results) {
  std::map<std::string, int> learned;
  for (auto next = results.begin(); next != results.end();) {
    const auto each = next++;
    if (each->first.starts_with("learned ")) {
      learned.insert(results.extract(each));
    }
  }
  set_learned_results(std::move(learned));
#ifdef CPUACCEL_HAS_ONEDNN
  dnnl_layer::set_tuning_results(std::move(results));
#endif
}

py::dict learning_stats_as_dict() {
  const auto stats = learning_stats();
  py::dict result;
  result["on"] = learning();
  result["chosen"] = stats.chosen;
  result["open"] = stats.open;
  result["probes"] = stats.probes;
  result["probe_seconds"] = stats.probe_seconds;
  return result;
}

py::dict primitive_cache_stats() {
  py::dict result;
  for (const char* key : {"capacity", "size", "hits", "misses", "evictions", "bytes"}) {
    result[key] = 0;
  }
#ifdef CPUACCEL_HAS_ONEDNN
  const auto stats = dnnl_layer::PrimitiveCache::instance().stats();
  result["capacity"] = stats.capacity;
  result["size"] = stats.size;
  result["hits"] = stats.hits;
  result["misses"] = stats.misses;
  result["evictions"] = stats.evictions;
  result["bytes"] = stats.bytes;
#endif
  return result;
}

void set_graph_cache_capacity(int64_t capacity) {
  check_capacity("graph_cache_capacity", capacity);
#ifdef CPUACCEL_HAS_ONEDNN
  ops::RegionCache::instance().set_capacity(capacity);
#endif
}

#ifdef CPUACCEL_HAS_ONEDNN
// For each partition: whether it is supported, and the indices of its operations.
std::vector<std::pair<bool, std::vector<size_t>>> find_partitions(const std::string& program) {
  std::vector<std::pair<bool, std::vector<size_t>>> result;
  for (auto& found : plan::find_partitions(plan::parse_region(program))) {
    result.emplace_back(found.supported, std::move(found.operations));
  }
  return result;
}

std::vector<std::string> uncompilable_reasons(const std::string& program) {
  return plan::uncompilable_reasons(plan::parse_region(program));
}
#endif

py::dict cache_stats(const ops::CacheStats& stats) {
  py::dict result;
  result["capacity"] = stats.capacity;
  result["size"] = stats.size;
  result["bytes"] = stats.bytes;
  result["hits"] = stats.hits;
  result["misses"] = stats.misses;
  result["stale"] = stats.stale;
  result["evictions"] = stats.evictions;
  return result;
}

// `mebibytes`: -1 for a quarter of the memory limit.
template <typename Cache>
void set_capacity(Cache& cache, int64_t mebibytes) {
  cache.set_capacity(mebibytes < 0 ? memory::machine_memory().limit / 4 : mebibytes << 20);
}
void set_weight_cache(int64_t mebibytes) {
  set_capacity(ops::weight_cache(), mebibytes);
  set_capacity(ops::PackedWeightCache::instance(), mebibytes);
}
void set_plan_weights([[maybe_unused]] int64_t mebibytes) {
#ifdef CPUACCEL_HAS_ONEDNN
  plan::PackedWeights::set_limit(mebibytes < 0 ? memory::machine_memory().limit / 4
                                               : mebibytes << 20);
#endif
}
void set_index_cache(int64_t mebibytes) { set_capacity(ops::index_cache(), mebibytes); }

py::dict all_stats() {
  py::dict memory;
  memory["packed_weight_bytes"] = packed_weight_bytes().load();
  py::dict result;
  result["calls"] = calls().snapshot();
  result["prepacks"] = prepacks().snapshot();
  result["fallbacks"] = fallbacks();
  result["primitive_cache"] = primitive_cache_stats();
#ifdef CPUACCEL_HAS_ONEDNN
  result["graph_cache"] = cache_stats(ops::RegionCache::instance().stats());
#else
  result["graph_cache"] = cache_stats({});
#endif
  result["weight_cache"] = cache_stats(ops::weight_cache().stats());
  result["kept_weights"] = cache_stats(ops::PackedWeightCache::instance().stats());
  result["index_cache"] = cache_stats(ops::index_cache().stats());
  result["memory"] = memory;
  result["learning"] = learning_stats_as_dict();
  return result;
}

void reset_all_stats() {
  reset_counters();
  ops::weight_cache().reset_stats();
  ops::PackedWeightCache::instance().reset_stats();
  ops::index_cache().reset_stats();
#ifdef CPUACCEL_HAS_ONEDNN
  dnnl_layer::PrimitiveCache::instance().reset_stats();
  ops::RegionCache::instance().reset_stats();
#endif
}

void clear_all_caches() {
  ops::weight_cache().clear();  // before the memory that it gives back
  ops::PackedWeightCache::instance().clear();
  ops::index_cache().clear();
  ops::block_pool().empty();
#ifdef CPUACCEL_HAS_ONEDNN
  ops::RegionCache::instance().clear();
  dnnl_layer::PrimitiveCache::instance().clear();
#endif
}

py::dict memory_stats() {
  const auto stats = ops::block_pool().stats();
  py::dict result;
  result["allocated"] = stats.allocated;
  result["reserved"] = stats.reserved;
  result["peak_allocated"] = stats.peak_allocated;
  result["peak_reserved"] = stats.peak_reserved;
  result["hits"] = stats.hits;
  result["misses"] = stats.misses;
  result["trims"] = stats.trims;
  return result;
}

// `mebibytes`: -1 for half of the memory limit.
void set_memory_cache(int64_t mebibytes) {
  ops::block_pool().set_capacity(mebibytes < 0 ? -1 : mebibytes << 20);
}

py::dict build_info() {
  py::dict result;
  result["torch"] = CPUACCEL_TORCH_VERSION;
#ifdef CPUACCEL_HAS_ONEDNN
  result["onednn_compiled"] = dnnl_layer::compiled_version();
  result["onednn_runtime"] = dnnl_layer::runtime_version();
#else
  result["onednn_compiled"] = py::none();
  result["onednn_runtime"] = py::none();
#endif
  result["fbgemm"] = quant::provider_available(Provider::fbgemm);
  result["quantized_tensors"] = replaced_engine().has_value();
  result["compiler"] = __VERSION__;
  return result;
}

// The sink may be called from threads that do not hold the interpreter lock.
void set_python_log_sink(const std::optional<py::function>& sink) {
  if (!sink) {
    set_log_sink({});
    return;
  }
  const std::shared_ptr<py::function> callback(new py::function(*sink), [](py::function* function) {
    const py::gil_scoped_acquire lock;
    std::unique_ptr<py::function>(function).reset();
  });
  set_log_sink([callback](const std::string& message) {
    const py::gil_scoped_acquire lock;
    (*callback)(message);
  });
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  set_weight_cache(-1);
  set_plan_weights(-1);
  set_index_cache(-1);
  module.doc() = "Configuration and statistics of cpuaccel's native part.";
  module.def("install", &register_overrides, py::call_guard<py::gil_scoped_release>(),
             "Registers cpuaccel's kernels over torch's.");
  module.def("uninstall", &unregister_overrides, py::call_guard<py::gil_scoped_release>(),
             "Restores torch's own kernels.");
  module.def("is_installed", &plugin_on);
  module.def(
      "install_allocator", &ops::install_allocator,
      "Installs cpuaccel's CPU allocator; returns the reason if it cannot, else an empty string.");
  module.def("uninstall_allocator", &ops::uninstall_allocator);
  module.def("allocator_installed", &ops::allocator_installed);
  module.def("memory_stats", &memory_stats);
  module.def("reset_memory_peaks", [] { ops::block_pool().reset_peaks(); });
  module.def("empty_memory_cache", &ops::empty_memory_cache,
             py::call_guard<py::gil_scoped_release>());
  module.def("set_memory_cache", &set_memory_cache, py::arg("mebibytes"));
  module.def("set_weight_cache", &set_weight_cache, py::arg("mebibytes"));
  module.def("set_plan_weights", &set_plan_weights, py::arg("mebibytes"));
  module.def("set_index_cache", &set_index_cache, py::arg("mebibytes"));
  module.def("overridden_ops", &overridden_ops);
  module.def("overridden_kernels", &overridden_kernels);
  module.def("set_deterministic", &set_deterministic, py::arg("on"));
  module.def("set_learn", &set_learn, py::arg("on"));
  module.def("set_cpu", &set_cpu, py::arg("names"));
  module.def("set_learning_share", &set_learning_share, py::arg("share"),
             "The part of the CPU time that probes of learned choices may take: 0.01 unless set.");
  module.def("clear_learned_choices", &clear_learned_choices);
  module.def("set_teams", &set_teams, py::arg("on"));
  module.def("teams_opened", &teams_opened);
  module.def("tuning_results", &tuning_results);
  module.def("set_tuning_results", &set_tuning_results, py::arg("results"));
  module.def("set_primitive_cache_capacity", &set_primitive_cache_capacity, py::arg("capacity"));
  module.def("set_graph_cache_capacity", &set_graph_cache_capacity, py::arg("capacity"));
#ifdef CPUACCEL_HAS_ONEDNN
  module.def(
      "attention_plan_fallback_reason",
      [](int64_t N, int64_t H, int64_t L, int64_t S, int64_t E, bool bf16, bool mask, bool causal) {
        return ops::attention_plan_fallback_reason({N, H, L, S, E, bf16, mask, causal});
      },
      py::arg("N"), py::arg("H"), py::arg("L"), py::arg("S"), py::arg("E"), py::arg("bf16"),
      py::arg("mask"), py::arg("causal"), py::call_guard<py::gil_scoped_release>());
  module.def(
      "time_attention",
      [](int64_t N, int64_t H, int64_t L, int64_t S, int64_t E, bool bf16, bool mask, bool causal) {
        const auto times = ops::time_attention({N, H, L, S, E, bf16, mask, causal});
        return std::make_pair(times.cpuaccel, times.torch);
      },
      py::arg("N"), py::arg("H"), py::arg("L"), py::arg("S"), py::arg("E"), py::arg("bf16"),
      py::arg("mask"), py::arg("causal"), py::call_guard<py::gil_scoped_release>());
  module.def("find_partitions", &find_partitions, py::arg("program"),
             py::call_guard<py::gil_scoped_release>());
  module.def("registered_op_kinds", &plan::registered_op_kinds);
  module.def("uncompilable_reasons", &uncompilable_reasons, py::arg("program"),
             py::call_guard<py::gil_scoped_release>());
#endif
  module.def("set_max_isa", &set_max_isa_by_name, py::arg("name"));
  module.def("set_cpuaccel_convolutions_only", &ops::set_cpuaccel_convolutions_only,
             py::arg("only"));
  module.def("set_provider", &set_provider_by_name, py::arg("name"));
  module.def("set_matmul_provider", &force_matmul_provider_by_name, py::arg("name"));
  module.def("set_fastmath", &set_fastmath_by_name, py::arg("name"));
  module.def("fastmath_asked", &ops::fastmath_asked);
  module.def("fastmath_on", &ops::fastmath_on);
  module.def("has_bf16_arithmetic", &has_bf16_arithmetic);
  module.def("has_fp16_arithmetic", &has_fp16_arithmetic);
  module.def("has_amx_arithmetic", &has_amx_arithmetic);
  module.def("packed_convolution_fallback_reason", &ops::convolution_fallback_reason);
  module.def("rounds_while_packing", &ops::rounds_while_packing);
  module.def("set_matmul_rows", &set_matmul_rows, py::arg("rows"));
  module.def("count_fallback",
             [](const std::string& op, const std::string& reason) { count_fallback(op, reason); });
  module.def("add_packed_weight_bytes", [](int64_t bytes) { packed_weight_bytes() += bytes; });
  module.def("gemm_panel", &ops::gemm_panel,
             "Columns of a panel of packed weights, for the ISA in use.");
  module.def("gemm_panels", &ops::gemm_panels,
             "The panel widths that kernels in use can read, best first.");
  module.def("pairs_panels", &ops::pairs_panels, "The same for pairs of bfloat16.");
  module.def(
      "packed_int8_bytes",
      [](int64_t out_features, int64_t in_features) {
        return kernels::qgemm_block_bytes(in_features, out_features);
      },
      py::arg("out_features"), py::arg("in_features"),
      "Bytes of what cpuaccel::pack_int8 returns for a weight of this shape, for the ISA in use.");
  module.def("packs_pairs", &ops::packs_pairs, "Whether bfloat16 weights are packed in pairs.");
  module.def("pairs_panel", &ops::pairs_panel, "Columns of a panel of pairs, for the ISA in use.");
  module.def("pairs_depth", &ops::pairs_depth, py::arg("in_features"),
             "Pairs in one packed column of weights with this many input features.");
  module.def("cpu_vendor", &cpu_vendor);
  module.def("cpu_core", &cpu_core);
  module.def("set_log_sink", &set_python_log_sink, py::arg("sink").none(true));
  module.def("stats", &all_stats);
  module.def("reset_stats", &reset_all_stats);
  module.def("clear_caches", &clear_all_caches);
  module.def("build_info", &build_info);
  module.def("cpu_features", &cpu_features);
  module.def("isa", [] { return isa_name(best_isa()); });
  bind_layer_views(module);
#ifdef CPUACCEL_HAS_ONEDNN
  bind_layer_places(module);
#endif
  bind_same_objects(module);
  bind_watched_numbers(module);
  bind_step_times(module);
  module.def("torch_engine", &replaced_engine,
             "The quantized engine of torch that cpuaccel replaces; None in a build without "
             "torch's quantized tensors.");
}

}  // namespace cpuaccel
