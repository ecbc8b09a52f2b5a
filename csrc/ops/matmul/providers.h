// Chooses the library (cpuaccel, oneDNN, torch) of a matrix product from a measured table for each
// machine. The first matching row wins. Rows that were measured on another CPU suggest a library;
// calls then learn which one is the fastest here (base/learned_choice.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/counters.h"
#include "base/learned_choice.h"
#include "ops/matmul/call.h"

namespace cpuaccel::ops {

// A row of cpuaccel/matmul.csv for this machine.
struct MatmulRow {
  at::ScalarType type;
  int64_t max_M;     // rows of src, at most
  int64_t max_work;  // batch * M * N * K, at most
  Provider provider;
  bool measured_here;  // on this core, in time
};

// Replaces the table; running products keep theirs. Without a table, torch computes all products.
void set_matmul_rows(std::vector<MatmulRow> rows);

// Forces one provider for all products; nullopt restores the table.
void force_matmul_provider(std::optional<Provider> provider);

struct ChosenProvider {
  Provider provider = Provider::intree;
  LearnedChoice* open = nullptr;  // calls still learn whether another provider is faster
};

// The provider for a call with the sizes of `call` and these operands. `added`: the call also adds
// something (addmm, baddbmm). If no row matches, intree is suggested.
ChosenProvider choose_matmul_provider(const MatmulCall& call, const at::Tensor& src,
                                      const at::Tensor& weights, bool added);

// Multiply-adds of a call. In double, because the product of four sizes may overflow int64.
inline double multiply_adds(const MatmulCall& call) {
  return static_cast<double>(call.batch) * static_cast<double>(call.M) *
         static_cast<double>(call.N) * static_cast<double>(call.K);
}

}  // namespace cpuaccel::ops
