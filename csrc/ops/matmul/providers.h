// Which library computes a matrix product: a table per machine, measured, first match wins.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/counters.h"
#include "ops/matmul/call.h"

namespace cpuaccel::ops {

// A row of cpuaccel/matmul.csv that is for this machine.
struct MatmulRow {
  at::ScalarType type;
  int64_t max_M;     // rows of src, at most
  int64_t max_work;  // batch * M * N * K, at most
  Provider provider;
};

// Replaces the table; products already running keep theirs. Without one everything is torch's.
void set_matmul_rows(std::vector<MatmulRow> rows);

// Forces one provider for all products; nothing restores the table.
void force_matmul_provider(std::optional<Provider> provider);

// The provider for a call of the sizes of `call` with these operands, which is `added` to something
// or not; intree where no row matches.
Provider choose_matmul_provider(const MatmulCall& call, const at::Tensor& src,
                                const at::Tensor& weights, bool added);

}  // namespace cpuaccel::ops
