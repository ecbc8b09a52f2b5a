"""cpuaccel::graph_region as torch sees it: its fake kernel, and torch's ops in its place."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel.graph import torch_program

_torch: Any = torch  # whose annotations do not know what is used here


def _graph_region(
    inputs: list[Tensor], constants: list[Tensor], program: str, torch_text: str
) -> list[Tensor]:
    return torch_program.run(inputs, constants, torch_text)


def _by_torch(inputs: list[Tensor], constants: list[Tensor], torch_text: str) -> list[Tensor]:
    return torch_program.run(inputs, constants, torch_text)


if hasattr(_native.load(), "find_partitions"):  # built with oneDNN: has the ops
    _torch.library.register_fake("cpuaccel::graph_region")(_graph_region)
    _torch.library.impl("cpuaccel::graph_region_by_torch", "CPU")(_by_torch)
