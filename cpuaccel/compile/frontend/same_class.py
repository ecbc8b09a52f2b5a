"""Objects that are used as a model of transformers is, and run plans in its place.

Such an object has a subclass of the model's class, of the same name. It shares the dictionaries of
weights and layers with the model; only its forward, and other methods of `Plans.methods`, differ.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from cpuaccel import _engine_state, _log, _native, _transformers_names
from cpuaccel.compile.capture import quantized_models, training_mode
from cpuaccel.compile.capture.module_attributes import AttributeSnapshot, ChangeCounter
from cpuaccel.compile.frontend.optimized_module import Optimized, is_transformed
from cpuaccel.compile.validate.comparison import Difference, compare

_PLANS = "_cpuaccel_plans"
_HOOKS = (
    *("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    *("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"),
)


NOT_CAPTURED = "not captured"


class Plans(ABC):
    """The captures of one model of transformers."""

    methods: tuple[str, ...] = ("forward",)
    """The methods of the model that may run a capture."""

    needs: tuple[str, ...] = ()
    """The names of `_transformers_names.py` that the captures need."""

    otherwise: Any = None
    """What runs calls that no capture can hold; None: the model."""

    def __init__(self, model: Any, time_budget: float, sizes_budget: float) -> None:
        self.model = model
        self.time_budget, self.sizes_budget = time_budget, sizes_budget
        self.differences: dict[str, Difference] = {}
        """The difference between each captured module and the model, by what it computes."""
        self._parameters: dict[str, tuple[str, ...]] = {}
        self._lock = threading.RLock()
        self._changes = ChangeCounter()
        self._gave_up = _transformers_names.lacking(self.needs)
        self._reset()

    @abstractmethod
    def _reset(self) -> None:
        """Forget all captures."""
        self._reasons: dict[Any, str] = {}
        self._attributes: AttributeSnapshot | None = None
        self._attention: Any = None
        self.differences = {}

    @abstractmethod
    def captures(self) -> dict[str, Optimized]:
        """Return what has captures, by what it computes."""

    @abstractmethod
    def remarks(self) -> list[str]:
        """Return the verdicts, and why the model runs, for `explain`."""

    @abstractmethod
    def call(self, method: str, given: dict[str, Any], plain: Any) -> Any:
        """Return what the model returns, or as a `str` why it has to run itself.

        `given` are the arguments by name; `plain()` runs the model.
        """

    def run(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the model returns."""
        plain = functools.partial(getattr(self.model, method), *args, **kwargs)
        if method == "forward":
            plain = functools.partial(self.model, *args, **kwargs)
        if is_transformed():
            return plain()
        found = self._reason()
        if not found:
            given = {**dict(zip(self._names(method), args, strict=False)), **kwargs}
            found = self.call(method, given, plain)
            if not isinstance(found, str):
                return found
        _native.load().count_fallback("optimize", found)
        if self.otherwise is None or self._prefers_model(found):
            return plain()
        return self.otherwise(*args, **kwargs)

    def _prefers_model(self, reason: str) -> bool:
        """Say whether the model is the faster one, or the one whose results are right."""
        return reason in self._reasons.values() and not reason.startswith(NOT_CAPTURED)

    def _names(self, method: str) -> tuple[str, ...]:
        """Return the names of a method's parameters."""
        if method not in self._parameters:
            names = inspect.signature(getattr(type(self.model), method)).parameters
            self._parameters[method] = tuple(names)[1:]
        return self._parameters[method]

    def _reason(self) -> str:
        """Return why the model runs, whatever the arguments are; "" if it need not."""
        if not _engine_state.is_enabled():
            return "cpuaccel is off"
        if training_mode.in_training(self.model):
            return "the model is in training mode"
        if torch.is_grad_enabled() and any(each.requires_grad for each in self.model.parameters()):
            return "weights require gradients: call it under torch.no_grad()"
        if torch.is_autocast_enabled("cpu"):
            return "autocast is on"
        return self._gave_up

    def _remember_model(self) -> None:
        """Remember the attributes of the model, which has run once."""
        if self._attributes is None:
            self._attributes = AttributeSnapshot(self.model)
            self._attention = _attention_of(self.model)

    def _check_model(self) -> None:
        """Forget all captures if the model has changed."""
        attributes = self._attributes
        if attributes is None or (
            attributes.is_unchanged() and self._attention == _attention_of(self.model)
        ):
            return
        with self._lock:
            if many := self._changes.too_many(attributes):
                self._gave_up = f"the model {many}"
                _log.logger.warning("optimize: the model runs from now on: %s", self._gave_up)
            self._reset()

    @property
    def is_of_16_bits(self) -> bool:
        """Whether the model's floats are bf16 or fp16."""
        return self.model.dtype in (torch.bfloat16, torch.float16)

    def _by_copy(self, dtype: torch.dtype, results: Callable[[Any], Any]) -> Any:
        """Return what `results` makes of a copy of the model in fp32 or float64; None if it fails.

        torchao's layers take no float64, and a model may hold anything.
        """
        try:
            return results(copy.deepcopy(self.model).to(dtype))
        except Exception as error:
            _log.logger.info("optimize: no reference of more digits: %s", _log.first_line(error))
            return None

    def _difference(
        self, what: str, found: Any, expected: Any, exact: Any = lambda error: None
    ) -> Difference:
        """Compare the results `found` of a captured module with those of the model.

        `exact`: as in `compare`.
        """
        arithmetic = "bf16" if self.is_of_16_bits else "fp32"
        if quantized_models.has_int8_rows(self.model):
            arithmetic = "int8"
        difference = compare(found, expected, arithmetic, exact)
        self.differences[what] = difference
        return difference


