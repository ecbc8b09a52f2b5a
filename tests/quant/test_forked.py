"""Models in forked children of a parent that has run on several threads."""

from __future__ import annotations

import pytest
from _process import run_python

from quant._engine import needs_front_end

pytestmark = needs_front_end

_POOL = """
import multiprocessing, sys
import torch
from torch import nn
torch.backends.quantized.engine = "x86"
torch.set_num_threads(2)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).eval()
if {quantized}:
    model = torch.ao.quantization.quantize_dynamic(model, {{nn.Linear}}, dtype=torch.qint8)
x = torch.randn(64, 64)

def run(model):
    with torch.no_grad():
        return model(x).sum().item()

expected = run(model) if {warm} else None
with multiprocessing.get_context({method!r}).Pool(2) as pool:
    found = pool.apply_async(run, (model,)).get({seconds})
assert found == (run(model) if expected is None else expected)
assert abs(run(model) - found) < 1e-3 * abs(found)
print("done")
"""
_SECONDS = 60
"""A child that does not answer for this many seconds counts as hung."""


@pytest.mark.parametrize("warm", [False, True], ids=["before the first call", "after calls"])
@pytest.mark.parametrize("quantized", [False, True], ids=["floats", "dynamic"])
def test_a_pool_of_forked_processes(quantized: bool, warm: bool) -> None:
    code = _POOL.format(quantized=quantized, warm=warm, method="fork", seconds=_SECONDS)
    assert run_python(code) == "done"


_QUEUE = """
import multiprocessing
import torch
import torch.multiprocessing as sent

def send(queue, done, tensors):
    queue.put(tensors)
    done.wait({seconds})

tensors = [
    torch.quantize_per_tensor(torch.arange(6.0), 0.5, 3, torch.quint8),
    torch.quantize_per_tensor(torch.arange(6.0), 0.5, 3, torch.quint8)[1:4],
    torch.quantize_per_channel(
        torch.ones(2, 3), torch.tensor([0.1, 0.2]), torch.tensor([1, 2]), 0, torch.qint8),
    torch.arange(6.0),
    torch.nn.Parameter(torch.ones(2)),
]
context = sent.get_context("fork")
queue, done = context.Queue(), context.Event()
child = context.Process(target=send, args=(queue, done, tensors))
child.start()
found = queue.get(timeout={seconds})
for a, b in zip(found, tensors):
    assert a.dtype == b.dtype and a.stride() == b.stride() and type(a) is type(b)
    if b.is_quantized:
        assert a.qscheme() == b.qscheme() and torch.equal(a.int_repr(), b.int_repr())
        a, b = a.dequantize(), b.dequantize()
    assert torch.equal(a, b)
done.set()
child.join()
print("done")
"""


def test_tensors_keep_their_scales_on_the_way() -> None:
    assert run_python(_QUEUE.format(seconds=_SECONDS)) == "done"


_THREADS = """
import os
import torch
torch.set_num_threads(2)
x = torch.randn(512, 512)
expected = x @ x
pid = os.fork()
if pid == 0:
    os._exit(0 if torch.get_num_threads() == 2 and torch.equal(x @ x, expected) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert torch.get_num_threads() == 2 and torch.equal(x @ x, expected)
print("done")
"""


def test_parent_and_child_keep_their_number_of_threads() -> None:
    assert run_python(_THREADS) == "done"
