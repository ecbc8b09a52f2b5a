"""Int8 models that torch.ao makes, and the files that users have of them.

Without `from __future__ import annotations`, because torch.fx cannot pickle annotations as texts.
"""

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.ao.quantization as aq
from torch import nn
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx, prepare_qat_fx
from torch.fx import GraphModule


class _Block(nn.Module):
    """A residual block, as in ResNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(_Block(8), _Block(8))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer1(self.pool(self.stem(x)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class MobileNet(nn.Module):
    """Inverted residuals with depthwise layers, hardswish and squeeze-and-excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(3, 16, 1), nn.BatchNorm2d(16), nn.Hardswish())
        self.depthwise = nn.Sequential(
            nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU6()
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.squeeze = nn.Conv2d(16, 4, 1)
        self.excite = nn.Conv2d(4, 16, 1)
        self.gate = nn.Hardsigmoid()
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.depthwise(self.expand(x))
        gate = self.gate(self.excite(torch.relu(self.squeeze(self.pool(x)))))
        x = torch.cat([x * gate, x], 1).chunk(2, 1)[0]
        return self.head(self.drop(x.mean([2, 3])))


class Functional(nn.Module):
    """Layers as functions: convert_fx packs their weights as attributes of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 3, 3, 3) / 5)
        self.bias = nn.Parameter(torch.randn(6))
        self.matrix = nn.Parameter(torch.randn(5, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.conv2d(x, self.weight, self.bias, (1, 1), (1, 1), (1, 1), 1)
        x = nn.functional.relu(x)
        x = nn.functional.adaptive_avg_pool2d(x, 1).reshape(x.size(0), -1)
        return nn.functional.linear(x, self.matrix)


class Two(nn.Module):
    """Returns a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": self.a(x), "b": self.b(x).sigmoid()}


class Eager(nn.Module):
    """For torch.ao.quantization.convert: stubs, a FloatFunctional, a fused convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.quant = aq.QuantStub()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        self.point = nn.Conv2d(8, 8, 1)
        self.sum = nn.quantized.FloatFunctional()
        self.fc = nn.Linear(8, 4)
        self.dequant = aq.DeQuantStub()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.bn(self.conv(self.quant(x))))
        x = self.sum.add(self.point(x), x)
        return self.dequant(self.fc(x.mean([2, 3])))


class Words(nn.Module):
    """For quantize_dynamic: an embedding, an LSTM, a GRU, a linear layer, a cell."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 6, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(12, 5)
        self.norm = nn.LayerNorm(5)
        self.fc = nn.Linear(5, 3)
        self.cell = nn.LSTMCell(3, 3)

    def forward(self, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, _ = self.lstm(self.embedding(indices))
        y, _ = self.gru(y)
        y = self.fc(self.norm(y))
        hidden, _ = self.cell(y[0])
        return y, hidden


IMAGES = (2, 3, 17, 17)


def images(seed: int = 1) -> torch.Tensor:
    return torch.randn(IMAGES, generator=torch.Generator().manual_seed(seed))


def indices() -> torch.Tensor:
    return torch.randint(0, 20, (4, 7), generator=torch.Generator().manual_seed(1))


def _trained(model: nn.Module) -> nn.Module:
    """Give batch norms statistics, so that folding them changes weights."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2.0)
    return model.eval()


def quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of torch.ao, which warns that it is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def made(cls: type[nn.Module]) -> nn.Module:
    """Return a float model with the same weights at each call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return _trained(cls())


def converted(cls: type[nn.Module]) -> GraphModule:
    """Return what convert_fx makes of a float model."""
    return quietly(_converted, made(cls))


def _converted(model: nn.Module) -> GraphModule:
    mapping = aq.get_default_qconfig_mapping("x86")
    prepared = prepare_fx(model, mapping, (images(),))
    prepared(images())
    return convert_fx(prepared)


def qat_converted(cls: type[nn.Module]) -> GraphModule:
    """Return what quantization-aware training and convert_fx make of a float model."""

    def run() -> GraphModule:
        mapping = aq.get_default_qat_qconfig_mapping("x86")
        prepared = prepare_qat_fx(made(cls).train(), mapping, (images(),))
        prepared(images())
        return convert_fx(prepared.eval())

    return quietly(run)


def eager_converted(fuse: bool = True) -> nn.Module:
    """Return what torch.ao.quantization.convert makes of Eager."""

    def run() -> nn.Module:
        model = made(Eager)
        if fuse:
            aq.fuse_modules(model, [["conv", "bn", "relu"]], inplace=True)
        else:
            model.bn = nn.Identity()
        model.qconfig = aq.get_default_qconfig("x86")
        aq.prepare(model, inplace=True)
        model(images())
        return aq.convert(model)

    return quietly(run)


def dynamic() -> nn.Module:
    """Return what torch.ao makes of Words: dynamic layers and an integer embedding."""

    def run() -> nn.Module:
        model = made(Words)
        model.embedding.qconfig = aq.float_qparams_weight_only_qconfig
        aq.prepare(model, inplace=True)
        aq.convert(model, inplace=True)
        return aq.quantize_dynamic(model, {nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell})

    return quietly(run)


# Files


def saved(value: Any) -> io.BytesIO:
    """torch.save's format since 1.6."""
    return _written(lambda file: torch.save(value, file))


def saved_old(value: Any) -> io.BytesIO:
    """torch.save's format before 1.6."""
    return _written(lambda file: torch.save(value, file, _use_new_zipfile_serialization=False))


def pickled(value: Any) -> io.BytesIO:
    return _written(lambda file: pickle.dump(value, file))


def scripted(model: nn.Module) -> io.BytesIO:
    return _written(lambda file: torch.jit.save(torch.jit.script(model), file))


def traced(model: nn.Module, given: torch.Tensor | None = None) -> io.BytesIO:
    given = images() if given is None else given
    return _written(lambda file: torch.jit.save(torch.jit.trace(model, given), file))


FILES = {
    "torch.save": saved,
    "torch.save before 1.6": saved_old,
    "pickle": pickled,
    "torch.jit.script": scripted,
    "torch.jit.trace": traced,
}


def _written(write: Callable[[io.BytesIO], None]) -> io.BytesIO:
    file = io.BytesIO()
    quietly(write, file)
    file.seek(0)
    return file


def result(model: nn.Module, *args: Any) -> Any:
    with torch.no_grad():
        return quietly(model, *copy.deepcopy(args))
