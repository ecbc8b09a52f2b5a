"""Splits the first linear layer of edge messages, W [x_i, x_j], into one product per node."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

_LINEAR = (nn.Linear, pyg.Linear)
_OF_ROWS = (
    *_LINEAR,
    *(nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid),
    *(nn.LayerNorm, nn.BatchNorm1d, pyg.BatchNorm),
)
"""Modules that treat rows alike in any order, except for the rounding of sums over them."""


def is_plain(module: Any, kinds: tuple[type, ...] = _LINEAR) -> bool:
    """Return whether `module` is of one of these classes, and a call runs nothing else (hooks)."""
    return (
        type(module) in kinds
        and "forward" not in vars(module)
        and not (
            module._forward_hooks
            or module._forward_pre_hooks
            or module._backward_hooks
            or module._backward_pre_hooks
        )
        and not _has_any_global_hook()  # type: ignore[no-untyped-call]
    )


@dataclass(frozen=True)
class Apart:
    """A network that begins with a linear layer."""

    first: Any
    rest: Callable[[Tensor], Tensor]
    """What follows the first layer."""
    modules: tuple[nn.Module, ...] | None
    """The rest is these one after the other; None if it is more than that."""
    ordered: bool
    """Whether the rest may depend on the order of rows: it draws numbers, or is unknown."""


def taken_apart(network: Any) -> Apart | None:
    """Split `network`, or return None if it does not begin with a plain linear layer."""
    if is_plain(network):
        return Apart(network, _same, (), ordered=False)
    if is_plain(network, (nn.Sequential,)):
        if len(network) and is_plain(network[0]):
            modules = tuple(network)[1:]
            ordered = not all(map(_is_of_rows, modules))
            return Apart(network[0], lambda rows: _in_turn(modules, rows), modules, ordered)
    elif is_plain(network, (pyg.MLP,)) and len(network.lins) and is_plain(network.lins[0]):
        within = (*network.lins[1:], *network.norms, network.act or nn.Identity())
        draws = network.training and any(network.dropout)
        ordered = draws or not all(map(_is_of_rows, within))
        return Apart(network.lins[0], lambda rows: _without_first(network)(rows), None, ordered)
    return None


def _is_of_rows(module: Any) -> bool:
    if is_plain(module, (nn.Dropout,)):
        return not (module.training and module.p)
    inner = module.children() if isinstance(module, nn.Module) else ()
    return is_plain(module, _OF_ROWS) and all(map(_is_of_rows, inner))


def _same(rows: Tensor) -> Tensor:
    return rows


def _in_turn(modules: tuple[nn.Module, ...], rows: Tensor) -> Tensor:
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
