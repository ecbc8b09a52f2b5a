// Fours and pairs of steps for QconvForm::matched.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/qconv/qconv.h"

namespace cpuaccel::kernels {

// Matches the steps of each block and tap of `packed`, whose form is `whole`. Nothing if more than
// one of `one_of` steps stays without a partner, or if a run has too many steps for QconvOrder.
std::optional<QconvOrder> match_steps(const QconvWeights& packed, int64_t one_of);

// Puts the steps of `values`, which have the packed layout, in order, or back.
void put_in_order(const QconvWeights& packed, const QconvOrder& order, int8_t* values);
void put_back(const QconvWeights& packed, const QconvOrder& order, int8_t* values);

}  // namespace cpuaccel::kernels
