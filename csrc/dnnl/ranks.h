// The tuning cache: what tuning found, by the text of the problem.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace cpuaccel::dnnl_layer {

// All results, by the text of the problem: those timed here, and those that set_known_ranks()
// loaded. The caller stores them longer than the process.
std::map<std::string, int> known_ranks();
void set_known_ranks(std::map<std::string, int> results);

// One result, by a text of the caller's. known_rank() looks it up. know_rank() stores it and
// returns what is stored, which is another thread's result if that came first. rank_of() does both
// and calls `timed` if nothing is stored.
std::optional<int> known_rank(const std::string& name);
int know_rank(const std::string& name, int result);
// While tuning is limited (dnnl/few_trials.h), rank_of() returns `guess` of the result of a similar
// problem.
int rank_of(const std::string& name, const std::function<int()>& timed,
            const std::function<int(int)>& guess = {});

// While tuning is limited, returns the result of the nearest timed problem, or kNoRank if there is
// no such problem. Returns nullopt if `name` is to be timed.
inline constexpr int kNoRank = -1;
std::optional<int> rank_alike(const std::string& name);

// The end of such a text: the number of threads and the best ISA.
std::string conditions();

// On by default.
void set_timing(bool on);
bool timing();

// Added to the results of sliced primitives only. All other results are smaller.
inline constexpr int kSlicedRank = 64;

}  // namespace cpuaccel::dnnl_layer
