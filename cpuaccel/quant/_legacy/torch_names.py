"""The functions, methods and modules of torch that a file may name. Others are rejected.

Every function here computes tensors from its arguments and nothing else: none reads files, starts
processes or runs code.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_TORCH = frozenset(
    """
    abs adaptive_avg_pool1d add addmm arange argmax avg_pool1d baddbmm bmm cat channel_shuffle
    chunk clamp clamp_max clamp_min concat concatenate conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d cos cumsum div einsum empty_like eq erf exp expand_copy
    flatten full full_like ge gather gt index_select layer_norm le log log1p logical_and
    logical_not logical_or lt masked_fill matmul max max_pool1d max_pool2d max_pool3d maximum mean
    min minimum mm movedim mul narrow ne neg ones ones_like permute pow prelu reciprocal relu
    repeat_interleave reshape rsqrt rsub select selu sigmoid sin softmax log_softmax split sqrt
    square squeeze stack std sub sum swapaxes tanh tensor_split transpose tril triu true_divide
    unbind unflatten unsqueeze var where zeros zeros_like
    """.split()  # noqa: SIM905
)
_FUNCTIONAL = frozenset(
    """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d alpha_dropout
    avg_pool1d avg_pool2d avg_pool3d batch_norm celu conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d dropout dropout1d dropout2d dropout3d elu embedding gelu glu
    feature_alpha_dropout group_norm hardshrink hardsigmoid hardswish hardtanh instance_norm
    interpolate layer_norm leaky_relu linear log_softmax logsigmoid max_pool1d max_pool2d
    max_pool3d mish normalize pad pixel_shuffle pixel_unshuffle prelu relu relu6 selu sigmoid silu
    softmax softplus softshrink softsign tanh tanhshrink threshold upsample
    scaled_dot_product_attention channel_shuffle
    """.split()  # noqa: SIM905
)
METHODS = frozenset(
    """
    abs add add_ argmax bmm chunk clamp clamp_ clone contiguous cumsum dequantize detach dim div
    div_ eq exp expand expand_as flatten float gather ge gt is_contiguous le long lt masked_fill
    matmul max mean min mul mul_ narrow ndimension ne neg numel permute pow relu relu_ repeat
    repeat_interleave reshape reshape_as rsqrt select sigmoid sigmoid_ size softmax split sqrt
    square squeeze std stride sub sub_ sum t tanh tanh_ to transpose type_as unbind unflatten
    unsqueeze var view view_as
    """.split()  # noqa: SIM905
)
"""Methods of tensors."""
ATTRIBUTES = frozenset(["shape", "dtype", "device", "ndim", "T", "mT"])
"""Attributes of tensors."""
_OPERATORS = frozenset(
    """
    add and_ eq floordiv ge getitem gt iadd imul isub itruediv le lt matmul mod mul ne neg not_ or_
    pow sub truediv
    """.split()  # noqa: SIM905
)
_MODULES = frozenset(
    """
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool2d AlphaDropout AvgPool1d
    AvgPool2d AvgPool3d BatchNorm1d BatchNorm2d BatchNorm3d CELU ChannelShuffle ConstantPad1d
    ConstantPad2d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Dropout
    Dropout1d Dropout2d Dropout3d ELU Embedding FeatureAlphaDropout Flatten GELU GLU GroupNorm
    Hardshrink Hardsigmoid Hardswish Hardtanh Identity InstanceNorm1d InstanceNorm2d
    InstanceNorm3d LayerNorm LeakyReLU Linear LogSigmoid LogSoftmax MaxPool1d MaxPool2d MaxPool3d
    Mish PReLU PixelShuffle PixelUnshuffle ReLU ReLU6 ReflectionPad1d ReflectionPad2d
    ReplicationPad1d ReplicationPad2d SELU SiLU Sigmoid Softmax Softmax2d Softplus Softshrink
    Softsign Tanh Tanhshrink Threshold Unflatten Upsample UpsamplingBilinear2d
    UpsamplingNearest2d ZeroPad2d
    """.split()  # noqa: SIM905
)
_FUNCTIONS_OF = {
    "torch": (torch, _TORCH),
    "torch.nn.functional": (F, _FUNCTIONAL),
    "torch._C._nn": (F, _FUNCTIONAL | {"adaptive_avg_pool2d", "avg_pool2d", "avg_pool3d"}),
    "torch.functional": (torch, _TORCH),
    "operator": (operator, _OPERATORS),
    "_operator": (operator, _OPERATORS),
    "torch.ao.nn.quantized.functional": (F, _FUNCTIONAL),
    "torch.nn.quantized.functional": (F, _FUNCTIONAL),
}


def function(path: str) -> Callable[..., Any] | None:
    """Return the function of torch at a path such as `torch.nn.functional.relu`, if listed."""
    owner, _, name = path.rpartition(".")
    module, names = _FUNCTIONS_OF.get(owner, (None, frozenset()))
    found: Callable[..., Any] | None = getattr(module, name, None) if name in names else None
    return found


def module_class(owner: str, name: str) -> type[nn.Module] | None:
    """Return the class of torch.nn with this name, if listed."""
    if not owner.startswith("torch.nn.modules.") and owner != "torch.nn":
        return None
    found: type[nn.Module] | None = getattr(nn, name, None) if name in _MODULES else None
    return found


def method(name: str) -> Callable[..., Any] | None:
    """Return the method of tensors with this name, if listed."""
    found: Callable[..., Any] | None = getattr(Tensor, name, None) if name in METHODS else None
    return found
