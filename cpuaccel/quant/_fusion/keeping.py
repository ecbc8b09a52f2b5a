"""Lists the pools and other ops whose result has the quantizer of their operand."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

KEEPING_MODULES: frozenset[type[nn.Module]] = frozenset(
    [
        *(nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool2d, nn.AvgPool3d),
        *(nn.ChannelShuffle, nn.MaxPool1d, nn.MaxPool2d, nn.PixelShuffle, nn.PixelUnshuffle),
    ]
)
KEEPING_FUNCTIONS: frozenset[Any] = frozenset(
    [
        *(F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.avg_pool2d, F.avg_pool3d),
        *(F.interpolate, F.max_pool1d, F.max_pool2d, F.pixel_shuffle, F.pixel_unshuffle),
        *(torch.channel_shuffle, torch.mean, torch.max_pool1d, torch.max_pool2d),
        *(torch.cat, torch.concat, torch.concatenate),
    ]
)
"""Functions whose result has the quantizer of their operands, and that take floats too."""
KEEPING_METHODS = frozenset(["mean"])
