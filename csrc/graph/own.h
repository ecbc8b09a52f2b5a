// Kinds of ops that are ours, not oneDNN Graph's: by name, with what adds their steps.
#pragma once

#include <string_view>
#include <vector>

#include "graph/build.h"

namespace cpuaccel::graph {

// Adds the steps that compute what `operation` writes. Throws std::runtime_error where it cannot.
using AddOwn = void (*)(Building& building, const Program& program, const Operation& operation);

// For static initialisers: a kind that an upper layer brings.
struct RegisterOwn {
  RegisterOwn(std::string_view name, AddOwn add);
};

// Null if there is no such kind.
AddOwn find_own(std::string_view name);
// All of them, by name.
std::vector<std::string_view> own_kind_names();

}  // namespace cpuaccel::graph
