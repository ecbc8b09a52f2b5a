"""Base of modules with packed weights: they copy, save, load and move like plain ones.

A packed module is the same object with another class (and cpuaccel's `_parameters`), so references
to it stay valid. Anything that would read or write a weight makes it plain first; loading and
moving pack it again afterwards.
"""

from __future__ import annotations

import copy
import copyreg
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

transition = threading.RLock()
"""Held while modules change from plain to packed or back."""
# A child process must not wait for a thread that exists only in its parent.
os.register_at_fork(after_in_child=transition._at_fork_reinit)  # type: ignore[attr-defined]


class PackedModule(nn.Module):
    """Base of the packed classes. A subclass also derives from the torch class that it replaces."""

    plain_class: ClassVar[type[nn.Module]]

    # `pack.py` calls these for plain modules of `plain_class`.

    @classmethod
    def plan(cls, module: Any) -> dict[str, Form] | str:
        """Return the parameters to pack with the form of each, or the reason not to pack."""
        return {}

    @classmethod
    def reads(cls, module: Any) -> Iterable[nn.Module]:
        """Return the modules whose weights the plain `module` reads itself."""
        return ()

    @classmethod
    def forget(cls, module: Any) -> None:
        """Drop other references of `module` to its parameters."""

    @classmethod
    def remember(cls, module: Any) -> None:
        """Undo `forget`; all parameters are present."""

    @classmethod
    def saved(cls, module: Any, state: dict[str, Any]) -> None:
        """Change `state`, the state of a plain module, to what the plain class saves."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        weights = weights_of(self)
        if keep_vars or not weights:
            self.plain_class._save_to_state_dict(self, destination, prefix, keep_vars)
            return
        # In the order in which the parameters were registered, as in the plain module.
        for name, parameter in _raw_items(self):
            if name in weights:
                destination[prefix + name] = weights[name].unpack()
            elif parameter is not None:
                destination[prefix + name] = parameter.detach()
        rest = self.plain_class.__new__(self.plain_class)
        rest.__dict__.update(self.__dict__)
        rest.__dict__["_parameters"] = {}
        rest._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, *arguments: Any, **keywords: Any) -> None:
        self._as_plain("_load_from_state_dict", arguments, keywords)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._as_plain("_apply", (fn, recurse), {})
        return self

    def _as_plain(self, method: str, arguments: Any, keywords: Any) -> None:
        """Call `method` of the plain module, then pack again the weights that were packed."""
        from cpuaccel._prepack.pack import pack_again

        plain = getattr(self.plain_class, method)
        if not weights_of(self):
            plain(self, *arguments, **keywords)
            return
        with transition:
            opened = open_up([self])
            plain(self, *arguments, **keywords)
            pack_again(opened)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        with transition:
            cls = type(self)
            new: Any = cls.__new__(cls)
            memo[id(self)] = new
            weights = {name: copy.deepcopy(w, memo) for name, w in weights_of(self).items()}
            for name, value in self.__dict__.items():
                if name == "_parameters" and weights:
                    raw = {key: copy.deepcopy(v, memo) for key, v in _raw_items(self)}
                    new.__dict__[name] = PackedParameters(new, raw, make_plain)
                elif name != "_packed_weights":
                    new.__dict__[name] = copy.deepcopy(value, memo)
            if weights:
                new.__dict__["_packed_weights"] = weights
                for name, weight in weights.items():
                    weight.users.append((weakref.ref(new), name))
            return new

    def __copy__(self) -> Any:
        make_plain(self, "a shallow copy shares the weights")
        return copy.copy(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as the plain module, so that the result loads without cpuaccel."""
        if type(self) is not packed_class(self.plain_class):
            return super().__reduce_ex__(protocol)
        state = dict(self.__dict__)
        weights = state.pop("_packed_weights", None)
        if weights:
            state["_parameters"] = {
                name: weights[name].parameter() if name in weights else value
                for name, value in _raw_items(self)
            }
            self.saved(self, state)
        # Creates an object of the plain class, which need not be this object's class.
        make: Any = copyreg._reconstructor  # type: ignore[attr-defined]
        return make, (self.plain_class, object, None), state


