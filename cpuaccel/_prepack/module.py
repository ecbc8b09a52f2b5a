"""PackedModule, the base of packed classes: they copy, save, load and move like plain ones.

Anything that would read or write a weight makes the module plain first; loading and moving pack it
again afterwards.
"""

from __future__ import annotations

import copy
import copyreg
import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor

from cpuaccel._prepack.conversion import (
    PackedClass,
    conversion_lock,
    make_plain,
    packed_class,
    raw_parameters,
    unpack_modules,
    weights_of,
)
from cpuaccel._prepack.pack import pack_again
from cpuaccel._prepack.parameters import PackedParameters


class PackedModule(PackedClass):
    """Base of the packed classes. A subclass also derives from the torch class that it replaces."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        weights = weights_of(self)
        if keep_vars or not weights:
            self.plain_class._save_to_state_dict(self, destination, prefix, keep_vars)
            return
        # In the order in which the parameters were registered, as in the plain module.
        for name, parameter in raw_parameters(self):
            if name in weights:
                destination[prefix + name] = weights[name].unpack()
            elif parameter is not None:
                destination[prefix + name] = parameter.detach()
        rest = self.plain_class.__new__(self.plain_class)
        rest.__dict__.update(self.__dict__)
        rest.__dict__["_parameters"] = {}
        rest._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, *arguments: Any, **keywords: Any) -> None:
        self._call_plain("_load_from_state_dict", arguments, keywords)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._call_plain("_apply", (fn, recurse), {})
        return self

    def _call_plain(self, method: str, arguments: Any, keywords: Any) -> None:
        """Call `method` of the plain module, then pack again the weights that were packed."""
        plain = getattr(self.plain_class, method)
        if not weights_of(self):
            plain(self, *arguments, **keywords)
            return
        with conversion_lock:
            unpacked = unpack_modules([self])
            plain(self, *arguments, **keywords)
            pack_again(unpacked)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        with conversion_lock:
            cls = type(self)
            new: Any = cls.__new__(cls)
            memo[id(self)] = new
            weights = {name: copy.deepcopy(w, memo) for name, w in weights_of(self).items()}
            for name, value in self.__dict__.items():
                if name == "_parameters" and weights:
                    raw = {key: copy.deepcopy(v, memo) for key, v in raw_parameters(self)}
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
                for name, value in raw_parameters(self)
            }
            self.fix_saved_state(self, state)
        # Creates an object of the plain class, which need not be this object's class.
        make: Any = copyreg._reconstructor  # type: ignore[attr-defined]
        return make, (self.plain_class, object, None), state
