"""Packed classes by torch's classes, and the change of a module from plain to packed and back.

A packed module is the same object with another class (and cpuaccel's `_parameters`), so references
to it stay valid.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import torch
import torch.fx
from torch import Tensor, nn

from cpuaccel import _native
from cpuaccel._log import logger
from cpuaccel._prepack.parameters import PackedParameters
from cpuaccel._prepack.weight import Form, PackedWeight

conversion_lock = threading.RLock()
"""Held while modules change from plain to packed or back."""
# A child process must not wait for a thread that exists only in its parent.
os.register_at_fork(after_in_child=conversion_lock._at_fork_reinit)  # type: ignore[attr-defined]


class PackedClass(nn.Module):
    """The part of a packed class that `pack.py` calls; `PackedModule` has the rest (module.py)."""

    plain_class: ClassVar[type[nn.Module]]

    # Called for plain modules of `plain_class`.

    @classmethod
    def forms_to_pack(cls, module: Any) -> dict[str, Form] | str:
        """Return the parameters to pack with the form of each, or the reason not to pack."""
        return {}

    @classmethod
    def modules_read(cls, module: Any) -> Iterable[nn.Module]:
        """Return the modules whose weights the plain `module` reads itself."""
        return ()

    @classmethod
    def drop_references(cls, module: Any) -> None:
        """Drop other references of `module` to its parameters."""

    @classmethod
    def restore_references(cls, module: Any) -> None:
        """Undo `drop_references`; all parameters are present."""

    @classmethod
    def fix_saved_state(cls, module: Any, state: dict[str, Any]) -> None:
        """Change `state`, the state of a plain module, to what the plain class saves."""


_packed_classes: dict[type[nn.Module], type[PackedClass]] = {}


def packs(plain: type[nn.Module]) -> Callable[[type[PackedClass]], type[PackedClass]]:
    """Register a class as the packed class of `plain`."""

    def register(cls: type[PackedClass]) -> type[PackedClass]:
        cls.plain_class = plain
        _packed_classes[plain] = cls
        return cls

    return register


def packed_class(plain: type[nn.Module]) -> type[PackedClass] | None:
    """Return the packed class of exactly the class `plain`, or None."""
    return _packed_classes.get(plain)


def weights_of(module: nn.Module) -> dict[str, Any]:
    """Return the packed weights of `module` itself, by name, in the form that its class uses."""
    weights: dict[str, Any] = module.__dict__.get("_packed_weights") or {}
    return weights


def raw_parameter(module: nn.Module, name: str) -> Any:
    """Return a parameter of `module`, None if it is packed or missing. Makes nothing plain."""
    return dict.get(module.__dict__["_parameters"], name)


def raw_parameters(module: nn.Module) -> Iterator[tuple[str, Any]]:
    return iter(list(dict.items(module.__dict__["_parameters"])))


def put_packed(module: nn.Module, name: str, weight: PackedWeight) -> None:
    """Give `module` a packed weight in place of its parameter `name`, which is already removed."""
    if not weights_of(module):
        module.__dict__["_packed_weights"] = {}
        module.__dict__["_parameters"] = PackedParameters(
            module, dict(raw_parameters(module)), make_plain
        )
    module.__dict__["_packed_weights"][name] = weight
    weight.users.append((weakref.ref(module), name))


def change_class(module: nn.Module) -> None:
    """Change the class of the plain `module` to its packed class."""
    module.__class__ = _packed_classes[type(module)]


def plain_call_reason(
    module: nn.Module, weights: Iterable[PackedWeight], inputs: Iterable[Tensor]
) -> str:
    """Return the reason why a call has to run in torch, on plain weights, or ""."""
    if module.training and torch.is_grad_enabled() and any(w.requires_grad for w in weights):
        return "its weights are being trained"
    for input in inputs:
        if type(input) is not Tensor and isinstance(input, torch.fx.Proxy):
            return "torch.fx traces it"
        if input.is_nested:
            return "its input is a nested tensor"
    return ""


def make_plain(module: nn.Module, reason: str) -> None:
    """Unpack the weights of `module` and of all that share them. Logs and counts the reason."""
    with conversion_lock:
        if not weights_of(module):
            return
        native = _native.native()
        if native is not None:
            native.count_fallback("prepack", reason)
        logger.info("%s is plain again: %s", type(module).__name__, reason)
        unpack_modules([module])


def unpack_modules(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """Make `modules`, and those that share their weights, plain. Return all that were packed."""
    with conversion_lock:
        unpacked: list[nn.Module] = []
        waiting = list(modules)
        while waiting:
            module = waiting.pop()
            weights = weights_of(module)
            if module in unpacked or not isinstance(module, PackedClass):
                continue
            unpacked.append(module)
            waiting += [user for w in weights.values() for user, _ in w.modules()]
        # Unpacks everything first: if memory runs out, all modules stay packed.
        parameters = [w.parameter() for module in unpacked for w in weights_of(module).values()]
        for module in unpacked:
            _restore(module)
        del parameters
        return unpacked


def _restore(module: nn.Module) -> None:
    weights = weights_of(module)
    cls: Any = type(module)
    if weights:
        module.__dict__["_parameters"] = {
            name: weights[name].parameter() if name in weights else value
            for name, value in raw_parameters(module)
        }
        del module.__dict__["_packed_weights"]
        # Before the class changes: a thread that runs it meanwhile waits in the packed forward.
        cls.restore_references(module)
    # Not if somebody has set a class that is derived from the packed one.
    if isinstance(module, PackedClass) and type(module) is packed_class(module.plain_class):
        module.__class__ = module.plain_class  # type: ignore[assignment]
