"""Pickling of torch.ao's quantized convolution modules.

`_ConvNd.__setstate__` of torch 2.13 does not call `nn.Module.__init__`, so a loaded convolution
lacks `_modules`, and neither it nor a model that contains it runs. While cpuaccel is on,
`__setstate__` makes these attributes first, and pickles name the class's constructor, so that a
model saved with cpuaccel also loads in a process without it.
"""

from __future__ import annotations

import contextlib
from typing import Any

from torch import nn

from cpuaccel import _compat
from cpuaccel._modules import replacement_of

_ConvNd: Any = None
"""None if torch has no torch.ao, and therefore no such modules."""
with contextlib.suppress(ImportError):
    _ConvNd = _compat.QuantizedConvNd

_SMALLEST = (1, 1, 1)
"""in_channels, out_channels and kernel_size of the module that `__setstate__` then overwrites."""

_set_state: Any = getattr(_ConvNd, "__setstate__", None)
_reduce: Any = getattr(_ConvNd, "__reduce_ex__", None)


def _initializing_first() -> Any:
    cpuaccel_initialize, cpuaccel_torchs = nn.Module.__init__, _set_state

    def __setstate__(self: Any, state: Any) -> None:
        if "_modules" not in self.__dict__:
            cpuaccel_initialize(self)
        cpuaccel_torchs(self, state)

    return replacement_of(_set_state, __setstate__)


_initialized_first = _initializing_first() if _ConvNd is not None else None


def install() -> None:
    """Replace the two methods of all quantized convolution modules."""
    cls: Any = _ConvNd
    if cls is not None:
        cls.__setstate__, cls.__reduce_ex__ = _initialized_first, _by_constructor


def uninstall() -> None:
    """Restore torch's methods."""
    cls: Any = _ConvNd
    if cls is not None and vars(cls).get("__reduce_ex__") is _by_constructor:
        cls.__setstate__ = _set_state
        del cls.__reduce_ex__


def _by_constructor(self: Any, protocol: int) -> Any:
    cls = type(self)
    if not cls.__module__.startswith("torch.ao."):  # its constructor may take other arguments
        return _reduce(self, protocol)
    return cls, _SMALLEST, self.__getstate__()
