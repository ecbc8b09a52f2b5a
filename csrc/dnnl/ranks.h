// The tuning cache: what tuning found, by the text of the problem.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace cpuaccel::dnnl_layer {

// The tuning cache, ranks by a problem's text: what was timed here, and what set_known_ranks()
// loaded. The caller keeps it longer than the process.
std::map<std::string, int> known_ranks();
void set_known_ranks(std::map<std::string, int> ranks);

// For choices that the caller times, by a text of the caller's. known_rank() looks the choice up.
// know_rank() stores it and returns what is stored, which is another thread's rank if that came
// first. rank_of() does both and calls `timed` if nothing is stored.
std::optional<int> known_rank(const std::string& name);
int know_rank(const std::string& name, int rank);
// While few trials are wanted (dnnl/few_trials.h), rank_of() returns `guess` of the rank of a
// similar problem.
int rank_of(const std::string& name, const std::function<int()>& timed,
            const std::function<int(int)>& guess = {});

// Returns the rank of the nearest timed problem if few trials are wanted (FewTrials), kNoRank if
// there is no such problem, and nullopt if `name` is to be timed.
inline constexpr int kNoRank = -1;
std::optional<int> rank_alike(const std::string& name);

// The end of such a text: the number of threads and the best ISA.
std::string conditions();

// On by default.
void set_timing(bool on);
bool timing();

// Added to the ranks of sliced primitives only. All plain ranks are smaller.
inline constexpr int kSlicedRank = 64;

}  // namespace cpuaccel::dnnl_layer
