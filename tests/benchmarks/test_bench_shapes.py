"""The tables of shapes, their classes, and the summary by class."""

import pytest
import torch

from benchmarks._report import Ratio, Row
from benchmarks._timing import Sample
from benchmarks.ops._qops import convolution
from benchmarks.ops._summary import by_kind, by_shape, summarize
from benchmarks.shapes import ConvShape, conv_shapes, linear_shapes

_KINDS = {"stem", "dense", "pointwise", "grouped", "depthwise"}


def _shape(ic: int, oc: int, k: int, groups: int) -> ConvShape:
    pad = k // 2
    return ConvShape("m:l", 1, ic, 14, 14, oc, k, k, 1, 1, pad, pad, 1, 1, groups)


def test_conv_table_is_complete_and_distinct():
    shapes = conv_shapes()
    assert {shape.kind for shape in shapes} == _KINDS
    assert len({str(shape) for shape in shapes}) == len(shapes)


def test_linear_table():
    shapes = linear_shapes()
    assert {shape.M for shape in shapes} == {1, 8, 32, 128}
    assert (768, 3072) in {(shape.K, shape.N) for shape in shapes}


@pytest.mark.parametrize("shape", conv_shapes()[::40], ids=str)
def test_output_size_is_torch_s(shape):
    x = torch.empty(shape.N, shape.IC, shape.H, shape.W, device="meta")
    w = torch.empty(shape.OC, shape.IC // shape.groups, shape.KH, shape.KW, device="meta")
    strides, pads = (shape.SH, shape.SW), (shape.PH, shape.PW)
    y = torch.conv2d(x, w, None, strides, pads, (shape.DH, shape.DW), shape.groups)
    assert shape.out_size == tuple(y.shape[2:])


@pytest.mark.parametrize(
    ("shape", "kind", "channels"),
    [
        (_shape(3, 64, 7, 1), "stem", 64),
        (_shape(64, 32, 1, 1), "pointwise", 32),
        (_shape(64, 64, 3, 1), "dense", 64),
        (_shape(64, 64, 3, 64), "depthwise", 64),
        (_shape(64, 128, 3, 64), "grouped", 1),
        (_shape(128, 128, 3, 32), "grouped", 4),
    ],
)
def test_class_and_channels(shape, kind, channels):
    assert (shape.kind, shape.channels) == (kind, channels)


def test_summary_groups_by_class_and_by_shape():
    pairs = [
        (convolution(_shape(c, c, 3, c), 1), Row("r", {"a": Sample((time,)), "b": Sample((1.0,))}))
        for c, time in ((64, 4.0), (128, 1.0), (116, 0.5))
    ]
    (depthwise,) = summarize(pairs, Ratio("b", "a"), by_kind)
    assert (depthwise.count, depthwise.wins) == (3, 1)
    assert (depthwise.worst, depthwise.best) == (0.5, 4.0)
    groups = summarize(pairs, Ratio("b", "a"), by_shape)
    assert [(group.channels, group.aligned) for group in groups] == [
        ("33-128", "16"),
        ("33-128", "4"),
    ]
