"""benchmarks.models._pictures: inputs and models of the comparison's pictures."""

import importlib.util

import pytest
import torch
from torch import nn

from benchmarks._plugin import missing as plugin_missing
from benchmarks.models import _compiled, _pictures
from benchmarks.models._job import Job
from benchmarks.models.comparison.cases import BF16, Case
from benchmarks.models.comparison.columns import columns
from benchmarks.models.comparison.jobs import job


class _Two(nn.Module):
    """A model of two inputs and two results, whose projections can be fused."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(16, 32, 3)
        # A convolution alone may not be worth a plan.
        self.rest = nn.Sequential(nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU())
        self.was_fused = False

    def forward(self, x, number):
        return self.rest(self.layer(x)) * number, number

    def fuse_qkv_projections(self):
        self.was_fused = True


def _job():
    return Job(_Two().eval(), [], torch.randn(1, 16, 28, 28), torch.tensor([2]))


def test_a_job_of_several_inputs_is_cast():
    cast = _job().cast(torch.bfloat16)
    assert [each.dtype for each in cast.inputs] == [torch.bfloat16, torch.int64]
    assert cast.x is cast.inputs[0]


def test_fused_is_a_copy():
    model = _Two()
    fused = _pictures.fused(model)
    assert fused.was_fused
    assert not model.was_fused
    assert fused.layer.weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", _pictures.PICTURES)
def test_inputs_are_the_same_in_every_process(name):
    once, again = (_pictures.inputs(name, 2) for _ in range(2))
    assert all(map(torch.equal, once, again))
    assert {len(each) for each in once} == {2}


def test_several_inputs_are_run():
    if plugin_missing():
        pytest.skip("cpuaccel is not installed")
    given = _job()
    with torch.no_grad():
        expected = given.model(*given.inputs)
        run = _compiled.optimized(given.model, given.inputs, torch.no_grad)
        for found, wanted in zip(run(), expected, strict=True):
            torch.testing.assert_close(found, wanted)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="diffusers not installed: pip install"):
        job(Case("dit-b-2", BF16, 1, 1))


def test_columns_of_a_picture():
    names = [each.name for each in columns(Case("dit-b-2", BF16, 1, 1))]
    assert names == [
        "torch",
        "inductor+freezing",
        "cpuaccel+compile",
        "cpuaccel+optimize",
        "openvino",
    ]


def test_a_mask_decoder_is_built():
    pytest.importorskip("transformers", reason="builds SAM's mask decoder")
    model, given = _pictures.build("sam-mask-decoder"), _pictures.inputs("sam-mask-decoder", 1)
    with torch.no_grad():
        masks, scores = model(*given)
    assert (masks.shape, scores.shape) == ((1, 1, 3, 256, 256), (1, 1, 3))
