// Tuning of oneDNN: which of its implementations of a problem is the fastest, and the tuning cache.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dnnl/problem.h"

namespace cpuaccel::dnnl_layer {

// Returns `problem`, which has rank 0 and one slice, with the rank and slices of the fastest
// implementation. That comes from the tuning cache, or is timed now on memory of its own, which
// takes some milliseconds. Returns oneDNN's own choice if no other implementation wins or timing is
// off. If the problem can be sliced, slices are chosen unless an unsliced implementation clearly
// wins, because slices win more in a team. Problems that differ only in values of zero points and
// scales share one result.
Problem fastest(Problem problem);

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

// The timing of one implementation.
struct RankTrial {
  int rank = 0;
  bool sliced = false;
  std::string implementation;
  double seconds = 0;
  bool is_same = true;  // bit for bit the first one's results
};

// Times the first few implementations of `problem` on the same data, whole and in slices. The first
// result is the one to choose if none clearly wins. Any choice must give the results of oneDNN's
// own choice (is_same).
std::vector<RankTrial> try_ranks(const Problem& problem);

}  // namespace cpuaccel::dnnl_layer
