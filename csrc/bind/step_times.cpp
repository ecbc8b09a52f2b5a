#include "bind/step_times.h"

#include <ATen/Parallel.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "base/data_type.h"
#include "base/isa.h"
#include "kernels/peaks/peaks.h"
#ifdef CPUACCEL_HAS_ONEDNN
#include "ops/region/region_cache.h"
#endif

namespace cpuaccel {
namespace {

namespace py = pybind11;

#ifdef CPUACCEL_HAS_ONEDNN
py::dict as_dict(const plan::Step& step) {
  const auto& facts = step.facts;
  py::dict result;
  result["kinds"] = facts.kinds;
  result["kernel"] = step.kernel();
  result["sizes"] = facts.sizes;
  result["dtype"] = data_type_name(facts.type);
  result["multiply_adds"] = facts.multiply_adds;
  result["bytes_read"] = facts.bytes_read;
  result["bytes_written"] = facts.bytes_written;
  // Values of the program. Any other id is a copy in another memory order.
  result["inputs"] = step.inputs;
  result["outputs"] = step.outputs;
  return result;
}
#endif

// For each program that was run: its steps, and the nanoseconds of each run, first of each step and
// then of the whole.
py::list step_times() {
  py::list programs;
#ifdef CPUACCEL_HAS_ONEDNN
  for (const auto& [name, ready] : ops::RegionCache::instance().timed()) {
    py::list steps;
    for (size_t i = 0; i < ready->compiled().step_count(); ++i) {
      steps.append(as_dict(ready->compiled().step(i)));
    }
    py::dict program;
    program["name"] = name;
    program["steps"] = steps;
    program["nanoseconds"] = ready->times().runs();
    programs.append(program);
  }
#endif
  return programs;
}

void time_steps([[maybe_unused]] bool on) {
#ifdef CPUACCEL_HAS_ONEDNN
  if (on) {
    ops::RegionCache::instance().clear_times();
  }
  ops::time_steps(on);
#endif
}

// Multiply-adds per second by dtype, and seconds to read and to write a byte out of `footprint`
// bytes.
py::dict machine_peaks(double footprint) {
  const auto peaks = [&] {
    const py::gil_scoped_release release;
    return kernels::measured_peaks(at::get_num_threads(), footprint);
  }();
  using kernels::Rate;
  const auto best = [&](std::initializer_list<Rate> rates) {
    double most = 0;
    for (const Rate rate : rates) {
      most = std::max(most, peaks.operations(rate, best_isa()));
    }
    return most;
  };
  py::dict result;
  result["f32"] = best({Rate::fp32});
  result["bf16"] = best({Rate::bf16, Rate::bf16_tiles});
  result["u8"] = best({Rate::int8, Rate::int8_tiles, Rate::int8_low});
  result["seconds_to_read"] = peaks.moving(1, 0);
  result["seconds_to_write"] = peaks.moving(0, 1);
  return result;
}

// Returns a function that reads the same `bytes` bytes of initialized memory on all threads at each
// call.
py::cpp_function reading(int64_t bytes) {
  if (bytes < 1) {
    throw py::value_error("bytes: expected at least 1, got " + std::to_string(bytes));
  }
  return py::cpp_function([run = kernels::reading_run(at::get_num_threads(), bytes).run] {
    const py::gil_scoped_release release;
    run();
  });
}

}  // namespace

void bind_step_times(py::module_& module) {
  module.def("time_steps", &time_steps, py::arg("on"));
  module.def("step_times", &step_times);
  module.def("machine_peaks", &machine_peaks, py::arg("footprint"));
  module.def("reading", &reading, py::arg("bytes"));
}

}  // namespace cpuaccel
