"""Invalid uses of convolutions, and the words that the error must contain."""

from __future__ import annotations

import torch
from _reference import Geometry

from quant._bad_input import (
    BIG,
    Case,
    conv,
    conv1d,
    conv3d,
    expanded,
    linear,
    quantizer_cases,
    qw,
    qw_channels,
    qx,
    qx_channels,
    right_conv,
    run_conv,
    run_transposed,
    transposed,
)
from quant._layers import Q


def _conv_prepack_cases() -> dict[str, Case]:
    return {
        "float weight": Case(lambda: conv(torch.randn(8, 4, 3, 3)), "Could not run"),
        "quint8 weight": Case(lambda: conv(qw(8, 4, 3, 3, dtype=torch.quint8)), "QInt8"),
        "qint32 weight": Case(lambda: conv(qw(8, 4, 3, 3, dtype=torch.qint32)), "QInt8"),
        "weight of 3 dimensions": Case(lambda: conv(qw(8, 4, 3)), "expected to have 4 dimensions"),
        "weight of 5 dimensions": Case(
            lambda: conv(qw(8, 4, 3, 3, 3)), "expected to have 4 dimensions"
        ),
        "3d, weight of 4 dimensions": Case(
            lambda: conv3d(qw(8, 4, 3, 3)), "expected to have 5 dimensions"
        ),
        "1d, weight of 2 dimensions": Case(lambda: conv1d(qw(8, 4)), "dimensions"),
        "stride of 1": Case(lambda: conv(stride=(1,)), "stride should contain 2 elements"),
        "stride of 3": Case(lambda: conv(stride=(1, 1, 1)), "stride should contain 2 elements"),
        "no stride": Case(lambda: conv(stride=()), "stride should contain 2 elements"),
        "3d, stride of 2": Case(lambda: conv3d(stride=(1, 1)), "stride should contain 3 elements"),
        "1d, no stride": Case(lambda: conv1d(stride=()), "stride|elements"),
        "padding of 1": Case(lambda: conv(padding=(1,)), "padding"),
        "padding of 4": Case(lambda: conv(padding=(1, 1, 1, 1)), "padding"),
        "dilation of 1": Case(lambda: conv(dilation=(1,)), "dilation should contain 2 elements"),
        "stride 0": Case(lambda: conv(stride=(0, 1)), "stride.*positive.*0", torch_too=False),
        "stride -1": Case(lambda: conv(stride=(1, -1)), "stride.*positive.*-1", torch_too=False),
        "padding -1": Case(lambda: conv(padding=(-1, 0)), "padding.*negative.*-1", torch_too=False),
        "dilation 0": Case(lambda: conv(dilation=(0, 1)), "dilation.*positive.*0", torch_too=False),
        "dilation -1": Case(
            lambda: conv(dilation=(1, -1)), "dilation.*positive.*-1", torch_too=False
        ),
        "groups 0": Case(lambda: conv(groups=0), "groups.*0", torch_too=False),
        "groups -1": Case(lambda: conv(groups=-1), "groups.*-1", torch_too=False),
        "groups 3 of 8": Case(lambda: conv(groups=3), "groups = 3 does not divide.*8"),
        "groups 2^40": Case(lambda: conv(groups=2**40), "groups", torch_too=False),
        "no output channels": Case(
            lambda: conv(qw(0, 4, 3, 3)), "output channels|empty|weight", torch_too=False
        ),
        "stride 2^33": Case(
            lambda: right_conv(
                qw(8, 4, 3, 3), qx(1, 4, 8, 8), Geometry((2**33, 1), (0, 0), (1, 1))
            ),
            "stride",
            torch_too=False,
            may_return=True,
        ),
        "padding 2^31": Case(
            lambda: run_conv(conv(padding=(BIG, 1))), f"padding.*{BIG}|too large", torch_too=False
        ),
        "bias of 7": Case(lambda: conv(bias=torch.ones(7)), "bias should have K elements: 8"),
        "bias of 2 dimensions": Case(
            lambda: conv(bias=torch.ones(8, 1)), "bias should be a vector"
        ),
        "float64 bias": Case(lambda: run_conv(conv(bias=torch.ones(8).double())), "bias.*float"),
        "int32 bias": Case(lambda: run_conv(conv(bias=torch.ones(8).int())), "bias.*float"),
        "scales along the inputs": Case(
            lambda: conv(qw_channels(8, 4, 3, 3, axis=1)), "axis|out of range"
        ),
        "scales along the inputs, square": Case(
            lambda: right_conv(
                qw_channels(8, 8, 3, 3, axis=1),
                qx(1, 8, 8, 8),
                Geometry((1, 1), (0, 0), (1, 1)),
            ),
            "axis",
            torch_too=False,
            may_return=True,
        ),
    }


