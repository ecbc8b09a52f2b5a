#include "ops/overrides.h"

#include <vector>

namespace cpuaccel::ops {
namespace {

// A local static, because other files may register rows before this file's statics exist.
std::vector<Override>& all_rows() {
  static std::vector<Override> rows;
  return rows;
}

}  // namespace

RegisterOverrides::RegisterOverrides(std::initializer_list<Override> rows) {
  all_rows().insert(all_rows().end(), rows);
}

std::span<const Override> op_overrides() { return all_rows(); }

}  // namespace cpuaccel::ops
