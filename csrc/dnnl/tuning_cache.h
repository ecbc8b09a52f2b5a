// The tuning cache: what tuning found, by the text of the problem.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace cpuaccel::dnnl_layer {

// All results, by the text of the problem: those timed here, and those that set_tuning_results()
// loaded. The caller stores them longer than the process.
std::map<std::string, int> tuning_results();
void set_tuning_results(std::map<std::string, int> results);

// One result, by a text of the caller's. cached_tuning_result() looks it up. cache_tuning_result()
// stores it and returns what is stored, which is another thread's result if that came first.
// tuning_result() does both and calls `timed` if nothing is stored.
std::optional<int> cached_tuning_result(const std::string& name);
int cache_tuning_result(const std::string& name, int result);
// While tuning is limited (dnnl/limited_tuning.h), tuning_result() returns `guess` of the result of
// a similar problem.
int tuning_result(const std::string& name, const std::function<int()>& timed,
                  const std::function<int(int)>& guess = {});

// While tuning is limited, returns the result of the nearest timed problem, or kNoTuningResult if
// there is no such problem. Returns nullopt if `name` is to be timed.
inline constexpr int kNoTuningResult = -1;
std::optional<int> similar_tuning_result(const std::string& name);

// The end of such a text: the number of threads and the best ISA.
std::string conditions();

// On by default.
void set_timing(bool on);
bool timing();

// Added to the results of sliced primitives only. All other results are smaller.
inline constexpr int kSlicedResult = 64;

}  // namespace cpuaccel::dnnl_layer
