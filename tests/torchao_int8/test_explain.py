"""What `explain` says about layers that torchao quantized."""

from __future__ import annotations

import pytest
from torch import nn

import cpuaccel
from torchao_int8._layers import GROUPS, KINDS, Kind


def _rows(kind: Kind) -> list[tuple[str, str, str]]:
    model = kind.quantized(nn.Sequential(nn.Linear(64, 32), nn.ReLU()))
    return [(row.provider, row.kernel, row.reason) for row in cpuaccel.explain(model).rows]


@pytest.mark.parametrize("name", KINDS)
def test_a_layer_names_its_kernel(name: str) -> None:
    provider, kernel, reason = _rows(KINDS[name])[0]
    weight_only = KINDS[name].rows == "none"
    assert (provider, kernel) == ("cpuaccel", "gemm_w8" if weight_only else "qgemm")
    assert reason.startswith("torchao's int8 weight")
    assert ("int8 activations" in reason) != weight_only


def test_a_weight_with_groups() -> None:
    assert _rows(GROUPS)[0] == ("cpuaccel", "gemm_wq", "torchao's int8 weight")


def test_a_layer_of_torchao_has_its_reason() -> None:
    model = KINDS["weight only"].quantized(nn.Sequential(nn.Linear(64, 32)))
    model[0].weight.act_quant_kwargs = "another class"
    row = cpuaccel.explain(model).rows[0]
    assert (row.provider, row.kernel) == ("torch", "")
    assert row.reason == "torchao's own function: activations are not int8"


def test_other_layers_keep_their_reasons() -> None:
    assert _rows(KINDS["dynamic"])[1][2] == "cpuaccel has no kernel for this op"


def test_switched_off_no_layer_is_said_to_run_on_cpuaccel() -> None:
    with cpuaccel.enabled(False):
        assert _rows(KINDS["dynamic"])[0][0] != "cpuaccel"