_packed_classes: dict[type[nn.Module], type[PackedModule]] = {}


def packs(plain: type[nn.Module]) -> Callable[[type[PackedModule]], type[PackedModule]]:
    """Register a class as the packed class of `plain`."""

    def register(cls: type[PackedModule]) -> type[PackedModule]:
        cls.plain_class = plain
        _packed_classes[plain] = cls
        return cls

    return register


def packed_class(plain: type[nn.Module]) -> type[PackedModule] | None:
    """Return the packed class of exactly the class `plain`, or None."""
    return _packed_classes.get(plain)


def weights_of(module: nn.Module) -> dict[str, Any]:
    """Return the packed weights of `module` itself, by name, in the form that its class uses."""
    weights: dict[str, Any] = module.__dict__.get("_packed_weights") or {}
    return weights


def raw(module: nn.Module, name: str) -> Any:
    """Return a parameter of `module`, None if it is packed or missing. Makes nothing plain."""
    return dict.get(module.__dict__["_parameters"], name)


def _raw_items(module: nn.Module) -> Iterator[tuple[str, Any]]:
    return iter(list(dict.items(module.__dict__["_parameters"])))


def put_in(module: nn.Module, name: str, weight: PackedWeight) -> None:
    """Give `module` a packed weight in place of its parameter `name`, which is already removed."""
    if not weights_of(module):
        module.__dict__["_packed_weights"] = {}
        module.__dict__["_parameters"] = PackedParameters(
            module, dict(_raw_items(module)), make_plain
        )
    module.__dict__["_packed_weights"][name] = weight
    weight.users.append((weakref.ref(module), name))


def change_class(module: nn.Module) -> None:
    """Change the class of the plain `module` to its packed class."""
    module.__class__ = _packed_classes[type(module)]


def why_plain(module: nn.Module, weights: Iterable[PackedWeight], inputs: Iterable[Tensor]) -> str:
    """Return the reason why a call has to run in torch, on plain weights, or ""."""
    if module.training and torch.is_grad_enabled() and any(w.requires_grad for w in weights):
        return "it is trained"
    for input in inputs:
        if type(input) is not Tensor and isinstance(input, torch.fx.Proxy):
            return "torch.fx traces it"
        if input.is_nested:
            return "its input is a nested tensor"
    return ""


def make_plain(module: nn.Module, why: str) -> None:
    """Unpack the weights of `module` and of all that share them. Logs and counts the reason."""
    with transition:
        if not weights_of(module):
            return
        native = _native.native()
        if native is not None:
            native.count_fallback("prepack", why)
        logger.info("%s is plain again: %s", type(module).__name__, why)
        open_up([module])


def open_up(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """Make `modules`, and those that share their weights, plain. Return all that were packed."""
    with transition:
        opened: list[nn.Module] = []
        waiting = list(modules)
        while waiting:
            module = waiting.pop()
            weights = weights_of(module)
            if module in opened or not isinstance(module, PackedModule):
                continue
            opened.append(module)
            waiting += [user for w in weights.values() for user, _ in w.modules()]
        # Unpacks everything first: if memory runs out, all modules stay packed.
        held = [w.parameter() for module in opened for w in weights_of(module).values()]
        for module in opened:
            _restore(module)
        del held
        return opened


def _restore(module: nn.Module) -> None:
    weights = weights_of(module)
    cls: Any = type(module)
    if weights:
        module.__dict__["_parameters"] = {
            name: weights[name].parameter() if name in weights else value
            for name, value in _raw_items(module)
        }
        del module.__dict__["_packed_weights"]
        # Before the class changes: a thread that runs it meanwhile waits in the packed forward.
        cls.remember(module)
    # Not if somebody has set a class that is derived from the packed one.
    if isinstance(module, PackedModule) and type(module) is packed_class(module.plain_class):
        module.__class__ = module.plain_class  # type: ignore[assignment]
