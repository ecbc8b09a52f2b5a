// The tuning cache: what tuning found, by key. A key is a text that has everything that decides
// which candidate is the fastest.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/api.h"

namespace cpuaccel::dnnl_layer {

// All results, by key: those timed here, and those that set_tuning_results() loaded. The caller
// stores them longer than the process.
CPUACCEL_API std::map<std::string, int> tuning_results();
CPUACCEL_API void set_tuning_results(std::map<std::string, int> results);

// One result, by the caller's key. cached_tuning_result() looks it up. cache_tuning_result() stores
// it and returns what is stored, which is another thread's result if that came first.
// tuning_result() does both and calls `tune` if nothing is stored.
CPUACCEL_API std::optional<int> cached_tuning_result(const std::string& key);
CPUACCEL_API int cache_tuning_result(const std::string& key, int result);
// While tuning is limited (dnnl/limited_tuning.h), tuning_result() returns `guess` of the result of
// a similar problem.
CPUACCEL_API int tuning_result(const std::string& key, const std::function<int()>& tune,
                               const std::function<int(int)>& guess = {});

// While tuning is limited, returns the result of the nearest timed problem, or kNoTuningResult if
// there is no such problem. Returns nullopt if `key` is to be timed.
inline constexpr int kNoTuningResult = -1;
CPUACCEL_API std::optional<int> similar_tuning_result(const std::string& key);

// The end of a key: the number of threads and the best ISA.
CPUACCEL_API std::string tuning_conditions();

// On by default.
CPUACCEL_API void set_tuning_enabled(bool on);
CPUACCEL_API bool tuning_enabled();

// Added to the results of sliced primitives only. All other results are smaller.
inline constexpr int kSlicedResult = 64;

}  // namespace cpuaccel::dnnl_layer
