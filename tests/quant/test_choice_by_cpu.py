"""Which provider takes a convolution on which CPU."""

from __future__ import annotations

import pytest
import torch
from _other_cpus import as_cpu

from cpuaccel._native import load
from quant._engine import counted, engine, needs_front_end


@needs_front_end
@pytest.mark.parametrize(
    ("cpu", "shape", "provider"),
    [
        ("GenuineIntel Emerald Rapids", (512, 1024, 14), "cpuaccel"),
        ("GenuineIntel Emerald Rapids", (2048, 512, 7), "cpuaccel"),
        ("GenuineIntel Emerald Rapids", (64, 256, 56), "cpuaccel"),
        ("GenuineIntel Emerald Rapids", (256, 64, 56), "onednn"),
        ("GenuineIntel Emerald Rapids", (32, 16, 28), "onednn"),
        ("AuthenticAMD Zen 4", (512, 1024, 14), "onednn"),
        ("AuthenticAMD Zen 4", (2048, 512, 7), "onednn"),
        ("AuthenticAMD Zen 4", (32, 16, 28), "cpuaccel"),
    ],
)
def test_1x1(cpu: str, shape: tuple[int, int, int], provider: str) -> None:
    channels_in, channels_out, image = shape
    with as_cpu(cpu):
        assert _provider_of((channels_in, channels_out, 1), image) == provider


@needs_front_end
@pytest.mark.parametrize(("kernel", "provider"), [(11, "cpuaccel"), (7, "onednn")])
def test_stem(kernel: int, provider: str) -> None:
    assert _provider_of((3, 64, kernel), 64) == provider


@needs_front_end
@pytest.mark.parametrize(
    ("cpu", "image", "provider"),
    [
        ("GenuineIntel Emerald Rapids", 8, "cpuaccel"),
        ("GenuineIntel Emerald Rapids", 9, "onednn"),
        ("AuthenticAMD Zen 4", 8, "onednn"),
    ],
)
def test_several_taps(cpu: str, image: int, provider: str) -> None:
    with as_cpu(cpu):
        assert _provider_of((64, 64, 3), image + 2) == provider


@needs_front_end
@pytest.mark.parametrize(
    ("layer", "image", "most"), [((512, 64, 1), 14, 4), ((512, 64, 1), 7, 16), ((64, 64, 3), 9, 4)]
)
def test_large_batches_are_onednn_s(layer: tuple[int, int, int], image: int, most: int) -> None:
    with as_cpu("GenuineIntel Emerald Rapids"):
        assert _provider_of(layer, image, most) == "cpuaccel"
        assert _provider_of(layer, image, most + 1) == "onednn"


def _provider_of(layer: tuple[int, int, int], image: int, batch: int = 1) -> str:
    """What runs a layer of these channels and this kernel."""
    native = load()
    if not native.isa().startswith("avx512_v"):
        pytest.skip(f"isa() is {native.isa()}: the rows are for AVX512-VNNI")
    if native.has_amx_arithmetic():
        pytest.skip("has_amx_arithmetic(): the rows are for CPUs without AMX")
    with engine("x86"):
        convolution = torch.ao.nn.quantized.Conv2d(*layer)
        src = torch.rand(batch, layer[0], image, image)
        with counted() as counts:
            convolution(torch.quantize_per_tensor(src, 0.01, 0, torch.quint8))
    (name,) = (name for name in counts.calls if name.startswith("conv2d."))
    return name.removeprefix("conv2d.")
