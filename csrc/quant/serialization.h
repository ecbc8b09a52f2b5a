// Loading saved packed weights into objects of ours.
#pragma once

namespace cpuaccel::quant {

// Puts a __setstate__ of ours over that of torch's packed-weight classes (linear, conv2d, conv3d),
// through which deepcopy, pickle, torch.load and torch.jit.load all go. The state is torch's own,
// all its versions; __getstate__ stays torch's.
void replace_setstate();
void restore_setstate();

}  // namespace cpuaccel::quant
