"""A model of the coverage benchmark: how it is built, and what it is called with."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from benchmarks._torchvision import import_torchvision
from benchmarks.models import _peers

_SEED = 2024
# What is added to constants, a fault in which would not show.
_JITTER = 0.05


@dataclass(frozen=True)
class Inputs:
    """What a model is called with."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def given_to(self, model: Callable[..., Any]) -> Any:
        """What `model` returns for them."""
        return model(*self.args, **self.kwargs)

    def double(self) -> "Inputs":
        """The same in float64, for a model in float64."""

        def cast(value: Any) -> Any:
            return (
                value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
            )

        return Inputs(
            tuple(map(cast, self.args)), {name: cast(each) for name, each in self.kwargs.items()}
        )


@dataclass(frozen=True)
class Case:
    """A row: `build` returns the model, `inputs` what it is called with, random by a generator."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator], Inputs]
    needs: tuple[str, ...] = ()
    """Optional packages."""
    quantizes: bool = False
    """Whether prepare_fx and convert_fx take it."""

    def missing(self) -> str:
        """Why it cannot be built here, or ""."""
        return _peers.missing(*self.needs)

    def model(self) -> nn.Module:
        """The model in eval mode, with the same random weights in every process."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_SEED)
            model = self.build().eval()
            vary(model)
        return model

    def some_inputs(self, count: int) -> list[Inputs]:
        """`count` different inputs of the same sizes, the same in every process."""
        generator = torch.Generator().manual_seed(_SEED)
        return [self.inputs(generator) for _ in range(count)]


def vary(model: nn.Module) -> None:
    """Give what is a constant, as biases of 0 and scales of 1, different values in place."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.min() == weight.max():
                weight.add_(_JITTER * torch.randn(weight.shape))


def tensors_of(result: Any) -> list[Tensor]:
    """The tensors in what a model returned: what it nests them in is a pytree of torch's."""
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]


def library(name: str) -> Any:
    """The module `name` of a library that imports torchvision where it is installed."""
    if importlib.util.find_spec("torchvision"):
        import_torchvision()  # where its extension does not load, nobody else's import works
    return importlib.import_module(name)
