"""Captures a model: traces it for one input signature and puts regions into the graph.

torch runs the ops outside of regions one by one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.immutable_collections import immutable_dict, immutable_list

from cpuaccel import _log, _native
from cpuaccel._compat import tree_leaves, tree_structure, tree_unflatten
from cpuaccel._modules import structure_of
from cpuaccel.compile.bridge import QUANTIZED, torch_fallback, translation
from cpuaccel.compile.capture import (
    decompose,
    graph_runner,
    quantized_models,
    symbolic_sizes,
    torch_export,
    transformer_masks,
)
from cpuaccel.compile.capture.call_signature import Call
from cpuaccel.compile.capture.dynamic_shapes import DynamicSizes, shapes_of
from cpuaccel.compile.capture.repeated_layers import RepeatedLayers
from cpuaccel.compile.common import report
from cpuaccel.compile.partition import cost, insertion, region_report, regions
from cpuaccel.compile.passes import constant_folding, identities
from cpuaccel.compile.passes.aliasing import attribute_of, mutated_by
from cpuaccel.quant import lower

_aten: Any = torch.ops.aten

_HALVES = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Capture:
    """A graph that computes what a model computes, for one call signature."""

    graph: GraphModule
    call: Call
    """The call that it was captured for."""
    run: Callable[..., Any]
    """Runs the graph with autocast off: autocast's casts are nodes of the graph."""
    report: report.Report
    arithmetic: str
    """fp32, bf16 or int8: selects the bound for its results."""
    buffers: tuple[Tensor, ...]
    """The model's tensors that a call mutates."""
    written: tuple[int, ...]
    """The arguments that a call mutates, as numbers of leaves."""
    sizes: DynamicSizes | None = None
    """The sizes that it accepts; None: those of `call` only."""

    @property
    def writes(self) -> bool:
        """Whether a call mutates anything."""
        return bool(self.written or self.buffers)

    def plan_texts(self) -> list[str]:
        """Return the texts of its regions, in the order of the graph."""
        return [str(node.args[_PLAN_TEXT]) for node in _regions_of(self.graph.graph)]

    def constants(self) -> list[list[int]]:
        """Return the tensors that each region holds, each as its id."""
        constants: list[Any] = [node.args[_CONSTANTS] for node in _regions_of(self.graph.graph)]
        return [[id(attribute_of(self.graph, each)) for each in some] for some in constants]


def capture(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: torch_export.Dynamic = (),
    likely: Call | None = None,
    *,
    registers_report: bool = True,
) -> Capture:
    """Trace `model`, and put regions into the graph. It shares the weights of the model.

    The model itself is not changed. The sizes that are `dynamic` may vary from call to call, as far
    as the model allows. Partitions and kernels are chosen for the sizes of the `likely` call, if it
    is given, or of this call. `registers_report`: whether fallbacks are counted, and the report is
    one of `report.reports()`.

    Raises:
        Exception: what torch.export raises if it cannot trace the model, or the model itself.
        ValueError: the model has quantized and float layers, and is called under autocast.
    """
    graph, made, sizes = graph_of(model, args, kwargs, dynamic, likely=likely, in_place=True)
    if registers_report:
        report.register(made)
    kinds = {kind for partition in made.kinds() for kind in partition}
    if quantized_models.is_converted(model) or kinds & set(QUANTIZED):
        arithmetic = "int8"
    else:
        arithmetic = "bf16" if _has_halves(model, graph.graph) else "fp32"
    written = mutated_by(graph.graph)
    return Capture(
        graph,
        Call.of(args, kwargs),
        _runner(graph, args, kwargs),
        made,
        arithmetic,
        tuple(attribute_of(graph, node) for node in written if node.op == "get_attr"),
        tuple(
            number
            for number, node in enumerate(graph.graph.find_nodes(op="placeholder"))
            if node in written
        ),
        sizes,
    )


