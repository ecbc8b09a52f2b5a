// Counts what collectives of torch.distributed write (hidden_writes.h).
#pragma once

namespace cpuaccel::ops {

// Registers over torch's collectives on CPU tensors. They stay registered while cpuaccel is off,
// because weights that are packed already stay watched. Once; not thread-safe.
void count_writes_of_collectives();

}  // namespace cpuaccel::ops
