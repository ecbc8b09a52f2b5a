"""Small models, quantized in the ways that users do it.

They consist of torch's own modules only, so a file of one loads in a process that cannot import
this module.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import (
    DeQuantStub,
    QuantStub,
    convert,
    fuse_modules,
    get_default_qat_qconfig,
    get_default_qat_qconfig_mapping,
    get_default_qconfig,
    get_default_qconfig_mapping,
    prepare,
    prepare_qat,
    quantize_dynamic,
)
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx, prepare_qat_fx


def image(seed: int = 0, batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, 12, 12, generator=torch.Generator().manual_seed(seed))


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1, groups=16),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 24, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 10),
    )


class Functional(nn.Module):
    """Calls F.conv2d and F.linear on its own parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_weight = nn.Parameter(torch.randn(8, 3, 3, 3) * 0.2)
        self.conv_bias = nn.Parameter(torch.randn(8) * 0.1)
        self.linear_weight = nn.Parameter(torch.randn(10, 8) * 0.3)
        self.linear_bias = nn.Parameter(torch.randn(10) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        # All arguments are given, as lists of two, because convert_fx fills in none.
        x = F.conv2d(x, self.conv_weight, self.conv_bias, [2, 2], [1, 1], [1, 1], 1)
        x = F.relu(x)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return F.linear(x, self.linear_weight, self.linear_bias)


class Residual(nn.Module):
    """A convolution whose result is added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        return F.relu(self.second(x) + x)


class Stubbed(nn.Module):
    """An eager-mode model with stubs, as before FX."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        self.pool, self.linear = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.conv(self.quant(x))))
        return self.dequant(self.linear(self.pool(x).flatten(1)))


def seeded(make: Callable[[], nn.Module], seed: int = 7) -> nn.Module:
    """Makes a module with the same weights in every process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make().eval()


def static_fx(model: nn.Module, x: Tensor) -> nn.Module:
    with quiet():
        prepared = prepare_fx(copy.deepcopy(model), get_default_qconfig_mapping("x86"), (x,))
        _calibrate(prepared, x)
        return convert_fx(prepared)


def qat_fx(model: nn.Module, x: Tensor) -> nn.Module:
    with quiet():
        mapping = get_default_qat_qconfig_mapping("x86")
        prepared = prepare_qat_fx(copy.deepcopy(model).train(), mapping, (x,))
        _train(prepared, x)
        return convert_fx(prepared.eval())


def eager_static(model: nn.Module, x: Tensor) -> nn.Module:
    with quiet():
        fused = fuse_modules(copy.deepcopy(model), [["conv", "norm", "relu"]])
        fused.qconfig = get_default_qconfig("x86")
        prepared = prepare(fused)
        _calibrate(prepared, x)
        return convert(prepared)


def eager_qat(model: nn.Module, x: Tensor) -> nn.Module:
    with quiet():
        trained = copy.deepcopy(model).train()
        trained.qconfig = get_default_qat_qconfig("x86")
        prepared = prepare_qat(trained)
        _train(prepared, x)
        return convert(prepared.eval())


def dynamic(model: nn.Module) -> nn.Module:
    kinds = {nn.Linear, nn.LSTM, nn.GRU}
    with quiet():
        return quantize_dynamic(copy.deepcopy(model), kinds, dtype=torch.qint8)


def _calibrate(model: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        for step in range(3):
            model(torch.randn(x.shape, generator=torch.Generator().manual_seed(step)))


def _train(model: nn.Module, x: Tensor) -> None:
    with torch.enable_grad():
        _steps(model, x)


def _steps(model: nn.Module, x: Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(2):
        batch = torch.randn(x.shape, generator=torch.Generator().manual_seed(step))
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@contextmanager
def quiet() -> Iterator[None]:
    """Hides torch's deprecation warnings, and warnings about observers and tracing."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=UserWarning)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)
        yield


def _signal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(4))


@dataclass(frozen=True)
class Kind:
    """A float model, an input for it, and whether its activations are quantized too."""

    make: Callable[[], nn.Module]
    x: Tensor
    op: str
    """Its name in `cpuaccel.stats()`."""
    static: bool = True


KINDS: dict[str, Kind] = {
    "linear": Kind(lambda: nn.Sequential(nn.Linear(12, 9), nn.ReLU()), _signal(4, 12), "linear"),
    "conv1d": Kind(lambda: nn.Sequential(nn.Conv1d(4, 6, 3)), _signal(2, 4, 9), "conv2d"),
    "conv2d": Kind(small_cnn, image(), "conv2d"),
    "conv3d": Kind(lambda: nn.Sequential(nn.Conv3d(2, 4, 3)), _signal(1, 2, 5, 5, 5), "conv3d"),
    "functional": Kind(Functional, image(), "conv2d"),
    "dynamic linear": Kind(
        lambda: nn.Sequential(nn.Linear(12, 9)), _signal(4, 12), "linear_dynamic", static=False
    ),
    "lstm": Kind(
        lambda: nn.Sequential(nn.LSTM(12, 10)), _signal(5, 2, 12), "linear_dynamic", static=False
    ),
    "gru": Kind(
        lambda: nn.Sequential(nn.GRU(12, 10)), _signal(5, 2, 12), "linear_dynamic", static=False
    ),
}


def build(kind: str, seed: int = 7) -> tuple[nn.Module, Tensor]:
    """The quantized model of that kind, packed for the current engine, and an input."""
    row = KINDS[kind]
    model = seeded(row.make, seed)
    return (static_fx(model, row.x) if row.static else dynamic(model)), row.x


def output(model: nn.Module, x: Tensor) -> Tensor:
    """The output of `model` for `x`, without gradients."""
    with torch.no_grad():
        return first(model(x))


def first(result: Tensor | tuple) -> Tensor:
    """The output of a model; recurrent models return their state too."""
    return result[0] if isinstance(result, tuple) else result
