// The rows of a kernel list that this machine can run, as parameters of a GoogleTest suite.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {

template <typename Function>
std::vector<KernelRow<Function>> usable_rows(std::span<const KernelRow<Function>> rows) {
  std::vector<KernelRow<Function>> usable;
  for (const auto& row : rows) {
    if (isa_usable(row.isa)) {
      usable.push_back(row);
    }
  }
  return usable;
}

struct RowName {
  template <typename Info>
  std::string operator()(const Info& info) const {
    return info.param.name;
  }
};

}  // namespace cpuaccel::kernels
