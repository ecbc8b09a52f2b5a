"""The torch.compile backend, `backend="cpuaccel"`: oneDNN where it is faster, else Inductor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch.fx import GraphModule

from cpuaccel import _engine_state, _native, _tuning_cache
from cpuaccel import config as settings
from cpuaccel.compile.common import report, report_cache
from cpuaccel.compile.frontend import inductor_pass
from cpuaccel.compile.passes import decompositions, interpolate


def compile(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph that Dynamo captured.

    `mode` and `options` are what `torch.compile` was given, and mean what they mean to Inductor.
    """
    from cpuaccel._compat import inductor_compile_fx, inductor_config

    compile_fx = cast("Callable[..., Callable[..., Any]]", inductor_compile_fx.compile_fx)
    patches = _patches(mode, options)
    if torch.is_grad_enabled() and _needs_gradients(example_inputs):
        # A graph that may be trained: Inductor compiles it, and calls cpuaccel's GEMMs and GNN ops.
        report.count_fallback(
            "graph", "inputs or weights require gradients: call it under torch.no_grad()"
        )
        return compile_fx(gm, example_inputs, config_patches=patches)
    # Dynamo's guards check the same sizes; the asserts would cost a microsecond for each weight.
    patches.setdefault("size_asserts", False)
    if patches.get("freezing", inductor_config.freezing) and _regions_pack_frozen_weights(gm):
        patches["freezing"] = False
    interpolate.replace_calls(gm)
    _tuning_cache.load()
    max_autotune = patches.get("max_autotune", inductor_config.max_autotune)
    timed = max_autotune and not settings.get("deterministic")
    graph_pass = inductor_pass.add_to(patches, timed=timed)
    key = report_cache.graph_key(gm, example_inputs, (mode, options, graph_pass.uuid()))
    compiled = compile_fx(
        gm,
        example_inputs,
        config_patches=patches,
        decompositions=decompositions.without_preserved(),
    )
    weights = [each for each in example_inputs if isinstance(each, torch.nn.Parameter)]
    _save_or_load_report(graph_pass, key, weights)
    return compiled


def _save_or_load_report(
    graph_pass: inductor_pass.GraphPass, key: str, weights: list[torch.nn.Parameter]
) -> None:
    """Keep the report of a graph; load it if Inductor found the graph in its cache on disk."""
    made = graph_pass.report
    if made is not None:
        report_cache.save(key, made)
    elif not graph_pass.ran:
        made = report_cache.load(key, report.current_compile_id())
        if made is None:
            report.count_fallback(
                "graph", "unknown: Inductor loaded this graph from its disk cache, compiled"
            )
    if made is not None:
        report.register(made, weights)


def _needs_gradients(inputs: Sequence[Any]) -> bool:
    return any(isinstance(each, torch.Tensor) and each.requires_grad for each in inputs)


_EIGHT_BITS = (torch.int8, torch.uint8)


def _regions_pack_frozen_weights(gm: GraphModule) -> bool:
    """Say whether regions do what Inductor freezes weights for.

    Inductor packs frozen weights for its own layers before the pass sees the graph. No layer is
    left that a region could take: a CNN needed twice Inductor's time to compile and ran no faster.
    Regions fold and pack weights themselves. Weights of 8 bits stay frozen, because Inductor's
    patterns for them need constants.
    """
    if not (_engine_state.is_enabled() and hasattr(_native.load(), "find_partitions")):
        return False
    weights = [*gm.parameters(), *gm.buffers()]
    for node in gm.graph.find_nodes(op="placeholder"):
        if "_dynamo_static_input_type" in node.meta.get("tensor_dict", {}):
            weights.append(node.meta["example_value"])
    return not any(weight.dtype in _EIGHT_BITS for weight in weights)


def _patches(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    from cpuaccel._compat import list_mode_options

    patches: dict[str, Any] = {}
    if mode is not None and mode != "default":
        modes = list_mode_options()
        if mode not in modes:
            raise ValueError(
                f'torch.compile(backend="cpuaccel"): mode: expected one of default, '
                f"{', '.join(modes)}, got {mode!r}"
            )
        patches.update(modes[mode])
    for name, value in (options or {}).items():
        patches[name.replace("-", "_")] = value
    return patches
