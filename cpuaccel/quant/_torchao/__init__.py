"""torchao's int8 weights (`torchao.quantize_`) on cpuaccel's kernels, with no line changed."""

from __future__ import annotations
