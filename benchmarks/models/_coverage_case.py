"""A model of the coverage benchmark: how it is built and which inputs it gets."""

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
# Added to constant parameters, where a fault would not show otherwise.
_JITTER = 0.05


@dataclass(frozen=True)
class Inputs:
    """The arguments of a model call."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def given_to(self, model: Callable[..., Any]) -> Any:
        """Calls `model` with these inputs."""
        return model(*self.args, **self.kwargs)

    def double(self) -> "Inputs":
        """The same inputs in float64, for a model in float64."""

        def cast(value: Any) -> Any:
            return (
                value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
            )

        return Inputs(
            tuple(map(cast, self.args)), {name: cast(each) for name, each in self.kwargs.items()}
        )


@dataclass(frozen=True)
class Case:
    """A row: `build` returns the model, `inputs` its random inputs from a generator."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator], Inputs]
    needs: tuple[str, ...] = ()
    """Optional packages that it needs."""
    quantizes: bool = False
    """Whether prepare_fx and convert_fx accept it."""

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
    """Change constant parameters in place, such as biases of 0 and scales of 1."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.min() == weight.max():
                weight.add_(_JITTER * torch.randn(weight.shape))


def tensors_of(result: Any) -> list[Tensor]:
    """The tensors in a model's result, which may be any pytree."""
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]


def library(name: str) -> Any:
    """Imports the module `name` of a library that imports torchvision if installed."""
    if importlib.util.find_spec("torchvision"):
        import_torchvision()  # if torchvision's extension does not load, a plain import of it fails
    return importlib.import_module(name)
