"""The plugin as the benchmarks see it: they run without it too, with its columns left out."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Imported first: autoload is a part of `import torch`, so `cpuaccel` finds a finished torch.
import torch  # noqa: F401


def _module() -> Any:
    """The plugin, or None. A source folder without a build imports too, but has no switch."""
    try:
        module = importlib.import_module("cpuaccel")
    except ImportError:
        return None
    return module if hasattr(module, "enabled") else None


def missing() -> str:
    """Why there is no plugin to measure, or "" when there is."""
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


def prepack_missing() -> str:
    """Why models cannot be prepacked, or ""."""
    return missing() or _lacks("prepack")


def prepack(model: Any) -> Any:
    """`cpuaccel.prepack` of a model: the model, its weights held in packed form only."""
    prepacked = _module().prepack(model)
    return model if prepacked is None else prepacked


def optimize_missing() -> str:
    """Why models cannot be optimized in eager mode, or ""."""
    return missing() or _lacks("optimize")


def optimize(model: Any, x: Any) -> Any:
    """`cpuaccel.optimize` of a model for the input `x`; it is compared, not timed.

    Raises:
        RuntimeError: nothing of it was captured, or the result is off; with the reason.
    """
    optimized = _module().optimize(model, (x,), time_budget=0)
    if optimized.verdict.runs == "model":
        raise RuntimeError(str(optimized.verdict).partition(": ")[2])
    return optimized


def fastmath_missing() -> str:
    """Why float32 models cannot be run on bf16 arithmetic, or ""."""
    return missing() or _lacks("fastmath")


def fastmath() -> Any:
    """`cpuaccel.fastmath()`: a block in which they are."""
    return _module().fastmath()


def _lacks(name: str) -> str:
    return "" if hasattr(_module(), name) else f"cpuaccel has no {name}"


def version() -> str:
    """The plugin's version, or "absent" where it cannot be measured."""
    return "absent" if missing() else str(_module().__version__)


@contextmanager
def enabled(flag: bool) -> Iterator[None]:
    """Switches the plugin on or off for a block; without a plugin, off is what there is."""
    module = _module()
    if module is None:
        if flag:
            raise RuntimeError(missing())
        yield
        return
    with module.enabled(flag):
        yield


@contextmanager
def provider(name: str) -> Iterator[None]:
    """Weights packed in this block go to the provider `name`, one of cpuaccel's config table."""
    config = importlib.import_module("cpuaccel.config")
    before = config.get("provider")
    config.set("provider", name)
    try:
        yield
    finally:
        config.set("provider", before)


def calls_of(run: Any) -> dict[str, int]:
    """What the plugin's providers did in one call of `run`, such as {"conv2d.onednn": 20}."""
    module = _module()
    before = dict(module.stats()["calls"]) if module else {}
    run()
    after = dict(module.stats()["calls"]) if module else {}
    changed = {key: int(count) - int(before.get(key, 0)) for key, count in after.items()}
    return {key: count for key, count in changed.items() if count > 0}


def engine_ran(calls: dict[str, int]) -> bool:
    """Whether `calls` has any that torch's own kernel, behind an object of ours, did not do."""
    return any(not key.endswith(".intree") for key in calls)
