"""Diagnostics: counters of calls, fallbacks and caches, and which library runs each layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cpuaccel import _native

if TYPE_CHECKING:
    import torch

    from cpuaccel._explain.explanation import Explanation


def stats() -> dict[str, Any]:
    """Return cpuaccel's counters since the process began, or since `reset_stats()`.

    Keys: `calls` and `prepacks` (by op and provider), `fallbacks` (by op and reason),
    `primitive_cache` (capacity, size, hits, misses, evictions, bytes), `weight_cache` (the same, in
    bytes, and stale: weights that had changed), `kept_weights` (likewise, for packed weights of
    linear layers of compiled graphs without oneDNN), `index_cache` (likewise, for transposed
    graphs), `graph_cache` (likewise, for plans of regions; bytes: packed weights), `memory`
    (packed_weight_bytes) and `learning` (on; chosen and open: problems whose kernel calls have
    learned or still learn; probes and probe_seconds, in CPU time). All are empty if cpuaccel._C was
    never loaded.
    """
    native = _native.native()
    if native is None:
        kinds = ("calls", "prepacks", "fallbacks", "primitive_cache", "weight_cache")
        caches = ("kept_weights", "index_cache", "graph_cache", "memory", "learning")
        return {kind: {} for kind in (*kinds, *caches)}
    return native.stats()


def reset_stats() -> None:
    """Set the counters to zero. Memory and objects that are still cached stay counted."""
    native = _native.native()
    if native is not None:
        native.reset_stats()


def clear_caches() -> None:
    """Empty every cache. Packed weights stay; other objects are created again when needed."""
    native = _native.native()
    if native is not None:
        native.clear_caches()


def explain(model: torch.nn.Module, example_inputs: tuple[Any, ...] | None = None) -> Explanation:
    """Return which library runs each layer of `model`, and why. Print it or read its `rows`.

    Takes any module: quantized models of convert_fx, eager mode and `quantize_dynamic`,
    TorchScript, models compiled with cpuaccel's backend (as far as they have run), optimized
    models, and what torchao's convert_pt2e or `quant.load_legacy` returned. With `example_inputs`,
    a tuple of the arguments of a call, a compiled or optimized model runs for about a second. The
    result's `plans` then have each step: its kernel, sizes, time, rate, and its share of this
    machine's peak, which is measured. In eager mode, linear layers with weights by groups have
    time, rate and share in their `rows`.

    Raises:
        TypeError: `model` is not a module, or `example_inputs` is not a tuple or list.
    """
    from dataclasses import replace

    from cpuaccel._explain.compiled import what_runs
    from cpuaccel._explain.model import explain_model

    model = what_runs(model, example_inputs)
    if example_inputs is None:
        return explain_model(model)
    from cpuaccel._explain.layer_timing import timed_rows
    from cpuaccel._explain.step_timing import timed_plans

    plans = timed_plans(model, example_inputs)
    explained = explain_model(model)  # the model is compiled by now
    rows = explained.rows if plans else timed_rows(model, tuple(example_inputs), explained.rows)
    return replace(explained, rows=rows, plans=plans)
