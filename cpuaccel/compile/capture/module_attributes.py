"""Snapshots of a module's attributes: tell whether one was replaced since, and restore them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

from torch import Tensor, nn
from torch.fx import GraphModule
from torch.nn.modules import module as _global

from cpuaccel import _native
from cpuaccel._transformers_names import COLLECTING_HOOKS
from cpuaccel.quant._eager_modules import is_quantized_module

_SHOWN = 3

_REGISTRIES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_GLOBAL_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks")


_ASSIGNED_BY_RECOMPILE = frozenset(["_code", "_lineno_map", "_prologue_start"])
"""Attributes that GraphModule.recompile() assigns. Pickling a GraphModule calls it."""


class DictSnapshot:
    """A snapshot of dictionaries: tells if they still hold the same objects in the same order."""

    def __init__(self, tables: Sequence[dict[str, Any]]) -> None:
        self._tables = tuple({id(each): each for each in tables}.values())
        self._end = object()
        self._objects = tuple(_objects(self._tables, self._end))
        self._versions = bytearray(8 * len(self._tables))

    def is_unchanged(self) -> bool:
        """Whether they do. It takes a few nanoseconds per dictionary."""
        return _native.load().same_objects(self._tables, self._objects, self._end, self._versions)


class AttributeSnapshot:
    """A snapshot of a module's and its layers' attributes: parameters, buffers, hooks and others.

    With `containers`, it includes the contents of dictionaries and lists among them. A weight that
    a hook of torch computes from its parts in each call is ignored.

    The contents of tensors are not compared, so that mutations are not detected here, except in
    `numbers`: small tensors whose values something was made from.
    """

    def __init__(
        self, model: nn.Module, numbers: Sequence[Tensor] = (), *, containers: bool = False
    ) -> None:
        named = [
            (f"{path}." if path else "", table)
            for path, module in model.named_modules()
            for table in _tables(module)
        ]
        named += [("torch.nn.", getattr(_global, name)) for name in _GLOBAL_HOOKS]
        self._lists: list[tuple[str, list[Any], list[Any]]] = []
        if containers:
            inside = [(f"{path}{name}", each) for path, of in named for name, each in of.items()]
            named += [(f"{path}.", each) for path, each in inside if type(each) is dict]
            self._lists = [(path, each, [*each]) for path, each in inside if type(each) is list]
        self._saved = [(path, table, dict(table)) for path, table in named]
        self._made = {id(vars(module)): _made_by_hooks(module) for module in model.modules()}
        # torch.ao's layers do the same in both modes. convert_fx leaves them in training mode.
        self._modeless = {id(vars(m)) for m in model.modules() if is_quantized_module(m)}
        self._forwards = {
            id(vars(module)): _Forward(type(module))
            for module in model.modules()
            if isinstance(module, GraphModule)
        }
        self._numbers = _native.load().WatchedNumbers(numbers) if numbers else None
        self._tables = DictSnapshot([table for _, table in named])

    def is_unchanged(self) -> bool:
        """Whether each attribute is still the same object."""
        if self._numbers is not None and not self._numbers.are_as_before():
            return False
        if not self._lists and self._tables.is_unchanged():
            return True
        if self.changes():
            return False
        # Only the order, or an ignored attribute, has changed: the next check is quick again.
        self._tables = DictSnapshot([table for _, table, _ in self._saved])
        return True

    def changes(self) -> list[str]:
        """Return the names of attributes that were replaced, added or removed."""
        found = [
            f"{path}{name}"
            for path, table, saved in self._saved
            for name in {**saved, **table}
            if not _is_same(table, saved, name) and not self._is_ignored(table, name)
        ]
        return found + [
            path
            for path, each, saved in self._lists
            if len(each) != len(saved) or any(a is not b for a, b in zip(each, saved, strict=True))
        ]

    def _is_ignored(self, table: dict[str, Any], name: str) -> bool:
        if (
            name in _ASSIGNED_BY_RECOMPILE
            and (forward := self._forwards.get(id(table))) is not None
        ):
            return name in table and forward.is_unchanged()
        if name == "training" and id(table) in self._modeless:
            return True
        return name in self._made.get(id(table), ())

    def restore(self) -> None:
        """Restore each attribute to the object that it was."""
        for _, table, saved in self._saved:
            for name in {**saved, **table}:
                if name not in saved:
                    del table[name]
                elif not _is_same(table, saved, name):
                    table[name] = saved[name]
        for _, values, before in self._lists:
            values[:] = before


class ChangeCounter:
    """Counts changes of a model. What was made from the model is made anew after each change."""

    MOST = 32
    """Maximum number of changes in a row, each before _ENOUGH calls were served."""
    _ENOUGH = 8

    def __init__(self) -> None:
        self.count = self._served = 0

    def serve(self) -> None:
        """Count a call."""
        self._served += 1

    def too_many(self, attributes: AttributeSnapshot) -> str:
        """Count a change of `attributes`; return a description if there were too many, else ""."""
        self.count = 1 if self._served >= self._ENOUGH else self.count + 1
        self._served = 0
        if self.count <= self.MOST:
            return ""
        return f"has changed {self.count} times, most recently {shown(attributes.changes())}"


class _Forward:
    """The forward that a GraphModule generated: recompile() generates another, often an equal one.

    Two of them are equal if they have the same code and call the same objects.
    """

    def __init__(self, cls: type[GraphModule]) -> None:
        self._class = cls
        self._saved = vars(cls).get("forward")

    def is_unchanged(self) -> bool:
        now: Any = vars(self._class).get("forward")
        saved: Any = self._saved
        if now is saved:
            return True
        if not (isinstance(now, FunctionType) and isinstance(saved, FunctionType)):
            return False
        before, after = (_named(function.__globals__) for function in (saved, now))
        return (
            now.__code__ == saved.__code__
            and before.keys() == after.keys()
            and all(after[name] is value for name, value in before.items())
        )


def _named(scope: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scope.items() if name != "__builtins__"}


def shown(names: list[str]) -> str:
    """Return the first names, for a message."""
    return ", ".join(names[:_SHOWN])


def layer_with_hooks(model: nn.Module) -> str:
    """Return the path of the first layer that has forward hooks other than torch's; or ""."""
    for path, module in model.named_modules():
        if any(_are_others(vars(module).get(name, {})) for name in _HOOKS):
            return path or type(module).__name__
    return "torch.nn" if any(_are_others(getattr(_global, name)) for name in _GLOBAL_HOOKS) else ""


