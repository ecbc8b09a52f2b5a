// Chooses the library (cpuaccel, oneDNN, torch) of a matrix product from a measured table for each
// machine. The first matching row wins.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/counters.h"
#include "ops/matmul/call.h"

namespace cpuaccel::ops {

// A row of cpuaccel/matmul.csv for this machine.
struct MatmulRow {
  at::ScalarType type;
  int64_t max_M;     // rows of src, at most
  int64_t max_work;  // batch * M * N * K, at most
  Provider provider;
};

// Replaces the table; running products keep theirs. Without a table, torch computes all products.
void set_matmul_rows(std::vector<MatmulRow> rows);

// Forces one provider for all products; nullopt restores the table.
void force_matmul_provider(std::optional<Provider> provider);

// The provider for a call with the sizes of `call` and these operands. `added`: the call also adds
// something (addmm, baddbmm). intree if no row matches.
Provider choose_matmul_provider(const MatmulCall& call, const at::Tensor& src,
                                const at::Tensor& weights, bool added);

}  // namespace cpuaccel::ops
