// Ops that describe a packed object for cpuaccel.explain(), as JSON (Layer::describe()).

#include <torch/custom_class.h>
#include <torch/library.h>

#include "torch_ao/conv_params.h"
#include "torch_ao/linear_params.h"

namespace cpuaccel::torch_ao {
namespace {

std::string torchs_own() {
  return R"({"provider": "torch", "kernel": "", "reason": "packed by torch, not by cpuaccel", )"
         R"("problem": "", "packed_bytes": 0, "calls": 0, "note": ""})";
}

std::string describe_linear(const c10::intrusive_ptr<LinearPackedParamsBase>& packed) {
  const auto* params = dynamic_cast<const LinearParams*>(packed.get());
  return params != nullptr ? params->describe() : torchs_own();
}

template <int kSpatial>
std::string describe_conv(const c10::intrusive_ptr<ConvPackedParamsBase<kSpatial>>& packed) {
  const auto* params = dynamic_cast<const ConvParams<kSpatial>*>(packed.get());
  return params != nullptr ? params->describe() : torchs_own();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def("describe_linear", TORCH_FN(describe_linear));
  library.def("describe_conv2d", TORCH_FN(describe_conv<2>));
  library.def("describe_conv3d", TORCH_FN(describe_conv<3>));
}

}  // namespace cpuaccel::torch_ao
