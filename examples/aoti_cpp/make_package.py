"""Compiles a model ahead of time for `run_package`: writes the package, inputs and expected
outputs.

Run as `python examples/aoti_cpp/make_package.py OUT --model NAME`, where NAME is one of cnn,
cnn-int8, encoder and classifier; writes OUT/NAME.pt2 and OUT/NAME.tensors.pt. Weights are random,
because the example shows how to run a package. Needs a C++ compiler, as AOTInductor does.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

import cpuaccel


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the package")
    parser.add_argument(
        "--model", choices=sorted(MODELS), default="cnn", help="model to compile (default: cnn)"
    )
    options = parser.parse_args()
    torch.manual_seed(0)
    model, x = MODELS[options.model]()
    options.out.mkdir(parents=True, exist_ok=True)
    package = options.out / f"{options.model}.pt2"
    cpuaccel.aot_compile(model, (x,), package)
    with torch.no_grad():
        expected = model(x)
        found = cpuaccel.load(package)(x)
    difference = float((found - expected).abs().max() / expected.abs().max())
    print(f"{package}: differs from eager mode by {difference:.1e} of the largest value")
    _write(options.out / f"{options.model}.tensors.pt", x, found)


def _write(path: Path, x: Tensor, result: Tensor) -> None:
    holder = nn.Module()
    holder.register_buffer("in0", x)
    holder.register_buffer("out0", result.contiguous())
    torch.jit.save(torch.jit.script(holder), path)


def _cnn() -> tuple[nn.Module, Tensor]:
    def block(inputs: int, outputs: int) -> list[nn.Module]:
        layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return [layer, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    layers = [*block(3, 32), *block(32, 64), *block(64, 128)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 64)]
    return nn.Sequential(*layers, *head).eval(), torch.randn(1, 3, 64, 64)


def _cnn_int8() -> tuple[nn.Module, Tensor]:
    model, x = _cnn()
    torch.backends.quantized.engine = "x86"
    prepared = prepare_fx(model, get_default_qconfig_mapping("x86"), (x,))
    prepared(x)
    return convert_fx(prepared), x


class _Block(nn.Module):
    """A layer of a sentence encoder; MiniLM has six of them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.joint = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.joint(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*parts)
        x = self.norms[0](x + self.out(seen.transpose(1, 2).reshape(batch, length, width)))
        return self.norms[1](x + self.second(nn.functional.gelu(self.first(x))))


def _encoder() -> tuple[nn.Module, Tensor]:
    blocks = [_Block(384, 12) for _ in range(6)]
    return nn.Sequential(*blocks).eval(), torch.randn(1, 32, 384)


def _classifier() -> tuple[nn.Module, Tensor]:
    """Return layers that get one row; the package holds their packed weights."""
    layers = [nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 128)]
    return nn.Sequential(*layers).eval(), torch.randn(1, 512)


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "cnn": _cnn,
    "cnn-int8": _cnn_int8,
    "encoder": _encoder,
    "classifier": _classifier,
}

if __name__ == "__main__":
    main()
