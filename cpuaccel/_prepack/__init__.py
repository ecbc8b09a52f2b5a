"""The implementation of `cpuaccel.prepack`. It is imported at the first call.

Each kind of layer has a module. `module.py` has what they share, `weight.py` and `matrix.py` have
the packed weights, `pack.py` walks over a model.
"""

from cpuaccel._ops import prepack as _fake_kernels  # noqa: F401
from cpuaccel._prepack import attention, convolution, linear, lstm, transformer  # noqa: F401
from cpuaccel._prepack.pack import why_left

__all__ = ["why_left"]