def _conv_cases() -> dict[str, Case]:
    positive = "each dimension of output tensor should be greater than 0"
    channels = "to have 4 channels, but got 5 channels"
    return {
        "float input": Case(lambda: run_conv(conv(), torch.rand(1, 4, 8, 8)), "Could not run"),
        "qint8 input": Case(
            lambda: run_conv(conv(), qx(1, 4, 8, 8, dtype=torch.qint8)), "QUInt8.*QInt8"
        ),
        "input with a scale per channel": Case(
            lambda: run_conv(conv(), qx_channels(1, 4, 8, 8, axis=1)), "qscheme|per.?tensor"
        ),
        "input of 3 dimensions": Case(
            lambda: run_conv(conv(), qx(4, 8, 8)), "to have 4 dimensions, (but )?got 3"
        ),
        "input of 5 dimensions": Case(
            lambda: run_conv(conv(), qx(1, 4, 8, 8, 8)), "to have 4 dimensions, (but )?got 5"
        ),
        "1d, input of 4 dimensions": Case(
            lambda: Q.conv1d(qx(1, 4, 8, 8), conv1d(), 0.1, 0), "dimensions"
        ),
        "1d, input of 2 dimensions": Case(
            lambda: Q.conv1d(qx(4, 8), conv1d(), 0.1, 0), "dimensions"
        ),
        "3d, input of 4 dimensions": Case(
            lambda: Q.conv3d(qx(1, 4, 8, 8), conv3d(), 0.1, 0), "to have 5 dimensions, (but )?got 4"
        ),
        "5 channels of 4": Case(lambda: run_conv(conv(), qx(1, 5, 8, 8)), channels),
        "5 channels of 4, empty batch": Case(lambda: run_conv(conv(), qx(0, 5, 8, 8)), channels),
        "6 channels of 8, groups": Case(
            lambda: run_conv(conv(groups=2), qx(1, 6, 8, 8)), "to have 8 channels, but got 6"
        ),
        "3d, 5 channels of 4": Case(
            lambda: Q.conv3d(qx(1, 5, 8, 8, 8), conv3d(), 0.1, 0), channels
        ),
        "image smaller than the kernel": Case(lambda: run_conv(conv(), qx(1, 4, 2, 2)), positive),
        "image of no rows": Case(lambda: run_conv(conv(padding=(1, 1)), qx(1, 4, 0, 8)), positive),
        "2^31 + 4 channels": Case(
            lambda: run_conv(conv(), expanded(1, BIG + 4, 8, 8)), "channels", torch_too=False
        ),
        "a batch of 2^32 + 1": Case(
            lambda: run_conv(conv(qw(8, 4, 1, 1)), expanded(2**32 + 1, 4, 1, 1)), "", torch_too=True
        ),
        "an image of 2^31 rows": Case(
            lambda: run_conv(conv(qw(8, 4, 1, 1)), expanded(1, 4, BIG, 1)), "", torch_too=True
        ),
        "input on meta": Case(
            lambda: run_conv(conv(), torch.empty(1, 4, 8, 8, device="meta")), "fake|meta"
        ),
        "a linear layer's object": Case(lambda: run_conv(linear()), "Conv2dPackedParams"),
        "a 3d object": Case(lambda: run_conv(conv3d()), "Conv2dPackedParams"),
        "dynamic, float64 input": Case(
            lambda: Q.conv2d_dynamic(torch.rand(1, 4, 8, 8).double(), conv()), "Float.*Double"
        ),
        "dynamic, quantized input": Case(
            lambda: Q.conv2d_dynamic(qx(1, 4, 8, 8), conv()), "Could not run"
        ),
        "dynamic, 5 channels of 4": Case(
            lambda: Q.conv2d_dynamic(torch.rand(1, 5, 8, 8), conv()), channels
        ),
        "dynamic, NaN everywhere": Case(
            lambda: Q.conv2d_dynamic(torch.full((1, 4, 8, 8), float("nan")), conv()),
            "min should be less|NaN",
            may_return=True,
        ),
    }


def _transposed_cases() -> dict[str, Case]:
    return {
        "scales per channel": Case(
            lambda: transposed(qw_channels(4, 8, 3, 3, axis=1)), "per.?channel", may_return=True
        ),
        "output padding of 1": Case(lambda: transposed(output_padding=(0,)), "output.padding"),
        "output padding -1": Case(
            lambda: transposed(output_padding=(-1, 0)), "output.padding.*-1", torch_too=False
        ),
        "stride 0": Case(lambda: transposed(stride=(0, 1)), "stride.*positive.*0", torch_too=False),
        "groups 3 of 4": Case(lambda: transposed(groups=3), "groups = 3 does not divide.*4"),
        "bias of 4": Case(lambda: transposed(bias=torch.ones(4)), "bias should have K elements: 8"),
        "no output": Case(
            lambda: run_transposed(transposed(padding=(2, 2)), qx(1, 4, 1, 1)),
            "Output dimension is zero",
        ),
        "a million rows": Case(
            lambda: run_transposed(transposed(stride=(1000000, 1)), qx(1, 4, 2, 2)),
            "beyond reasonable maximum",
        ),
        "5 channels of 4": Case(
            lambda: run_transposed(transposed(), qx(1, 5, 8, 8)), "4.*channels.*5|4, but got 5"
        ),
        "qint8 input": Case(
            lambda: run_transposed(transposed(), qx(1, 4, 8, 8, dtype=torch.qint8)),
            "QUInt8.*QInt8",
        ),
        "input of 3 dimensions": Case(
            lambda: run_transposed(transposed(), qx(4, 8, 8)), "to have 4 dimensions, (but )?got 3"
        ),
    }


GROUPS: dict[str, dict[str, Case]] = {
    "conv_prepack": _conv_prepack_cases(),
    "conv": _conv_cases() | quantizer_cases(lambda s, z: run_conv(conv(), None, s, z)),
    "conv_transpose": _transposed_cases(),
}
