#include "torch_ao/quantized_checks.h"

#include <c10/util/Exception.h>

#include <cmath>

#include "torch_ao/engine.h"
#include "torch_ao/torch_compat.h"

namespace cpuaccel::torch_ao {

void check_output_quantizer(const char* op, double scale, int64_t zero_point, const char* prefix,
                            at::ScalarType dtype) {
  TORCH_CHECK(std::isfinite(scale) && scale > 0.0, op, ": expected ", prefix,
              "scale to be positive and finite, but got ", scale);
  const int64_t least = dtype == at::kQInt8 ? -128 : 0;
  TORCH_CHECK(zero_point >= least && zero_point <= least + 255, op, ": expected ", prefix,
              "zero_point to be between ", least, " and ", least + 255, ", but got ", zero_point);
}

namespace {

void check_8bit(const char* op, const char* name, const at::Tensor& tensor, bool qint8) {
  TORCH_CHECK(tensor.defined() && tensor.device().is_cpu(), op, ": expected ", name,
              " to be a CPU tensor, but got device ",
              tensor.defined() ? tensor.device().str() : "(undefined)");
  const auto dtype = tensor.scalar_type();
  TORCH_CHECK(dtype == at::kQUInt8 || (qint8 && dtype == at::kQInt8), op, ": Expected ", name,
              " data type ", toString(at::kQUInt8), qint8 ? " or QInt8" : "", " but got ",
              toString(dtype));
  const auto qscheme = at::get_qtensorimpl(tensor)->quantizer()->qscheme();
  TORCH_CHECK(qscheme == at::kPerTensorAffine, op, ": expected ", name,
              " to be quantized per tensor, but got qscheme ", toString(qscheme));
}

}  // namespace

void check_quint8(const char* op, const char* name, const at::Tensor& tensor) {
  check_8bit(op, name, tensor, false);
}

void check_activation(const char* op, const char* name, const at::Tensor& tensor) {
  check_8bit(op, name, tensor, kReplacedEngine.qint8);
}

}  // namespace cpuaccel::torch_ao
