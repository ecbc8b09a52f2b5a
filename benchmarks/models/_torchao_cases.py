"""Models for the benchmark of torchao's int8: float, and quantized by torchao's `quantize_`.

Every process of the benchmark imports it, with any torch: so it needs torch, torchao and, for
vit_b_16, torchvision, but nothing else.
"""

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import _bert, _torchvision
from benchmarks._timing import Contender

MODELS = ("linear", *_bert.CONFIGS, "vit_b_16")
KINDS = ("dynamic", "static", "weight-only")
PEER_CONTENDERS = ("torchao", "inductor")

_STATIC_SCALE = 0.05
_ROWS = (1, 16, 128)
_FEATURES = 4096


@dataclass(frozen=True)
class Case:
    """A model and the size of its input: rows of `linear`, tokens of a text, one image."""

    model: str
    size: int = 1

    @property
    def name(self) -> str:
        """The heading of its row."""
        if self.model == "linear":
            return f"{self.size} x {_FEATURES} x {_FEATURES}"
        return self.model if self.model == "vit_b_16" else f"{self.model} {self.size} tokens"

    def build(self) -> nn.Module:
        """The float model, with the same random weights in every process."""
        if self.model == "linear":
            return nn.Sequential(nn.Linear(_FEATURES, _FEATURES)).eval()
        build = _torchvision.build if self.model == "vit_b_16" else _bert.build
        return build(self.model)

    def input(self) -> Tensor:
        """Random numbers, an image or token numbers."""
        if self.model == "linear":
            return torch.randn(self.size, _FEATURES)
        if self.model == "vit_b_16":
            return _torchvision.images(self.model, 1)
        return _bert.tokens(self.model, 1, self.size)


def cases(models: Iterable[str], lengths: Iterable[int]) -> Iterator[Case]:
    """The cases of these models, whose texts have these numbers of tokens."""
    for model in models:
        sizes = _ROWS if model == "linear" else (1,) if model == "vit_b_16" else lengths
        yield from (Case(model, size) for size in sizes)


def peer_contenders(question: dict[str, Any]) -> dict[str, Contender]:
    """What plain torch runs (_torch_peer.py): the case and kind of `question`."""
    case = Case(**question["case"])
    model, x = quantized(case.build(), question["kind"]), case.input()
    runs = (model, torch.compile(copy.deepcopy(model)))
    return {
        name: Contender(partial(run, x)) for name, run in zip(PEER_CONTENDERS, runs, strict=True)
    }


def quantized(model: nn.Module, kind: str) -> nn.Module:
    """Quantizes the linear layers of `model` in place by torchao, and returns it."""
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8StaticActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        PerTensor,
        quantize_,
    )

    config: Any
    filters: dict[str, Any] = {}
    if kind == "dynamic":
        config = Int8DynamicActivationInt8WeightConfig()
    elif kind == "static":
        # torchao compares the dimensions of the scale with those of the input, of which the
        # classifier of a vision transformer has two.
        dims = 2 if isinstance(model, nn.Sequential) else 3
        config = Int8StaticActivationInt8WeightConfig(
            act_quant_scale=torch.full((1,) * dims, _STATIC_SCALE),
            granularity=PerTensor(),
            set_inductor_config=False,
        )
        filters["filter_fn"] = _is_not_a_head
    else:
        config = Int8WeightOnlyConfig(set_inductor_config=False)
    quantize_(model, config, **filters)
    return model


def _is_not_a_head(module: nn.Module, name: str) -> bool:
    return type(module) is nn.Linear and not name.startswith("heads.")
