#include "dnnl/implementations.h"

#include <algorithm>
#include <string>
#include <vector>

#include "dnnl/known_bugs.h"

namespace cpuaccel::dnnl_layer {

void take_implementation(dnnl::primitive_desc_base& desc, int number, int64_t pixels) {
  std::vector<std::string> seen;
  for (;;) {
    std::string name = desc.impl_info_str();
    const bool is_new = std::find(seen.begin(), seen.end(), name) == seen.end();
    if (is_new && !writes_past_results(name, pixels)) {
      if (static_cast<int>(seen.size()) == number) {
        return;
      }
      seen.push_back(std::move(name));
    }
    dnnl::error::wrap_c_api(dnnl_primitive_desc_next_impl(desc.get()),
                            "oneDNN has no further implementation");
  }
}

}  // namespace cpuaccel::dnnl_layer
