"""nn.LSTM under CPU autocast, also on CPUs for which oneDNN has no LSTM of that type.

torch 2.13 fails with "could not create a primitive descriptor" there: for float16 without
AVX512-FP16, and for bfloat16 without AVX-512. ONEDNN_MAX_CPU_ISA makes any CPU such a one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from _process import run_python
from quant._engine import needs_plugin

pytestmark = needs_plugin

_TYPES = {"bfloat16": 2e-2, "float16": 3e-3}
types = pytest.mark.parametrize("name", _TYPES)

_CODE = """
import copy, torch, cpuaccel
dtype, bound = getattr(torch, "{name}"), {bound}
torch.manual_seed(0)
lstm = torch.nn.LSTM(8, 16, num_layers=2, bidirectional=True, batch_first=True)
x = torch.randn(3, 5, 8, requires_grad=True)
grads = torch.randn(3, 5, 32), torch.randn(4, 3, 16), torch.randn(4, 3, 16)

def run(model, autocast):
    with torch.autocast("cpu", dtype=dtype, enabled=autocast):
        y, (h, c) = model(x)
    return y, h, c

def check(got, expected):
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.float(), b, rtol=bound, atol=bound)

expected = run(lstm, False)
parameters = [x, *lstm.parameters()]
gradients = torch.autograd.grad(expected, parameters, grads)
got = run(lstm, True)
assert got[0].dtype == dtype
check(got, expected)
back = torch.autograd.grad(got, parameters, [g.to(dtype) for g in grads])
scale = [g.abs().max() for g in gradients]
check([g / s for g, s in zip(back, scale)], [g / s for g, s in zip(gradients, scale)])
with torch.no_grad():
    check(run(lstm, True), expected)
    check(run(cpuaccel.prepack(copy.deepcopy(lstm)), True), expected)
    both = torch.nn.Sequential(torch.nn.Linear(8, 8), lstm)
    check(run(both, True), run(both, False))
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, [5, 4, 2], batch_first=True)
    with torch.autocast("cpu", dtype=dtype):
        short = lstm(packed)[0].data
    check([short], [lstm(packed)[0].data])
print("right")
"""


@types
def test_without_such_an_lstm_in_onednn(name: str, tmp_path: Path) -> None:
    code = _CODE.format(name=name, bound=_TYPES[name])
    assert run_python(code, cwd=tmp_path, ONEDNN_MAX_CPU_ISA="AVX2") == "right"


@types
def test_on_this_cpu(name: str, tmp_path: Path) -> None:
    code = _CODE.format(name=name, bound=_TYPES[name])
    assert run_python(code, cwd=tmp_path) == "right"


def test_an_error_of_the_arguments_stays_one() -> None:
    lstm = torch.nn.LSTM(8, 16)
    with torch.autocast("cpu", dtype=torch.float16), pytest.raises(RuntimeError, match="input"):
        lstm(torch.randn(5, 3, 9))
