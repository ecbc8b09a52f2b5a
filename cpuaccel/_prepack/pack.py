"""Walks over a model and packs all weights that can be packed, or unpacks them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from cpuaccel import _engine_state, _native
from cpuaccel._compat import ConvNd
from cpuaccel._log import logger
from cpuaccel._prepack import packable
from cpuaccel._prepack.conversion import (
    PackedClass,
    change_class,
    conversion_lock,
    packed_class,
    put_packed,
    raw_parameter,
    unpack_modules,
    weights_of,
)
from cpuaccel._prepack.weight import Form, PackedWeight

Owner = tuple[nn.Module, str]

_NO_FORM = (ConvNd, nn.RNNBase, nn.RNNCellBase, nn.Bilinear)
"""Layers without a packed form. `explain` gives a reason for them, as for layers that have one."""

_not_packed: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()


def not_packed_reason(module: nn.Module) -> str:
    """Return the reason why `prepack` did not pack `module`; "" if it did, or was not asked to."""
    return "" if weights_of(module) else _not_packed.get(module, "")


def pack_model(model: nn.Module, take_shared: bool) -> None:
    """Pack all weights of `model` that can be packed."""
    with conversion_lock:
        _Packing(model, take_shared).run()


def unpack_model(model: nn.Module) -> None:
    """Make every module of `model` plain."""
    unpack_modules(list(model.modules()))


def pack_again(modules: Iterable[nn.Module]) -> None:
    """Pack modules that were packed before, as far as that is possible now."""
    if not _engine_state.is_enabled():
        return
    packing = _Packing(nn.ModuleList(), False)
    packing.add((module, type(module).__name__) for module in modules)
    packing.run()


class _Packing:
    """One walk over a model: finds weights to pack, and excludes those that have other owners."""

    def __init__(self, model: nn.Module, take_shared: bool) -> None:
        self._take_shared = take_shared
        self._paths: dict[nn.Module, str] = {}
        self._forms: dict[nn.Module, dict[str, Form]] = {}
        self._reasons: dict[nn.Module, str] = {}
        self.add((module, path) for path, module in model.named_modules())

    def add(self, modules: Iterable[tuple[nn.Module, str]]) -> None:
        """Add `modules`, each with a readable name, to the walk."""
        self._paths.update(modules)

    def run(self) -> None:
        for module in self._paths:
            self._find_forms(module)
        self._exclude_weights_read_elsewhere()
        users = self._users()
        while self._exclude_weights_shared_with_unpacked(users):
            pass
        self._pack(users)
        self._change_classes_without_weights()
        self._report()

    def _find_forms(self, module: nn.Module) -> None:
        cls: Any = packed_class(type(module))
        if cls is None:
            base = next((c for c in type(module).__mro__ if packed_class(c)), None)
            if isinstance(module, PackedClass):
                return
            if base is not None:
                self._reasons[module] = f"a subclass of {base.__name__}"
            elif isinstance(module, _NO_FORM):
                self._reasons[module] = "cpuaccel has no packed form of this layer"
            return
        if "forward" in module.__dict__:
            self._reasons[module] = "its forward method was replaced"
            return
        forms = cls.forms_to_pack(module)
        if isinstance(forms, dict):
            for name, form in forms.items():
                weight = raw_parameter(module, name)
                if reason := packable.unpackable_reason(weight) or form.unpackable_reason(weight):
                    forms = reason
                    break
        if isinstance(forms, dict):
            self._forms[module] = forms
        else:
            self._reasons[module] = forms

    def _exclude(self, module: nn.Module, reason: str) -> bool:
        """Do not pack `module`. Return whether it was going to be packed."""
        if self._forms.pop(module, None) is None:
            return False
        self._reasons[module] = reason
        return True

    def _exclude_weights_read_elsewhere(self) -> None:
        """Exclude submodules whose weights are read by a module that is not packed itself."""
        for module in self._paths:
            cls: Any = next((c for c in map(packed_class, type(module).__mro__) if c), None)
            if cls is None or module in self._forms or isinstance(module, PackedClass):
                continue
            for part in cls.modules_read(module):
                reader = self._paths[module] or "the model"
                self._exclude(part, f"its weights are also read by {reader}")

    def _users(self) -> dict[int, list[Owner]]:
        """Return the modules that have each parameter, by its id, without a reference to it."""
        users: dict[int, list[Owner]] = {}
        for module in self._paths:
            for name in list(module.__dict__.get("_parameters") or ()):
                parameter = raw_parameter(module, name)
                if parameter is not None:
                    users.setdefault(id(parameter), []).append((module, name))
        return users

    def _exclude_weights_shared_with_unpacked(self, users: dict[int, list[Owner]]) -> bool:
        changed = False
        for module, forms in list(self._forms.items()):
            for name, form in forms.items():
                for other, other_name in users[id(raw_parameter(module, name))]:
                    if self._forms.get(other, {}).get(other_name) != form:
                        path = self._paths[other]
                        full_name = f"{path}.{other_name}" if path else other_name
                        reason = f"its weight is shared with {full_name}, which is not packed"
                        changed = self._exclude(module, reason) or changed
        return changed

    def _pack(self, users: dict[int, list[Owner]]) -> None:
        groups = [
            (users[id(raw_parameter(module, name))], form)
            for module, forms in self._forms.items()
            for name, form in forms.items()
            if users[id(raw_parameter(module, name))][0] == (module, name)
        ]
        rest = self._pack_groups(groups)
        if rest:
            # Objects that the garbage collector has not freed yet may reference them.
            gc.collect()
            rest = self._pack_groups(rest)
        failed = [module for owners, _ in rest for module, _ in owners]
        unpack_modules(failed)
        for module in failed:
            _class_of(module).restore_references(module)
            self._exclude(module, packable.REFERENCED_OUTSIDE)
        for module, forms in list(self._forms.items()):
            if len(weights_of(module)) != len(forms):
                self._exclude(module, packable.REFERENCED_OUTSIDE)

    def _pack_groups(
        self, groups: list[tuple[list[Owner], Form]]
    ) -> list[tuple[list[Owner], Form]]:
        failed = []
        for owners, form in groups:
            weight = _try_pack(owners, form, self._take_shared)
            if weight is None:
                failed.append((owners, form))
                continue
            for module, name in owners:
                put_packed(module, name, weight)
                if not isinstance(module, PackedClass):
                    change_class(module)
        return failed

    def _change_classes_without_weights(self) -> None:
        """Change the class of modules that have no weights to pack but packed submodules."""
        for module, forms in self._forms.items():
            if not forms and any(weights_of(part) for part in module.modules()):
                change_class(module)

    def _report(self) -> None:
        native = _native.load()
        for module, reason in self._reasons.items():
            _not_packed[module] = reason
            native.count_fallback("prepack", reason)
            logger.info("%s is not packed: %s", self._paths[module], reason)


def _class_of(module: nn.Module) -> Any:
    """Return the packed class of `module`, which may have it already."""
    return packed_class(type(module)) or type(module)


def _try_pack(owners: list[Owner], form: Form, take_shared: bool) -> PackedWeight | None:
    """Pack a parameter that nothing but `owners` has; else change nothing and return None."""
    if any(packable.has_other_owners_of_parameters(module) for module, _ in owners):
        return None
    parameter: Any = raw_parameter(*owners[0])
    # Owns the memory while the modules do not have the parameter.
    with torch.inference_mode(parameter.is_inference()):
        values = nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad)
    values.__dict__.update(parameter.__dict__)
    alive = weakref.ref(parameter)
    for module, name in owners:
        _set_raw(module, name, None)
        _class_of(module).drop_references(module)
    del parameter
    survivor = alive()
    put_back: Any = values if survivor is None else survivor
    try:
        if take_shared or (put_back is values and not packable.has_other_owners_of_memory(values)):
            weight = form.pack(values)
            put_back = None
            return weight
        return None
    finally:
        if put_back is not None:
            for module, name in owners:
                _set_raw(module, name, put_back)


def _set_raw(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
    dict.__setitem__(module.__dict__["_parameters"], name, parameter)
