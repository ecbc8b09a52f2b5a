"""Access to cpuaccel for the benchmarks, which also run without it and then omit its columns."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Imported first: autoload is a part of `import torch`, so `cpuaccel` finds a finished torch.
import torch  # noqa: F401


def _module() -> Any:
    """The cpuaccel module, or None. A source folder without a build imports, but has no switch."""
    try:
        module = importlib.import_module("cpuaccel")
    except ImportError:
        return None
    return module if hasattr(module, "enabled") else None


def missing() -> str:
    """Why cpuaccel cannot be measured, or "" if it can."""
    module = _module()
    if module is None:
        return "cpuaccel is not installed"
    try:
        with module.enabled(True):
            return ""
    except RuntimeError as error:
        return str(error)


def fuse_missing() -> str:
    """Why converted models cannot be fused, or ""."""
    reason = missing()
    if reason:
        return reason
    quant = importlib.import_module("cpuaccel.quant")
    return "" if hasattr(quant, "fuse") else "cpuaccel has no quant.fuse"


def fuse(converted: Any) -> Any:
    """`cpuaccel.quant.fuse` of what convert_fx returned: an equivalent GraphModule."""
    return importlib.import_module("cpuaccel.quant").fuse(converted)


def accelerate(model: Any) -> Any:
    """`cpuaccel.gnn.accelerate` of a model with torch_geometric's layers."""
    return importlib.import_module("cpuaccel.gnn").accelerate(model)


def prepack_missing() -> str:
    """Why models cannot be prepacked, or ""."""
    return missing() or _lacks("prepack")


def prepack(model: Any) -> Any:
    """Applies `cpuaccel.prepack`: the model then holds its weights in packed form only."""
    prepacked = _module().prepack(model)
    return model if prepacked is None else prepacked


def optimize_missing() -> str:
    """Why models cannot be optimized in eager mode, or ""."""
    return missing() or _lacks("optimize")


def optimize(model: Any, inputs: tuple[Any, ...]) -> Any:
    """Applies `cpuaccel.optimize` for `inputs`, without tuning by time (`time_budget=0`).

    Raises:
        RuntimeError: with the reason, if the original model would run instead.
    """
    optimized = _module().optimize(model, inputs, time_budget=0)
    if optimized.verdict.runs == "model":
        raise RuntimeError(str(optimized.verdict).partition(": ")[2])
    return optimized


def fastmath_missing() -> str:
    """Why float32 models cannot run in bf16 arithmetic, or ""."""
    return missing() or _lacks("fastmath")


def fastmath() -> Any:
    """`cpuaccel.fastmath()`: a context manager in which float32 models run in bf16 arithmetic."""
    return _module().fastmath()


def _lacks(name: str) -> str:
    return "" if hasattr(_module(), name) else f"cpuaccel has no {name}"


def version() -> str:
    """The version of cpuaccel, or "absent" if it cannot be measured."""
    return "absent" if missing() else str(_module().__version__)


@contextmanager
def enabled(flag: bool) -> Iterator[None]:
    """Enables or disables cpuaccel inside the block; without cpuaccel only False is possible."""
    module = _module()
    if module is None:
        if flag:
            raise RuntimeError(missing())
        yield
        return
    with module.enabled(flag):
        yield


@contextmanager
def setting(name: str, value: Any) -> Iterator[None]:
    """Gives cpuaccel's setting `name` this value inside the block."""
    config = importlib.import_module("cpuaccel.config")
    before = config.get(name)
    config.set(name, value)
    try:
        yield
    finally:
        config.set(name, before)


def calls_of(run: Any) -> dict[str, int]:
    """How often each cpuaccel provider ran in one call of `run`, such as {"conv2d.onednn": 20}."""
    module = _module()
    before = dict(module.stats()["calls"]) if module else {}
    run()
    after = dict(module.stats()["calls"]) if module else {}
    changed = {key: int(count) - int(before.get(key, 0)) for key, count in after.items()}
    return {key: count for key, count in changed.items() if count > 0}


def engine_ran(calls: dict[str, int]) -> bool:
    """Whether any of `calls` ran on a provider other than torch's own kernel ("intree")."""
    return any(not key.endswith(".intree") for key in calls)
