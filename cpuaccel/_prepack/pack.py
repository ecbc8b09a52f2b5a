"""Walks over a model and packs all weights that can be packed, or unpacks them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from cpuaccel import _engine_state, _native
from cpuaccel._log import logger
from cpuaccel._prepack import choose
from cpuaccel._prepack.conversion import (
    PackedClass,
    change_class,
    open_up,
    packed_class,
    put_in,
    raw,
    transition,
    weights_of,
)
from cpuaccel._prepack.weight import Form, PackedWeight

Place = tuple[nn.Module, str]

_NO_FORM = (nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase, nn.Bilinear)
"""Layers without a packed form. `explain` says so, because it lists the layers that are packed."""

_left: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()


def why_left(module: nn.Module) -> str:
    """Return the reason why `prepack` did not pack `module`; "" if it did, or was not asked to."""
    return "" if weights_of(module) else _left.get(module, "")


def pack_model(model: nn.Module, take_shared: bool) -> None:
    """Pack all weights of `model` that can be packed."""
    with transition:
        _Packing(model, take_shared).run()


def unpack_model(model: nn.Module) -> None:
    """Make every module of `model` plain."""
    open_up(list(model.modules()))


def pack_again(modules: Iterable[nn.Module]) -> None:
    """Pack modules that were packed before, as far as that is possible now."""
    if not _engine_state.is_enabled():
        return
    packing = _Packing(nn.ModuleList(), False)
    packing.add((module, type(module).__name__) for module in modules)
    packing.run()


class _Packing:
    """One walk over a model: finds what could be packed, then which of it nothing else holds."""

    def __init__(self, model: nn.Module, take_shared: bool) -> None:
        self._take_shared = take_shared
        self._paths: dict[nn.Module, str] = {}
        self._plans: dict[nn.Module, dict[str, Form]] = {}
        self._reasons: dict[nn.Module, str] = {}
        self.add((module, path) for path, module in model.named_modules())

    def add(self, modules: Iterable[tuple[nn.Module, str]]) -> None:
        """Add `modules`, each with a readable name, to the walk."""
        self._paths.update(modules)

    def run(self) -> None:
        for module in self._paths:
            self._plan(module)
        self._leave_what_others_read()
        users = self._users()
        while self._leave_what_others_have(users):
            pass
        self._pack(users)
        self._change_those_without_weights()
        self._report()

    def _plan(self, module: nn.Module) -> None:
        cls: Any = packed_class(type(module))
        if cls is None:
            base = next((c for c in type(module).__mro__ if packed_class(c)), None)
            if isinstance(module, PackedClass):
                return
            if base is not None:
                self._reasons[module] = f"a class of its own, made from {base.__name__}"
            elif isinstance(module, _NO_FORM):
                self._reasons[module] = "cpuaccel has no packed form for this kind of layer"
            return
        if "forward" in module.__dict__:
            self._reasons[module] = "its forward was replaced"
            return
        plan = cls.plan(module)
        if isinstance(plan, dict):
            for name, form in plan.items():
                weight = raw(module, name)
                if reason := choose.why_not(weight) or form.why_not(weight):
                    plan = reason
                    break
        if isinstance(plan, dict):
            self._plans[module] = plan
        else:
            self._reasons[module] = plan

    def _leave(self, module: nn.Module, reason: str) -> bool:
        """Drop the plan for `module`. Return whether there was one."""
        if self._plans.pop(module, None) is None:
            return False
        self._reasons[module] = reason
        return True

    def _leave_what_others_read(self) -> None:
        """Drop the plans for submodules whose weights a module reads that is not packed itself."""
        for module in self._paths:
            cls: Any = next((c for c in map(packed_class, type(module).__mro__) if c), None)
            if cls is None or module in self._plans or isinstance(module, PackedClass):
                continue
            for part in cls.reads(module):
                self._leave(part, f"its weights are read by {self._paths[module] or 'the model'}")

    def _users(self) -> dict[int, list[Place]]:
        """Return the modules that have each parameter, by its id. Keeps no reference to it."""
        users: dict[int, list[Place]] = {}
        for module in self._paths:
            for name in list(module.__dict__.get("_parameters") or ()):
                parameter = raw(module, name)
                if parameter is not None:
                    users.setdefault(id(parameter), []).append((module, name))
        return users

    def _leave_what_others_have(self, users: dict[int, list[Place]]) -> bool:
        changed = False
        for module, plan in list(self._plans.items()):
            for name, form in plan.items():
                for other, other_name in users[id(raw(module, name))]:
                    if self._plans.get(other, {}).get(other_name) != form:
                        path = self._paths[other]
                        reason = f"its weight is also {path + '.' if path else ''}{other_name}"
                        changed = self._leave(module, f"{reason}, which is not packed") or changed
        return changed

    def _pack(self, users: dict[int, list[Place]]) -> None:
        groups = [
            (users[id(raw(module, name))], form)
            for module, plan in self._plans.items()
            for name, form in plan.items()
            if users[id(raw(module, name))][0] == (module, name)
        ]
        held = self._pack_groups(groups)
        if held:
            # Garbage that is not collected yet may hold them.
            gc.collect()
            held = self._pack_groups(held)
        failed = [module for places, _ in held for module, _ in places]
        open_up(failed)
        for module in failed:
            _class_of(module).remember(module)
            self._leave(module, choose.HELD)
        for module, plan in list(self._plans.items()):
            if len(weights_of(module)) != len(plan):
                self._leave(module, choose.HELD)

    def _pack_groups(
        self, groups: list[tuple[list[Place], Form]]
    ) -> list[tuple[list[Place], Form]]:
        failed = []
        for places, form in groups:
            weight = _take(places, form, self._take_shared)
            if weight is None:
                failed.append((places, form))
                continue
            for module, name in places:
                put_in(module, name, weight)
                if not isinstance(module, PackedClass):
                    change_class(module)
        return failed

    def _change_those_without_weights(self) -> None:
        """Change the class of modules that have no weights to pack but packed submodules."""
        for module, plan in self._plans.items():
            if not plan and any(weights_of(part) for part in module.modules()):
                change_class(module)

    def _report(self) -> None:
        native = _native.load()
        for module, reason in self._reasons.items():
            _left[module] = reason
            native.count_fallback("prepack", reason)
            logger.info("%s is not packed: %s", self._paths[module], reason)


def _class_of(module: nn.Module) -> Any:
    """Return the packed class of `module`, which may have it already."""
    return packed_class(type(module)) or type(module)


def _take(places: list[Place], form: Form, take_shared: bool) -> PackedWeight | None:
    """Pack a parameter that only `places` have; if others have it, change nothing, return None."""
    if any(choose.others_have_parameters_of(module) for module, _ in places):
        return None
    parameter: Any = raw(*places[0])
    # Holds the memory while the modules do not have the parameter.
    with torch.inference_mode(parameter.is_inference()):
        values = nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad)
    values.__dict__.update(parameter.__dict__)
    alive = weakref.ref(parameter)
    for module, name in places:
        _put(module, name, None)
        _class_of(module).forget(module)
    del parameter
    kept = alive()
    put_back: Any = values if kept is None else kept
    try:
        if take_shared or (put_back is values and not choose.others_have_memory_of(values)):
            weight = form.pack(values)
            put_back = None
            return weight
        return None
    finally:
        if put_back is not None:
            for module, name in places:
                _put(module, name, put_back)


def _put(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
    dict.__setitem__(module.__dict__["_parameters"], name, parameter)
