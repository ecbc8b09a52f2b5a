// Loads saved packed weights (deepcopy, pickle, torch.load, torch.jit.load) into cpuaccel's
// objects.
#pragma once

namespace cpuaccel::torch_ao {

// Overrides __setstate__ of torch's packed-weight classes (linear, conv2d, conv3d), through which
// deepcopy, pickle, torch.load and torch.jit.load all go. It reads torch's own state in all
// versions; __getstate__ stays torch's.
void replace_setstate();
void restore_setstate();

}  // namespace cpuaccel::torch_ao
