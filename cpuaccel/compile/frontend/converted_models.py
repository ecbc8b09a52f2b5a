"""`torch.compile(model, backend="cpuaccel")` of int8 models from convert_fx and from eager mode.

Models of transformers that generate are handed to `compiled_generation.py`.

Dynamo cannot trace torch's quantized tensors: it would break the graph at each op. Therefore the
module that torch.compile returns compiles the model in quantize/dequantize form
(`cpuaccel.quant.lower`) at its first call, and calls that. It stays an OptimizedModule of the model
itself.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from cpuaccel import _engine_state, _log, _transformers_names
from cpuaccel._compat import tree_map
from cpuaccel.compile.capture.module_attributes import AttributeSnapshot, ChangeCounter
from cpuaccel.compile.capture.quantized_models import has_float_layers, is_converted, snapshot_of
from cpuaccel.compile.validate.comparison import compare
from cpuaccel.quant._eager_modules import holds_quantized

BACKEND = "cpuaccel"

_TENSORS = (Tensor, nn.Parameter)


def install() -> None:
    """Patch torch.compile to check for such models if this backend is asked for by name."""
    if not hasattr(torch.compile, "_cpuaccel"):
        torch.compile = _patched(torch.compile)


def _patched(torch_compile: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(torch_compile)
    def compile(model: Any = None, **options: Any) -> Any:
        compiled = torch_compile(model, **options)
        if options.get("backend") != BACKEND or options.get("disable"):
            return compiled
        if _transformers_names.package() is not None:
            from cpuaccel.compile.frontend import compiled_generation

            planned = compiled_generation.planned(model, compiled, options)
            if planned is not None:
                return planned
        if isinstance(model, nn.Module) and is_converted(model):
            compiled.forward = _Lowering(model, torch_compile, options, compiled.forward)
            return compiled
        owner = _module_of_call(model)  # of model.compile()
        if owner is not None and is_converted(owner):
            return _Lowering(owner, torch_compile, options, compiled)
        return compiled

    compile._cpuaccel = True  # type: ignore[attr-defined]
    return compile


def _module_of_call(model: Any) -> nn.Module | None:
    """Return the module that nn.Module.compile() is called on."""
    owner = getattr(model, "__self__", None)
    is_call = getattr(model, "__name__", "") == "_call_impl"
    return owner if is_call and isinstance(owner, nn.Module) else None


def _unguarded(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with which Dynamo does not guard on the module in each call.

    No other code has the lowered model; a snapshot checks the model that it was made from.
    """
    from cpuaccel._compat import list_mode_options

    mode = options.get("mode")
    given = list_mode_options().get(mode, {}) if mode else options.get("options") or {}
    if "guard_filter_fn" in given or mode not in (None, "default", *list_mode_options()):
        return options
    skip = torch.compiler.skip_guard_on_all_nn_modules_unsafe
    return {**options, "mode": None, "options": {**given, "guard_filter_fn": skip}}


def _give_own_code(lowered: nn.Module) -> None:
    """Give a module a forward with a code object of its own, as graphs have.

    Dynamo looks up compiled graphs by the code of a forward. Without module guards, another
    instance of the class would get the graph of the first, with its scales.
    """
    original = lowered.forward

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    forward.__code__ = forward.__code__.replace()
    lowered.forward = types.MethodType(forward, lowered)


