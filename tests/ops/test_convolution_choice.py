"""Float convolutions that fall back to torch, whose kernels were measured to be faster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from _other_cpus import as_amd
from quant._engine import counted, needs_plugin

from cpuaccel._native import load
from ops._compare import capped

pytestmark = needs_plugin

_CALLS = "fp32_convolution.cpuaccel"


def _runs_on_cpuaccel(isa: str, image: tuple[int, ...], channels: int, taps: int) -> bool:
    x = torch.ones(1, *image)
    weight = torch.ones(channels, image[0], *[taps] * (len(image) - 1))
    convolve = F.conv2d if len(image) == 3 else F.conv3d
    with capped(isa), counted() as counts:
        convolve(x, weight, padding=taps // 2)
    return _CALLS in counts.calls


@pytest.fixture(autouse=True)
def amd() -> Iterator[None]:
    with as_amd():
        yield


# Single NCHW images: a layer that torch runs faster with AVX2.
@pytest.mark.parametrize(
    ("image", "channels", "taps"),
    [
        ((64, 56, 56), 64, 1),
        ((64, 56, 56), 256, 1),
        ((128, 28, 28), 512, 1),
        ((256, 14, 14), 1024, 1),
        ((128, 28, 28), 128, 3),
        ((384, 13, 13), 256, 3),
    ],
)
def test_large_images_run_on_torch_with_avx2(
    image: tuple[int, ...], channels: int, taps: int
) -> None:
    assert not _runs_on_cpuaccel("avx2", image, channels, taps)


@pytest.mark.parametrize(
    ("image", "channels", "taps"),
    [((512, 7, 7), 2048, 1), ((480, 14, 14), 128, 1), ((512, 7, 7), 512, 3), ((16, 28, 28), 32, 3)],
)
def test_what_cpuaccel_runs_faster_with_avx2(
    image: tuple[int, ...], channels: int, taps: int
) -> None:
    assert _runs_on_cpuaccel("avx2", image, channels, taps)


@pytest.mark.parametrize(
    ("image", "channels", "taps"), [((1, 4, 4, 4), 2, 3), ((8, 4, 9, 9), 8, 1)]
)
def test_small_volumes_and_those_of_one_tap_run_on_torch(
    image: tuple[int, ...], channels: int, taps: int
) -> None:
    assert not _runs_on_cpuaccel("avx2", image, channels, taps)


def test_planes_of_volumes_are_not_chosen_as_images_are() -> None:
    assert _runs_on_cpuaccel("avx2", (16, 4, 28, 28), 32, 3)


# With AVX-512, in NCHW and with several taps: large work on images of some pixels falls back.
@pytest.mark.parametrize(
    ("image", "channels", "ours"),
    [
        ((256, 14, 14), 256, False),
        ((64, 56, 56), 64, False),
        ((64, 14, 14), 64, True),
        ((512, 7, 7), 512, True),
        ((32, 56, 56), 32, True),
    ],
)
def test_much_work_runs_on_torch_with_avx512(
    image: tuple[int, ...], channels: int, ours: bool
) -> None:
    if not load().isa().startswith("avx512"):
        pytest.skip("isa() is below avx512: this choice was measured with AVX-512")
    assert _runs_on_cpuaccel("auto", image, channels, 3) == ours


@pytest.mark.parametrize(("side", "ours"), [(56, True), (112, False)])
def test_large_depthwise_images_that_are_channels_last_run_on_torch(side: int, ours: bool) -> None:
    if not load().isa().startswith("avx512"):
        pytest.skip("isa() is below avx512: this choice was measured with AVX-512")
    x = torch.ones(1, 32, side, side).to(memory_format=torch.channels_last)
    with counted() as counts:
        F.conv2d(x, torch.ones(32, 1, 3, 3), padding=1, groups=32)
    assert (_CALLS in counts.calls) == ours
