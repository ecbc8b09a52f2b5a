"""Invalid uses of fused ops, and the words that the error must contain."""

from __future__ import annotations

from collections.abc import Callable

import torch

from quant._bad_input import Case, conv, foreign, linear, qx, qx_channels, run_add, transposed
from quant._layers import Q


def _fused_cases() -> dict[str, Case]:
    """Ops that torch has only for the engine "onednn": its messages are not compared."""

    def case(run: Callable[[], object], pattern: str, may_return: bool = False) -> Case:
        return Case(run, pattern, torch_too=False, may_return=may_return)

    right = qx(1, 8, 6, 6)
    return {
        "accum of fewer rows": case(lambda: run_add(conv(), qx(1, 8, 5, 6)), "accum"),
        "accum of one pixel": case(lambda: run_add(conv(), qx(1, 8, 1, 1)), "accum"),
        "accum of more rows": case(lambda: run_add(conv(), qx(1, 8, 16, 16)), "accum"),
        "accum of fewer channels": case(lambda: run_add(conv(), qx(1, 4, 6, 6)), "accum"),
        "accum of 3 dimensions": case(lambda: run_add(conv(), qx(8, 6, 6)), "accum"),
        "qint8 accum": case(lambda: run_add(conv(), qx(1, 8, 6, 6, dtype=torch.qint8)), "accum"),
        "float accum": case(lambda: run_add(conv(), torch.rand(1, 8, 6, 6)), "accum"),
        "accum with a scale per channel": case(
            lambda: run_add(conv(), qx_channels(1, 8, 6, 6, axis=1)), "accum"
        ),
        "transposed object": case(lambda: run_add(transposed(), qx(1, 8, 10, 10)), "transpos"),
        "leaky_relu, 15 columns": case(
            lambda: Q.linear_leaky_relu(qx(2, 15), linear(), 0.1, 0, 0.1), "K.*15"
        ),
        "leaky_relu, qint8 input": case(
            lambda: Q.linear_leaky_relu(qx(2, 16, dtype=torch.qint8), linear(), 0.1, 0, 0.1),
            "QUInt8.*QInt8",
        ),
        "tanh, scale 0": case(lambda: Q.linear_tanh(qx(2, 16), linear(), 0.0, 0), "scale.*0"),
        "add, an object of fbgemm": case(
            foreign("fbgemm", conv, lambda p: run_add(p, right)), "engine|packed", may_return=True
        ),
        "add, an object of onednn": case(
            foreign("onednn", conv, lambda p: run_add(p, right)), "engine|packed", may_return=True
        ),
        "leaky_relu, an object of fbgemm": case(
            foreign("fbgemm", linear, lambda p: Q.linear_leaky_relu(qx(2, 16), p, 0.1, 0, 0.1)),
            "engine|packed",
            may_return=True,
        ),
        "tanh, an object of fbgemm": case(
            foreign("fbgemm", linear, lambda p: Q.linear_tanh(qx(2, 16), p, 0.1, 0)),
            "engine|packed",
            may_return=True,
        ),
        # Under onednn torch assumes that the object is its own, without a check.
        "add under onednn, an object of fbgemm": case(
            foreign("fbgemm", conv, lambda p: run_add(p, right), "onednn"),
            "engine|packed",
            may_return=True,
        ),
        "add under onednn, an object of x86": case(
            foreign("x86", conv, lambda p: run_add(p, right), "onednn"),
            "engine|packed",
            may_return=True,
        ),
        "tanh under onednn, an object of x86": case(
            foreign("x86", linear, lambda p: Q.linear_tanh(qx(2, 16), p, 0.1, 0), "onednn"),
            "engine|packed",
            may_return=True,
        ),
        "leaky_relu under onednn, an object of fbgemm": case(
            foreign(
                "fbgemm",
                linear,
                lambda p: Q.linear_leaky_relu(qx(2, 16), p, 0.1, 0, 0.1),
                "onednn",
            ),
            "engine|packed",
            may_return=True,
        ),
    }


GROUPS: dict[str, dict[str, Case]] = {"fused": _fused_cases()}
