"""cpuaccel: PyTorch models run faster on the CPU, with no line of them changed.

`import torch` switches it on. `disable()` or CPUACCEL=0 in the environment switches it off,
`explain(model)` says what runs each layer, `stats()` what ran so far.
"""

# First, because importing torch runs this package's entry point, which needs the modules below
# to be imported from their beginning.
import torch as _torch  # noqa: F401

from cpuaccel import gnn, memory
from cpuaccel.diagnostics import clear_caches, explain, reset_stats, stats
from cpuaccel.precision import fastmath
from cpuaccel.prepacking import prepack, unpack
from cpuaccel.quant.engine import disable, enable, enabled, is_enabled

try:
    from cpuaccel._build_info import VERSION as __version__
except ImportError:
    __version__ = "0+unbuilt"

__all__ = [
    "__version__",
    "clear_caches",
    "disable",
    "enable",
    "enabled",
    "explain",
    "fastmath",
    "gnn",
    "is_enabled",
    "memory",
    "prepack",
    "reset_stats",
    "stats",
    "unpack",
]
