#include "kernels/to_channels_last/impl.h"

namespace cpuaccel::kernels {

void to_channels_last_ref(const ToChannelsLastCall& call) { to_channels_last_one_by_one(call, 0); }

}  // namespace cpuaccel::kernels
