"""Which provider takes a convolution on which CPU."""

from __future__ import annotations

import pytest
import torch
from _other_cpus import as_cpu
from ops._compare import capped

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


@needs_front_end
@pytest.mark.parametrize(
    ("layer", "image", "groups", "provider"),
    [
        ((3, 64, 7), 32, 1, "cpuaccel"),
        ((256, 512, 1), 14, 1, "cpuaccel"),
        ((512, 512, 1), 14, 1, "onednn"),
        ((128, 128, 3), 10, 1, "cpuaccel"),
        ((128, 128, 3), 30, 1, "onednn"),
        ((256, 256, 3), 10, 1, "onednn"),
        ((64, 64, 3), 30, 4, "cpuaccel"),
        ((64, 64, 3), 30, 8, "onednn"),
    ],
)
def test_avx_vnni(layer: tuple[int, int, int], image: int, groups: int, provider: str) -> None:
    with capped("avx_vnni"):
        if load().isa() != "avx_vnni":
            pytest.skip(f"isa() is {load().isa()} below AVX-512: this CPU has no AVX-VNNI")
        assert _run_by(layer, image, groups=groups) == provider


def _provider_of(layer: tuple[int, int, int], image: int, batch: int = 1) -> str:
    """What runs a layer of these channels and this kernel on AVX512-VNNI."""
    native = load()
    if not native.isa().startswith("avx512_v"):
        pytest.skip(f"isa() is {native.isa()}: the rows are for AVX512-VNNI")
    if native.has_amx_arithmetic():
        pytest.skip("has_amx_arithmetic(): the rows are for CPUs without AMX")
    return _run_by(layer, image, batch)


def _run_by(layer: tuple[int, int, int], image: int, batch: int = 1, groups: int = 1) -> str:
    """What runs a layer of these channels and this kernel."""
    with engine("x86"):
        convolution = torch.ao.nn.quantized.Conv2d(*layer, groups=groups)
        src = torch.rand(batch, layer[0], image, image)
        with counted() as counts:
            convolution(torch.quantize_per_tensor(src, 0.01, 0, torch.quint8))
    (name,) = (name for name in counts.calls if name.startswith("conv2d."))
    return name.removeprefix("conv2d.")
