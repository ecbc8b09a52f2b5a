"""Invalid uses of linear layers, and the words that the error must contain."""

from __future__ import annotations

import torch

from quant._bad_input import (
    BIG,
    Case,
    conv,
    expanded,
    linear,
    quantizer_cases,
    qw,
    qw_channels,
    qx,
    qx_channels,
    right_linear,
    run_linear,
)
from quant._layers import Q


def _linear_prepack_cases() -> dict[str, Case]:
    return {
        "float weight": Case(lambda: linear(torch.randn(8, 16)), "Could not run"),
        "quint8 weight": Case(lambda: linear(qw(8, 16, dtype=torch.quint8)), "QInt8"),
        "qint32 weight": Case(lambda: linear(qw(8, 16, dtype=torch.qint32)), "QInt8"),
        "weight of 1 dimension": Case(lambda: linear(qw(16)), "2-dimensional"),
        "weight of 3 dimensions": Case(lambda: linear(qw(2, 8, 16)), "2-dimensional"),
        "weight on meta": Case(lambda: linear(torch.empty(8, 16, device="meta")), "fake|meta"),
        "no weight": Case(lambda: Q.linear_prepack(None, None), "tensor"),
        "bias of 7": Case(lambda: linear(bias=torch.ones(7)), "bias should have N elements: 8"),
        "bias of 2 dimensions": Case(
            lambda: linear(bias=torch.ones(1, 8)), "bias should be a vector"
        ),
        "float64 bias": Case(lambda: run_linear(linear(bias=torch.ones(8).double())), "Float"),
        "int64 bias": Case(lambda: run_linear(linear(bias=torch.ones(8).long())), "Float"),
        "quantized bias": Case(lambda: run_linear(linear(bias=qx(8))), "Float"),
        "bias on meta": Case(lambda: linear(bias=torch.ones(8, device="meta")), "meta"),
        "scales along the inputs": Case(
            lambda: right_linear(qw_channels(16, 16, axis=1), qx(2, 16)),
            "axis",
            torch_too=False,
            may_return=True,
        ),
        "more scales than rows": Case(
            lambda: right_linear(qw_channels(8, 16, axis=1), qx(2, 16)),
            "axis",
            torch_too=False,
            may_return=True,
        ),
    }


def _linear_cases() -> dict[str, Case]:
    two = "dimension of input tensor should be larger than or equal to 2"
    return {
        "float input": Case(lambda: run_linear(linear(), torch.rand(2, 16)), "Could not run"),
        "uint8 input": Case(
            lambda: run_linear(linear(), torch.ones(2, 16, dtype=torch.uint8)), "Could not run"
        ),
        "qint8 input": Case(
            lambda: run_linear(linear(), qx(2, 16, dtype=torch.qint8)), "QUInt8.*QInt8"
        ),
        "qint32 input": Case(
            lambda: run_linear(linear(), qx(2, 16, dtype=torch.qint32)), "QUInt8.*QInt32"
        ),
        "input with a scale per row": Case(
            lambda: run_linear(linear(), qx_channels(2, 16, axis=0)), "qscheme|per.?tensor"
        ),
        "input of 0 dimensions": Case(lambda: run_linear(linear(), qx()), two),
        "input of 1 dimension": Case(lambda: run_linear(linear(), qx(16)), two),
        "input of 15 columns": Case(lambda: run_linear(linear(), qx(2, 15)), "K.*15"),
        "transposed input": Case(lambda: run_linear(linear(), qx(16, 2)), "K.*2"),
        "input on meta": Case(
            lambda: run_linear(linear(), torch.empty(2, 16, device="meta")), "fake|meta"
        ),
        # torch reports this too, but only after filling 4 GiB.
        "2^31 columns": Case(
            lambda: run_linear(linear(), expanded(2, BIG)), f"K.*{BIG}", torch_too=False
        ),
        "a convolution's object": Case(lambda: run_linear(conv()), "LinearPackedParams"),
        "no object": Case(lambda: run_linear(None), "LinearPackedParams"),
        "relu form, qint8 input": Case(
            lambda: Q.linear_relu(qx(2, 16, dtype=torch.qint8), linear(), 0.1, 0), "QUInt8.*QInt8"
        ),
    }


def _linear_dynamic_cases() -> dict[str, Case]:
    two = "dimension of input tensor should be larger than or equal to 2"
    nan = torch.full((2, 16), float("nan"))
    cases = {
        f"{name} input": Case(
            lambda x=x: Q.linear_dynamic(x, linear()), f"Float.*{name}", torch_too=True
        )
        for name, x in {
            "Double": torch.rand(2, 16).double(),
            "Half": torch.rand(2, 16).half(),
            "Long": torch.ones(2, 16).long(),
        }.items()
    }
    return cases | {
        "quantized input": Case(lambda: Q.linear_dynamic(qx(2, 16), linear()), "Could not run"),
        "1 dimension": Case(lambda: Q.linear_dynamic(torch.rand(16), linear()), two),
        "15 columns": Case(lambda: Q.linear_dynamic(torch.rand(2, 15), linear()), "K.*15"),
        "NaN everywhere": Case(
            lambda: Q.linear_dynamic(nan, linear()), "min should be less|NaN", may_return=True
        ),
        "infinity": Case(
            lambda: Q.linear_dynamic(nan.nan_to_num(float("inf")), linear()), "", may_return=True
        ),
    }


GROUPS: dict[str, dict[str, Case]] = {
    "linear_prepack": _linear_prepack_cases(),
    "linear": _linear_cases() | quantizer_cases(lambda s, z: run_linear(linear(), None, s, z)),
    "linear_dynamic": _linear_dynamic_cases(),
}
