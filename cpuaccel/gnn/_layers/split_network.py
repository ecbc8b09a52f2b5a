"""Splits the first linear layer of edge messages, W [x_i, x_j], into one product per node."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch_geometric.nn as pyg
from torch import Tensor, nn

from cpuaccel._compat import has_any_global_hook

_LINEAR = (nn.Linear, pyg.Linear)
_ROW_WISE = (
    *_LINEAR,
    *(nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid),
    *(nn.LayerNorm, nn.BatchNorm1d, pyg.BatchNorm),
)
"""Modules whose results do not depend on the order of rows, except for the rounding of sums."""


def is_unmodified(module: Any, classes: tuple[type, ...] = _LINEAR) -> bool:
    """Return whether `module` has exactly one of these classes, without hooks or a new forward."""
    return (
        type(module) in classes
        and "forward" not in vars(module)
        and not (
            module._forward_hooks
            or module._forward_pre_hooks
            or module._backward_hooks
            or module._backward_pre_hooks
        )
        and not has_any_global_hook()
    )


@dataclass(frozen=True)
class SplitNetwork:
    """A network that begins with a linear layer."""

    first: Any
    rest: Callable[[Tensor], Tensor]
    """The rest of the network, after the first layer."""
    modules: tuple[nn.Module, ...] | None
    """The rest as modules that run one after the other; None if it is not such a sequence."""
    ordered: bool
    """Whether the rest may depend on the order of rows: it draws random numbers, or is unknown."""


def split_network(network: Any) -> SplitNetwork | None:
    """Split `network`, or return None if it does not begin with a plain linear layer."""
    if is_unmodified(network):
        return SplitNetwork(network, _identity, (), ordered=False)
    if is_unmodified(network, (nn.Sequential,)):
        if len(network) and is_unmodified(network[0]):
            modules = tuple(network)[1:]
            ordered = not all(map(_is_row_wise, modules))
            return SplitNetwork(
                network[0], lambda rows: _run_sequence(modules, rows), modules, ordered
            )
    elif (
        is_unmodified(network, (pyg.MLP,)) and len(network.lins) and is_unmodified(network.lins[0])
    ):
        within = (*network.lins[1:], *network.norms, network.act or nn.Identity())
        draws = network.training and any(network.dropout)
        ordered = draws or not all(map(_is_row_wise, within))
        return SplitNetwork(
            network.lins[0], lambda rows: _without_first(network)(rows), None, ordered
        )
    return None


def _is_row_wise(module: Any) -> bool:
    if is_unmodified(module, (nn.Dropout,)):
        return not (module.training and module.p)
    inner = module.children() if isinstance(module, nn.Module) else ()
    return is_unmodified(module, _ROW_WISE) and all(map(_is_row_wise, inner))


def _identity(rows: Tensor) -> Tensor:
    return rows


def _run_sequence(modules: tuple[nn.Module, ...], rows: Tensor) -> Tensor:
    for module in modules:
        rows = module(rows)
    return rows


def _without_first(network: Any) -> Any:
    """Return the same MLP with the same modules, except for the first linear layer."""
    made = copy.copy(network)
    made._modules = {
        **network._modules,
        "lins": nn.ModuleList([nn.Identity(), *list(network.lins)[1:]]),
    }
    return made
