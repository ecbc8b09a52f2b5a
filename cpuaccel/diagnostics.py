"""What the engine did: counters, and what runs each layer of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cpuaccel import _native

if TYPE_CHECKING:
    import torch

    from cpuaccel._explanation import Explanation


def stats() -> dict[str, Any]:
    """Return the engine's counters since the process began, or since `reset_stats()`.

    Keys: `calls` and `prepacks` (by op and provider), `fallbacks` (by op and reason),
    `primitive_cache` (capacity, size, hits, misses, evictions, bytes), `weight_cache` (the same,
    in bytes, and stale: weights found changed), `kept_weights` (likewise, of linear layers of
    compiled graphs where there is no oneDNN, packed), `index_cache` (likewise, of transposed
    graphs), `graph_cache` (likewise, of pieces of compiled models; bytes: packed weights) and
    `memory` (packed_weight_bytes). All are empty where the engine was never loaded.
    """
    native = _native.native()
    if native is None:
        kinds = ("calls", "prepacks", "fallbacks", "primitive_cache", "weight_cache")
        caches = ("kept_weights", "index_cache", "graph_cache", "memory")
        return {kind: {} for kind in (*kinds, *caches)}
    return native.stats()


def reset_stats() -> None:
    """Set the counters back to zero. What is held (memory, cached primitives) stays counted."""
    native = _native.native()
    if native is not None:
        native.reset_stats()


def clear_caches() -> None:
    """Empty every cache. Packed weights stay; what is missed is made again."""
    native = _native.native()
    if native is not None:
        native.clear_caches()


def explain(model: torch.nn.Module, example_inputs: tuple[Any, ...] | None = None) -> Explanation:
    """Say what runs each layer of `model`, and why. Print the result, or read its `rows`.

    Takes any module: convert_fx and eager quantized models, `quantize_dynamic`, TorchScript, models
    compiled on our backend (as far as they have run) and optimized ones. Given `example_inputs`, a
    tuple of what a call brings, a compiled or optimized model is run for about a second, and the
    result's `plans` have each step: its kernel, sizes, time, rate and share of what this machine
    could do at most, which is measured.

    Raises:
        TypeError: `model` is not a module, or `example_inputs` no tuple or list.
    """
    from dataclasses import replace

    from cpuaccel._explain import explain_model

    if example_inputs is None:
        return explain_model(model)
    from cpuaccel._explain_steps import timed_plans

    plans = timed_plans(model, example_inputs)
    return replace(explain_model(model), plans=plans)  # compiled by now
