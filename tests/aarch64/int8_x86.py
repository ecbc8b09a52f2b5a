"""Writes small int8 models of torch's engines "x86" and "fbgemm", and their results there.

python tests/aarch64/int8_x86.py
"""

from __future__ import annotations

import io
import warnings
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.ao.quantization import get_default_qconfig_mapping, quantize_dynamic
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

FILE = Path(__file__).with_suffix(".pt")
ENGINES = ("x86", "fbgemm")


class Model(nn.Module):
    """Layers of every kind that cpuaccel's kernels support, small enough to be checked in."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pointwise = nn.Conv2d(8, 8, 1, bias=False)
        self.head = nn.Linear(8 * 16, 10)

    # Without annotations: FX keeps them as strings, which torch.save cannot write.
    def forward(self, x):  # type: ignore[no-untyped-def]
        """Compute scores of images of 8 x 8."""
        x = self.stem(x).relu()
        x = x + self.pointwise(self.depthwise(x).relu())
        return self.head(x.flatten(1))


def float_model() -> nn.Module:
    """Return the float model, the same on every machine."""
    torch.manual_seed(0)
    return Model().eval()


def inputs() -> Tensor:
    """Return images, the same on both machines."""
    values = torch.arange(2 * 3 * 8 * 8, dtype=torch.float32)
    return ((values * 37) % 101 / 50 - 1).reshape(2, 3, 8, 8)


def quantized(model: nn.Module, engine: str) -> Any:
    """Return `model` quantized for the current engine, with the engine's default settings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = inputs()
        prepared = prepare_fx(model, get_default_qconfig_mapping(engine), (x,))
        prepared(x)
        return convert_fx(prepared)


def dynamic() -> Any:
    """Return a dynamically quantized linear layer."""
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quantize_dynamic(nn.Sequential(nn.Linear(48, 24)).eval(), {nn.Linear})


def _bytes(save: Any, thing: Any) -> Tensor:
    file = io.BytesIO()
    save(thing, file)
    return torch.frombuffer(bytearray(zlib.compress(file.getvalue(), 9)), dtype=torch.uint8)


def load(made: dict[str, Any], key: str, loader: Any, **arguments: Any) -> Any:
    """Return what `loader` reads from one part of the written file."""
    return loader(io.BytesIO(zlib.decompress(made[key].numpy())), **arguments)


def _made(engine: str) -> dict[str, Any]:
    torch.backends.quantized.engine = engine
    model, dynamic_model, x = quantized(float_model(), engine), dynamic(), inputs()
    rows = x.reshape(-1, 48)
    made = {
        "state_dict": _bytes(torch.save, model.state_dict()),
        "expected": model(x),
        "dynamic": _bytes(torch.save, dynamic_model.state_dict()),
        "dynamic_expected": dynamic_model(rows),
    }
    if engine == "x86":
        # The first model is not saved as a module: torch.load cannot read the file of torch.save.
        made["module"] = _bytes(torch.save, dynamic_model)
        made["script"] = _bytes(torch.jit.save, torch.jit.trace(model, x))
    return made


def main() -> None:
    """Entry point; runs torch alone, with cpuaccel disabled (CPUACCEL=0)."""
    with torch.no_grad():
        torch.save({engine: _made(engine) for engine in ENGINES}, FILE)


if __name__ == "__main__":
    main()
