"""What `cpuaccel.prepack` is made of. It is loaded at the first call.

One module a kind of layer; `module.py` has what they share, `weight.py` and
`matrix.py` the packed weight, `pack.py` the walk over a model.
"""

from cpuaccel._ops import prepack as _fake_kernels  # noqa: F401
from cpuaccel._prepack import attention, convolution, linear, lstm, transformer  # noqa: F401
from cpuaccel._prepack.pack import why_left

__all__ = ["why_left"]