@dataclass
class _Lowered:
    """A model that can be called, as long as the model that it was made from is unchanged."""

    snapshot: AttributeSnapshot
    run: Callable[..., Any]
    has_float_layers: bool
    unvalidated: nn.Module | None = None
    """The lowered form of an eager-mode model, until a call has compared it with the model:
    torch.fx traced it without arguments."""
    tensor_count: int | None = None
    """Number of tensors that such a graph takes; None: whatever the model takes."""

    def is_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether it is valid for such a call: a forward may branch on types of arguments."""
        if self.tensor_count is None:
            return True
        return (
            not kwargs and len(args) == self.tensor_count and all(type(x) in _TENSORS for x in args)
        )


def _called(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"output": module(*tree_map(_copied, args), **tree_map(_copied, kwargs))}


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


class _Lowering:
    """Calls the compiled lowered model; if there is none, what torch.compile made of the model."""

    def __init__(
        self,
        model: nn.Module,
        torch_compile: Callable[..., Any],
        options: dict[str, Any],
        unlowered: Callable[..., Any],
    ) -> None:
        self._model = model
        self._torch_compile = torch_compile
        self._options = options
        self._unlowered = unlowered
        self._lock = threading.Lock()
        self._compiled: _Lowered | None = None
        self._changes = ChangeCounter()
        self._gave_up_reason = ""  # the reason why nothing is lowered any more

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ready = self._ready() if _engine_state.is_enabled() else None
        if ready is None or not ready.is_for(args, kwargs):
            return self._unlowered(*args, **kwargs)
        if not torch.is_autocast_enabled("cpu"):
            if ready.unvalidated is not None:
                self._validate(ready, args, kwargs)
            return ready.run(*args, **kwargs)
        # Autocast does not change quantized layers, but it would run their lowered form in bf16.
        if ready.has_float_layers:
            from cpuaccel.compile.common import report

            reason = "a model with quantized and float layers, under autocast"
            report.count_fallback("graph", reason)
            return self._model(*args, **kwargs)
        with torch.autocast("cpu", enabled=False):
            return ready.run(*args, **kwargs)

    @property
    def compiled(self) -> Callable[..., Any] | None:
        """The compiled lowered model; None before the first call, or if it was not lowered."""
        compiled = self._compiled.run if self._compiled is not None else None
        return None if compiled is self._unlowered else compiled

    def _ready(self) -> _Lowered | None:
        """Return the model to call; None if it changes too often to be lowered."""
        ready = self._compiled
        if not self._gave_up_reason and (ready is None or not ready.snapshot.is_unchanged()):
            with self._lock:
                ready = self._compiled = self._lower_again(self._compiled)
        self._changes.serve()
        return ready

    def _lower_again(self, ready: _Lowered | None) -> _Lowered | None:
        if self._gave_up_reason or (ready is not None and ready.snapshot.is_unchanged()):
            return ready
        if ready is not None and (many := self._changes.too_many(ready.snapshot)):
            self._gave_up_reason = f"it {many}"
            _log.logger.warning(
                "a quantized model is compiled without lowering from now on: %s",
                self._gave_up_reason,
            )
            return None
        snapshot = snapshot_of(self._model)
        lowered = self._lower()
        made = _Lowered(snapshot, self._compile(lowered), has_float_layers(self._model))
        if lowered is not None and holds_quantized(self._model):
            made.unvalidated = lowered
            if isinstance(lowered, GraphModule):
                made.tensor_count = len(lowered.graph.find_nodes(op="placeholder"))
        return made

    def _lower(self) -> nn.Module | None:
        from cpuaccel.quant import lower

        try:
            return lower(self._model)
        except Exception as error:
            self._say_not_lowered(str(error))
            return None

    def _compile(self, lowered: nn.Module | None) -> Callable[..., Any]:
        if lowered is None:
            return self._unlowered
        if not isinstance(lowered, GraphModule):
            _give_own_code(lowered)
        compiled: Callable[..., Any] = self._torch_compile(lowered, **_unguarded(self._options))
        return compiled

    def _validate(self, ready: _Lowered, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Compare the lowered form with the model; if it is off, run torch.compile's own result."""
        with self._lock, torch.no_grad():
            lowered = ready.unvalidated
            if lowered is None:  # another thread was first
                return
            expected = _called(self._model, args, kwargs)
            try:
                difference = compare(
                    _called(lowered, args, kwargs), expected, "int8", lambda error: None
                )
                problem = "" if difference.is_within else str(difference)
            except Exception as error:
                problem = _log.first_line(error)
            if problem:
                self._say_not_lowered(f"the lowered model's results differ: {problem}")
                ready.run, ready.tensor_count = self._unlowered, None
            ready.unvalidated = None

    def _say_not_lowered(self, why: str) -> None:
        from cpuaccel.compile.common import report

        report.count_fallback("graph", f"not lowered: {why}")
        _log.logger.warning("a quantized model is compiled without lowering: %s", why)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "a compiled quantized model cannot be pickled or copied: pickle or copy its"
            " _orig_mod, the model itself, and compile that again"
        )