def with_plan_texts(
    captured: Capture, texts: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Capture:
    """Return a capture with the texts of its regions replaced by equivalent `texts`."""
    graph = captured.graph
    for node, text in zip(_regions_of(graph.graph), texts, strict=True):
        node.update_arg(len(node.args) + _PLAN_TEXT, text)
    graph.recompile()
    return replace(captured, run=_runner(graph, args, kwargs))


# Positions in a region's arguments, from the end: a region that mutates has one argument more.
_CONSTANTS, _PLAN_TEXT = -3, -2


def _regions_of(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if graph_runner.is_region(node)]


def _runner(
    graph: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    run = graph_runner.runner(graph, args, kwargs)
    return _without_autocast(run) if torch.is_autocast_enabled("cpu") else run


def graph_of(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: torch_export.Dynamic = (),
    *,
    likely: Call | None = None,
    against_eager: bool = True,
    in_place: bool = False,
) -> tuple[GraphModule, report.Report, DynamicSizes | None]:
    """Return `model` as a graph with regions for these arguments, on its own weights, and a report.

    The third value is the sizes that the graph accepts, if some of them are `dynamic`.

    Regions are chosen where they are faster than torch's ops one by one, or else than Inductor. If
    `in_place`, regions may mutate what the model mutates.

    Raises:
        Exception: as `capture`.
    """
    with torch_export.lock, torch.no_grad(), _autocast_for(model):
        program, captured = _decomposed(model, args, kwargs, dynamic)
        names = torch_export.names_of(model, args, kwargs, dynamic)
    graph = captured.graph
    if not against_eager and not hasattr(_native.load(), "find_partitions"):
        nothing = report.Report(report.current_compile_id(), (), ())
        return captured, nothing, _sizes_of(graph, program, names)
    constant_folding.fold(captured)
    identities.remove(graph)
    _normalize_casts(graph)
    _drop_assertions(graph)
    inputs = graph.find_nodes(op="placeholder")
    hints = {} if likely is None else symbolic_sizes.symbol_values(inputs, shapes_of(likely))
    with cost.against_eager() if against_eager else nullcontext(), translation.hints(hints):
        found = regions.find_regions(graph, weights_of(graph), in_place=in_place)
    made = region_report.report_of(found)
    insertion.put_regions(graph, found.regions)
    _plain_containers(graph)
    _reshape_instead_of_view(graph)
    _make_attention_rows_dense(graph)
    graph.eliminate_dead_code()
    captured.recompile()
    # Last, because everything before may have added guards on sizes.
    return captured, made, _sizes_of(graph, program, names)


def _decomposed(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: torch_export.Dynamic
) -> tuple[torch.export.ExportedProgram, Any]:
    """Return the program of a model, of which layers that repeat were traced once, and its graph.

    Only the graph has all layers.
    """
    repeated = RepeatedLayers()
    try:
        program = program_of(model, args, kwargs, dynamic, repeated)
        return program, decompose.decomposed(program, repeated)
    except TimeoutError:
        raise
    except Exception as error:
        if not repeated.is_used:
            raise
        _log.logger.info("capture: each layer is traced: %s", _log.first_line(error))
    program = program_of(model, args, kwargs, dynamic)
    return program, decompose.decomposed(program)


def _sizes_of(
    graph: Graph, program: torch.export.ExportedProgram, names: dict[tuple[int, int], str]
) -> DynamicSizes | None:
    inputs = graph.find_nodes(op="placeholder")
    return symbolic_sizes.sizes_of(inputs, program.range_constraints, names)


def _needs_each_layer(model: nn.Module) -> bool:
    return quantized_models.is_converted(model) or getattr(model, "counts_each_layer", False)


def program_of(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: torch_export.Dynamic = (),
    repeated: RepeatedLayers | None = None,
) -> torch.export.ExportedProgram:
    """Return the torch.export program of a model; of its lowered form if convert_fx made it.

    `repeated`: gets the layers that repeat, which are one op each in the program.

    Raises:
        Exception: what torch.export raises.
    """
    traced = structure_of(_lowered(model) if quantized_models.is_converted(model) else model)
    if traced is not model:
        transformer_masks.zero_padding(traced)
        if repeated is not None and not _needs_each_layer(model):
            repeated.mark(traced)
    with torch_export.lock, transformer_masks.without_causal_detection():
        return torch_export.exported(traced, args, kwargs, dynamic)


def _lowered(model: nn.Module) -> nn.Module:
    """Return the lowered form of a model; mark integer weights that only it holds as private."""
    lowered = lower(model)
    held = {each.untyped_storage()._cdata for each in (*model.parameters(), *model.buffers())}
    integers = [
        each
        for each in lowered.buffers()
        if each.dtype == torch.int8 and each.untyped_storage()._cdata not in held
    ]
    if integers and hasattr(_native.load(), "find_partitions"):  # the build has regions
        torch.ops.cpuaccel.keep_private(integers)
    return lowered


def weights_of(graph: Graph) -> set[Node]:
    """Return the attributes that a graph of `graph_of` reads and does not mutate."""
    return set(graph.find_nodes(op="get_attr")) - mutated_by(graph)


def _autocast_for(model: nn.Module) -> AbstractContextManager[Any]:
    """Return the autocast context in which `model` is traced.

    Autocast does not change quantized layers, but it would run their lowered form in bf16.
    """
    if not torch.is_autocast_enabled("cpu") or not quantized_models.is_converted(model):
        return nullcontext()
    if quantized_models.has_float_layers(model):
        raise ValueError("a model with quantized and float layers, under autocast")
    return torch.autocast("cpu", enabled=False)


def _without_autocast(run: Callable[..., Any]) -> Callable[..., Any]:
    def without_autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return run(*args, **kwargs)

    return without_autocast


def _normalize_casts(graph: Graph) -> None:
    """Replace casts, such as autocast's, by convert_element_type: for weights it is done once."""
    for node in graph.find_nodes(op="call_function", target=_aten.type_as.default):
        source, result = (each.meta["val"] for each in (node.args[0], node))
        if source.device == result.device and source.dtype != result.dtype:
            node.target = torch.ops.prims.convert_element_type.default
            node.args = (node.args[0], result.dtype)
    for node in graph.find_nodes(op="call_function", target=_aten._to_copy.default):
        source, result = (each.meta["val"] for each in (node.args[0], node))
        kept = {"device": source.device, "layout": source.layout}  # type_as names them
        options = {
            name
            for name, value in node.kwargs.items()
            if value is not None and (name not in kept or value != kept[name])
        }
        if options == {"dtype"} and source.dtype != result.dtype:
            node.target = torch.ops.prims.convert_element_type.default
            node.args, node.kwargs = (node.args[0], result.dtype), {}


def _drop_assertions(graph: Graph) -> None:
    """Drop assertions of dtypes and sizes: the call's signature has them."""
    for node in graph.find_nodes(op="call_function", target=_aten._assert_tensor_metadata.default):
        graph.erase_node(node)


def _plain_containers(graph: Graph) -> None:
    """Let the graph return plain dicts and lists instead of FX's immutable ones."""
    codegen: Any = graph._codegen
    returned = codegen.pytree_info.out_spec
    leaves = list(range(returned.num_leaves))
    plain = tree_structure(_plain(tree_unflatten(leaves, returned)))
    codegen.pytree_info = codegen.pytree_info._replace(out_spec=plain)


def _plain(value: Any) -> Any:
    if isinstance(value, immutable_dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, immutable_list):
        return [_plain(each) for each in value]
    if type(value) in (dict, OrderedDict):
        return type(value)((key, _plain(each)) for key, each in value.items())
    if type(value) in (list, tuple):
        return type(value)(_plain(each) for each in value)
    return value


def _reshape_instead_of_view(graph: Graph) -> None:
    """Replace views by reshapes: a region's result may have other strides than its nodes had."""
    for node in graph.nodes:
        if node.target in torch_fallback.VIEWS:
            node.target = _aten.reshape.default


def _make_attention_rows_dense(graph: Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=torch_fallback.ATTENTION):
        for source in dict.fromkeys(node.args[: torch_fallback.ATTENTION_INPUTS]):
            with graph.inserting_before(node):
                dense = graph.call_function(with_dense_rows, (source,))
            dense.meta["val"] = source.meta["val"]
            node.replace_input_with(source, dense)


def with_dense_rows(tensor: Tensor) -> Tensor:
    """Return a tensor whose rows are dense, which torch's fast attention needs."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _has_halves(model: nn.Module, graph: Graph) -> bool:
    """Say whether something runs in 16 bits: by its dtype, or because fast math is on."""
    if _native.load().fastmath_asked():
        return True
    held = (*model.parameters(), *model.buffers())
    values = [leaf for node in graph.nodes for leaf in tree_leaves(node.meta.get("val"))]
    return any(isinstance(each, Tensor) and each.dtype in _HALVES for each in (*held, *values))