def _are_others(hooks: dict[int, Any]) -> bool:
    return not all(_is_torchs(hook) for hook in hooks.values())


def _is_torchs(hook: Any) -> bool:
    # torch.export checks inputs in a hook; weight_norm, spectral_norm, pruning make weights in one.
    # transformers leaves hooks that collect hidden states, in calls that ask for them only.
    of = getattr(hook, "__module__", None) or ""
    return of.startswith(("torch.", COLLECTING_HOOKS))


def _made_by_hooks(module: nn.Module) -> set[str]:
    hooks = filter(_is_torchs, vars(module).get("_forward_pre_hooks", {}).values())
    named = (getattr(hook, "name", getattr(hook, "_tensor_name", None)) for hook in hooks)
    return {name for name in named if isinstance(name, str)}


def _tables(module: nn.Module) -> Iterator[dict[str, Any]]:
    for table in (*(vars(module).get(name) for name in (*_REGISTRIES, *_HOOKS)), vars(module)):
        if isinstance(table, dict):  # TorchScript has types of its own
            yield table


def _is_same(table: dict[str, Any], saved: dict[str, Any], name: str) -> bool:
    return name in table and name in saved and table[name] is saved[name]


def _objects(tables: tuple[dict[str, Any], ...], end: object) -> Iterator[object]:
    for table in tables:
        for name, value in table.items():
            yield value
            yield name
        yield end