def _attention_of(model: Any) -> Any:
    return getattr(model.config, _transformers_names.ATTENTION, None)


def is_of_transformers(model: object) -> bool:
    """Say whether a model is of a class of transformers."""
    if _transformers_names.package() is None:
        return False
    return isinstance(model, _transformers_names.PreTrainedModel)


def with_plans(plans: Plans) -> Any:
    """Return an object that is used as the model of `plans` is, and runs them where they hold."""
    model = plans.model
    cls: Any = type(model)
    found = object.__new__(_class_of(cls, plans.methods))
    # It shares the dictionaries of weights and layers with the model.
    found.__dict__.update(vars(model))
    found.__dict__.pop("forward", None)
    found.__dict__.update((name, OrderedDict()) for name in _HOOKS if name in vars(model))
    found.__dict__[_PLANS] = plans
    return found


def plans_of(module: object) -> Plans | None:
    """Return the plans of a result of `with_plans`; None for anything else."""
    found = getattr(module, "__dict__", {}).get(_PLANS)
    return found if isinstance(found, Plans) else None


def with_new_plans(kind: Any, model: Any, time_budget: float, sizes_budget: float) -> Any:
    """Return `with_plans` of new plans: what copies and files of such an object become."""
    return with_plans(kind(model, time_budget, sizes_budget))


@functools.cache
def _class_of(cls: Any, methods: tuple[str, ...]) -> Any:
    """Return a subclass of a model's class with other methods, and the same name."""

    def save_pretrained(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__[_PLANS].model.save_pretrained(*args, **kwargs)

    def train(self: Any, mode: bool = True) -> Any:
        self.__dict__[_PLANS].model.train(mode)
        return cls.train(self, mode)

    def again(self: Any) -> Any:
        plans = self.__dict__[_PLANS]
        return with_new_plans, (type(plans), plans.model, plans.time_budget, plans.sizes_budget)

    def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
        plans = self.__dict__[_PLANS]
        copied = copy.deepcopy(plans.model, memo)
        return with_new_plans(type(plans), copied, plans.time_budget, plans.sizes_budget)

    found = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "save_pretrained": functools.wraps(cls.save_pretrained)(save_pretrained),
        "train": train,
        "__reduce__": again,
        "__deepcopy__": deepcopy,
        **{name: _running(cls, name) for name in methods},
    }
    return type(cls.__name__, (cls,), found)


def _running(cls: Any, name: str) -> Any:
    """Return a method that runs the plans."""

    @functools.wraps(getattr(cls, name))
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__[_PLANS].run(name, args, kwargs)

    return method
