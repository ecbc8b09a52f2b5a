"""Loads a file of an int8 model into a model of plain tensors."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any

import torch
from torch import nn

from cpuaccel.quant._legacy import fx_source, layers, skeleton
from cpuaccel.quant._legacy.container import Container, open_container
from cpuaccel.quant._legacy.descriptions import Object
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.modules import Part, built, is_module, part_of
from cpuaccel.quant._legacy.script import ScriptReader
from cpuaccel.quant._legacy.script_objects import Objects
from cpuaccel.quant._legacy.script_source import Sources, plain_name
from cpuaccel.quant._legacy.state import State
from cpuaccel.quant._legacy.tensors import Tensors
from cpuaccel.quant._legacy.values import Values

File = str | os.PathLike[str] | IO[bytes]

_DAMAGES = (
    *(AssertionError, AttributeError, IndexError, KeyError, MemoryError, OverflowError),
    *(RuntimeError, TypeError, ValueError),
)
"""What torch and the rules of `_lowering` raise for values that no file of torch has."""


def load_legacy(
    file: File, *, model: nn.Module | None, key: str | None, max_bytes: int
) -> nn.Module:
    """See `cpuaccel.quant.load_legacy`."""
    name = os.fspath(file) if isinstance(file, (str, os.PathLike)) else "the file object"
    if not isinstance(file, (str, os.PathLike)) and not hasattr(file, "read"):
        raise TypeError(
            "cpuaccel.quant.load_legacy: file: expected a path or a file opened for bytes, got"
            f" {type(file).__name__}"
        )
    if model is not None and not isinstance(model, nn.Module):
        raise TypeError(
            "cpuaccel.quant.load_legacy: model: expected a torch.nn.Module or None, got"
            f" {type(model).__name__}"
        )
    try:
        with _opened(file) as opened, torch.no_grad():
            return _loaded(open_container(opened, max_bytes), model, key, max_bytes)
    except (*_DAMAGES, RecursionError) as error:
        raise LegacyError(f"cpuaccel.quant.load_legacy: {name}: {_reason(error)}") from error


def _opened(file: File) -> AbstractContextManager[IO[bytes]]:
    if isinstance(file, (str, os.PathLike)):
        return open(file, "rb")
    return nullcontext(file)


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it nests values too deeply"
    if isinstance(error, LegacyError):
        return str(error)
    return f"it is damaged, or of a form that is not known: {type(error).__name__}: {error}"


def _loaded(
    container: Container, model: nn.Module | None, key: str | None, max_bytes: int
) -> nn.Module:
    values = Values(Tensors(container, max_bytes))
    if container.sources is not None:
        return _script(container, values)
    data = container.data if key is None else _entry(container.data, key)
    if is_module(data):
        return _module(part_of(data, values), model)
    if isinstance(data, Object) and str(data.made_by) != "collections.OrderedDict":
        raise LegacyError(f"it holds an object of class {data.made_by}, which is not a module")
    return _state_dict(data, values, model)


def _entry(data: Any, key: str) -> Any:
    entries = data.entries if isinstance(data, Object) else data
    if not isinstance(entries, dict) or key not in entries:
        known = list(entries)[:5] if isinstance(entries, dict) else []
        raise LegacyError(f"key: expected one of {known}, got {key!r}")
    return entries[key]


def _script(container: Container, values: Values) -> nn.Module:
    sources = Sources(container.sources or {})
    reader = ScriptReader(sources, Objects(sources, values), container.constants)
    name = plain_name(str(container.data.made_by)) if isinstance(container.data, Object) else ""
    return layers.lowered(reader.read(container.data), name.rpartition(".")[2])


def _module(part: Part, model: nn.Module | None) -> nn.Module:
    name = part.made_by.name
    if part.code is not None:
        return layers.lowered(fx_source.graph_of(part), "GraphModule")
    if model is not None and not part.kind:
        return skeleton.filled(model, State.of_part(part))
    leaf = built(part)
    if leaf is not None:
        return layers.chain({"layer": leaf}, name)
    if not part.is_sequential:
        raise LegacyError(
            f"it holds a module of class {part.made_by}, whose forward is not in the file:"
            " pass model=, an instance of that class as it was before it was quantized"
        )
    return layers.chain(_in_a_row(part), name)


def _in_a_row(part: Part) -> dict[str, nn.Module]:
    """Return the modules that a Sequential calls, by path."""
    found: dict[str, nn.Module] = {}
    for child in part.children.values():
        if child.is_sequential:
            found |= _in_a_row(child)
            continue
        leaf = built(child)
        if leaf is None:
            raise LegacyError(
                f"module {child.path} of class {child.made_by}: its forward is not in the file:"
                " pass model=, the Sequential as it was before it was quantized"
            )
        found[child.path] = leaf
    return found


def _state_dict(data: Any, values: Values, model: nn.Module | None) -> nn.Module:
    state = values.value(data)
    if not isinstance(state, dict) or not state:
        raise LegacyError(f"it holds a {type(state).__name__}: expected a module or a state dict")
    tables = [name for name, each in state.items() if isinstance(each, (dict, Object))]
    if tables:
        raise LegacyError(
            f"it holds a checkpoint with {tables[:5]}: pass key=, the name of its model or state"
            " dict"
        )
    if any(not isinstance(name, str) for name in state):
        raise LegacyError("it holds a dict whose keys are not names")
    if model is None:
        raise LegacyError(
            "it holds a state dict, which has no graph: pass model=, the float model that was"
            " quantized, or what torch.ao made of it"
        )
    return skeleton.filled(model, State(state, _versions(data, values)))


def _versions(data: Any, values: Values) -> dict[str, Any]:
    """Return the metadata of a state dict: the versions of its modules."""
    state = data.state if isinstance(data, Object) else None
    found = values.value(state.get("_metadata", {})) if isinstance(state, dict) else {}
    return found if isinstance(found, dict) else {}
