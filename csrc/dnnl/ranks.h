// oneDNN's implementations of a problem, and which of them was the fastest when they were timed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dnnl/problem.h"

namespace cpuaccel::dnnl_layer {

// `problem`, which has rank 0 and one slice, with the rank and the slices of the fastest: as it is
// known, or timed now on memory of its own, some milliseconds. oneDNN's own choice where no other
// wins, and where timing is off; in slices, where there are any, unless it clearly wins: in a team
// they win more. Problems that differ in values of zero points and scales alone share one.
Problem fastest(Problem problem);

// What is known, ranks by a problem's text: what was timed here, and what set_known_ranks()
// brought. Keeping it longer than the process is up to others.
std::map<std::string, int> known_ranks();
void set_known_ranks(std::map<std::string, int> ranks);

// Of a choice that others time, by a text of theirs: what is known, and what is from now on (what
// another thread has found meanwhile stays); or both, where `timed` finds what is not known.
std::optional<int> known_rank(const std::string& name);
int know_rank(const std::string& name, int rank);
// While few trials are wanted (dnnl/few_trials.h): `guess` of the rank of a problem that is alike.
int rank_of(const std::string& name, const std::function<int()>& timed,
            const std::function<int(int)>& guess = {});

// The rank of the nearest timed problem if few trials are wanted (FewTrials), kNoRank if there is
// no such problem, and nullopt if `name` is to be timed.
inline constexpr int kNoRank = -1;
std::optional<int> rank_alike(const std::string& name);

// What such a text ends in: how many threads, and the best ISA.
std::string conditions();

// On unless it is switched off.
void set_timing(bool on);
bool timing();

// Added to the rank of what is in slices, and to no other: all of those are smaller.
inline constexpr int kSlicedRank = 64;

// What a trial found out of one implementation.
struct RankTrial {
  int rank = 0;
  bool sliced = false;
  std::string implementation;
  double seconds = 0;
  bool is_same = true;  // it returned what the first one did, to the bit
};

// Runs the first few implementations of `problem` on the same data, whole and in slices. First
// comes what is taken where none clearly wins. Whatever is chosen, results are to be those of
// oneDNN's own choice.
std::vector<RankTrial> try_ranks(const Problem& problem);

}  // namespace cpuaccel::dnnl_layer
