"""The implementation of `cpuaccel.prepack`. It is imported at the first call.

`pack.py` walks over a model, `conversion.py` changes one module. Each kind of layer has a file with
its packed class; `module.py` has their base. `weight.py` and `matrix.py` have the packed weights,
`packable.py` decides which parameters can be packed.
"""

from cpuaccel._ops import prepack as _fake_kernels  # noqa: F401
from cpuaccel._prepack import attention, convolution, linear, lstm, transformer  # noqa: F401
from cpuaccel._prepack.pack import not_packed_reason

__all__ = ["not_packed_reason"]
