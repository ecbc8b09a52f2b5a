"""A user's program: trains a small CNN on scikit-learn's digits and quantizes it to int8.

It uses only torch and scikit-learn.
"""

import warnings
from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

_SEED = 0
_EPOCHS = 12
_BATCH = 64
_LEARNING_RATE = 1e-2


@dataclass(frozen=True)
class Digits:
    """Images N x 1 x 8 x 8 in 0 to 1, labels 0 to 9; a quarter of them is kept for testing."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


class Net(nn.Module):
    """Convolution, a depthwise separable residual block, convolution, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _block(1, 32)
        self.depthwise = _block(32, 32, groups=32)
        self.pointwise = nn.Sequential(nn.Conv2d(32, 32, 1, bias=False), nn.BatchNorm2d(32))
        self.relu = nn.ReLU()
        self.down = _block(32, 64, stride=2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classify = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.relu(x + self.pointwise(self.depthwise(x)))
        x = self.pool(self.down(x))
        scores: Tensor = self.classify(x.flatten(1))
        return scores


def _block(inputs: int, outputs: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def load() -> Digits:
    """1797 scanned digits, from scikit-learn's own files."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    chosen, kept = train_test_split(
        range(len(labels)), test_size=0.25, random_state=_SEED, stratify=data.target
    )
    return Digits(images[chosen], labels[chosen], images[kept], labels[kept])


def train(digits: Digits) -> Net:
    """Trains a network and returns it in eval mode."""
    torch.manual_seed(_SEED)
    net = Net()
    steps = -(-len(digits.train_labels) // _BATCH)
    optimizer = torch.optim.Adam(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, _LEARNING_RATE, epochs=_EPOCHS, steps_per_epoch=steps
    )
    for _ in range(_EPOCHS):
        for batch in torch.randperm(len(digits.train_labels)).split(_BATCH):
            loss = nn.functional.cross_entropy(
                net(digits.train_images[batch]), digits.train_labels[batch]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def quantize(net: nn.Module, images: Tensor) -> nn.Module:
    """An int8 model for the engine `torch.backends.quantized.engine`, calibrated on `images`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mapping = get_default_qconfig_mapping("x86")
        prepared = prepare_fx(net, mapping, example_inputs=(images[:1],))
        with torch.no_grad():
            for batch in images.split(_BATCH):
                prepared(batch)
        return convert_fx(prepared)


def accuracy(model: nn.Module, digits: Digits) -> float:
    """The share of test images that `model` classifies correctly, 0 to 1."""
    with torch.no_grad():
        right = model(digits.test_images).argmax(1) == digits.test_labels
    return float(right.double().mean())
