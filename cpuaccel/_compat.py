"""torch's private Python names that cpuaccel uses, each with the versions of torch it is for.

No other module of cpuaccel uses a private name of torch: it imports the name from here. A name is
looked up when it is first asked for, so that Inductor and other large modules are not imported
earlier than they are needed. `tests/test_compat.py` looks up every row in each torch.

If torch lacks a name of `_NAMES`, an ImportError says so where cpuaccel asks for it: `enable` fails
with it, or a function that needs the name, and Inductor runs without cpuaccel's pass.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch as _torch
from torch.autograd import forward_ad as _forward_ad

if TYPE_CHECKING:
    from torch._guards import CompileContext as CompileContext
    from torch._guards import TracingContext as TracingContext
    from torch._guards import detect_fake_mode as detect_fake_mode
    from torch._guards import tracing as tracing
    from torch._inductor import aoti_compile_and_package as aoti_compile_and_package
    from torch._inductor import aoti_load_package as aoti_load_package
    from torch._inductor import list_mode_options as list_mode_options
    from torch._inductor.custom_graph_pass import CustomGraphModulePass as CustomGraphModulePass
    from torch._inductor.decomposition import select_decomp_table as select_decomp_table
    from torch._inductor.pattern_matcher import stable_topological_sort as stable_topological_sort
    from torch._library.autograd import make_autograd_impl as make_autograd_impl
    from torch._ops import HigherOrderOperator as HigherOrderOperator
    from torch._ops import OpOverload as OpOverload
    from torch._ops import OpOverloadPacket as OpOverloadPacket
    from torch._prims_common import suggest_memory_format as suggest_memory_format
    from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
    from torch._subclasses.fake_tensor import unset_fake_temporarily as unset_fake_temporarily
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
    from torch.utils._python_dispatch import (
        is_traceable_wrapper_subclass as is_traceable_wrapper_subclass,
    )
    from torch.utils._pytree import TreeSpec as TreeSpec
    from torch.utils._pytree import keystr as keystr
    from torch.utils._pytree import tree_flatten as tree_flatten
    from torch.utils._pytree import tree_flatten_with_path as tree_flatten_with_path
    from torch.utils._pytree import tree_leaves as tree_leaves
    from torch.utils._pytree import tree_map as tree_map
    from torch.utils._pytree import tree_structure as tree_structure
    from torch.utils._pytree import tree_unflatten as tree_unflatten
    from torch.utils._pytree import treespec_dumps as treespec_dumps
    from torch.utils._pytree import treespec_loads as treespec_loads
    from torch.utils._sympy.interp import sympy_interp as sympy_interp
    from torch.utils._sympy.printers import PythonPrinter as PythonPrinter
    from torch.utils._sympy.reference import PythonReferenceAnalysis as PythonReferenceAnalysis

INDUCTOR_MODULE = "torch._inductor.compile_fx"
"""The module that every use of Inductor imports. It imports the rest of Inductor."""

DYNAMO_MODULE = "torch._dynamo"

DECOMPOSED_OPS_MODULE = "torch.ao.quantization.fx._decomposed"
"""The module of torch that defines the ops `quantized_decomposed::`; torchao has one too."""

FSDP_WEIGHTS_MODULE = "torch.distributed.fsdp._fully_shard._fsdp_param"
"""The module of FSDP2's class for one weight."""
FSDP_WEIGHT_CLASS, FSDP_UNSHARDED = "FSDPParam", "to_unsharded"
"""That class, and its method that gives a gathered weight to the layer."""

CAUSAL_DETECTION = "_detect_is_causal_mask"
"""The function of torch.nn.modules.transformer that tells encoders whether a mask is causal."""


class _Name(NamedTuple):
    path: str
    """Module, colon, attributes; a module alone stands for itself."""
    since: tuple[int, int] = (2, 13)
    before: tuple[int, int] | None = None
    """The first version without the name, if there is one."""


_NAMES: dict[str, _Name] = {
    # Dispatcher and schemas
    "HigherOrderOperator": _Name("torch._ops:HigherOrderOperator"),
    "OpOverload": _Name("torch._ops:OpOverload"),
    "OpOverloadPacket": _Name("torch._ops:OpOverloadPacket"),
    "get_schema": _Name("torch._C:_get_schema"),
    "has_kernel_for_key": _Name("torch._C:_dispatch_has_kernel_for_dispatch_key"),
    "check": _Name("torch:_check"),
    # Modes and transforms
    "TorchDispatchMode": _Name("torch.utils._python_dispatch:TorchDispatchMode"),
    "any_requires_grad": _Name("torch._C:_any_requires_grad"),
    "disable_current_modes": _Name("torch.utils._python_dispatch:_disable_current_modes"),
    "dispatch_stack_length": _Name("torch._C:_len_torch_dispatch_stack"),
    "function_stack_length": _Name("torch._C:_len_torch_function_stack"),
    "functorch_interpreter": _Name("torch._C._functorch:peek_interpreter_stack"),
    "functorch_stack_cleared": _Name(
        "torch._functorch.pyfunctorch:temporarily_clear_interpreter_stack"
    ),
    "get_tracing_state": _Name("torch._C:_get_tracing_state"),
    "is_functorch_tensor": _Name("torch._C._functorch:is_functorch_wrapped_tensor"),
    "is_traceable_wrapper_subclass": _Name(
        "torch.utils._python_dispatch:is_traceable_wrapper_subclass"
    ),
    "is_tracing": _Name("torch._C:_is_tracing"),
    # Custom ops, fake tensors, memory
    "AutogradInfo": _Name("torch._library.autograd:Info"),
    "FakeTensor": _Name("torch._subclasses.fake_tensor:FakeTensor"),
    "make_autograd_impl": _Name("torch._library.autograd:make_autograd_impl"),
    "storage_use_count": _Name("torch._C:_storage_Use_Count"),
    "suggest_memory_format": _Name("torch._prims_common:suggest_memory_format"),
    "unset_fake_temporarily": _Name("torch._subclasses.fake_tensor:unset_fake_temporarily"),
    # Modules of torch.nn
    "ConvNd": _Name("torch.nn.modules.conv:_ConvNd"),
    "BatchNorm": _Name("torch.nn.modules.batchnorm:_BatchNorm"),
    "canonical_mask": _Name("torch.nn.functional:_canonical_mask"),
    "has_any_global_hook": _Name("torch.nn.modules.module:_has_any_global_hook"),
    "init_flat_weights": _Name("torch.nn:LSTM._init_flat_weights"),
    "is_left_aligned": _Name("torch:_nested_tensor_from_mask_left_aligned"),
    "none_or_dtype": _Name("torch.nn.functional:_none_or_dtype"),
    # Quantized tensors and modules
    "QuantizedConvNd": _Name("torch.ao.nn.quantized.modules.conv:_ConvNd"),
    "quantized_tensor": _Name("torch:_make_per_tensor_quantized_tensor"),
    # Trees and symbols
    "PythonPrinter": _Name("torch.utils._sympy.printers:PythonPrinter"),
    "PythonReferenceAnalysis": _Name("torch.utils._sympy.reference:PythonReferenceAnalysis"),
    "PyTreeCodeGen": _Name("torch.fx.graph:_PyTreeCodeGen"),
    "PyTreeInfo": _Name("torch.fx.graph:_PyTreeInfo"),
    "TreeSpec": _Name("torch.utils._pytree:TreeSpec"),
    "keystr": _Name("torch.utils._pytree:keystr"),
    "sympy_interp": _Name("torch.utils._sympy.interp:sympy_interp"),
    "tree_flatten": _Name("torch.utils._pytree:tree_flatten"),
    "tree_flatten_with_path": _Name("torch.utils._pytree:tree_flatten_with_path"),
    "tree_leaves": _Name("torch.utils._pytree:tree_leaves"),
    "tree_map": _Name("torch.utils._pytree:tree_map"),
    "tree_structure": _Name("torch.utils._pytree:tree_structure"),
    "tree_unflatten": _Name("torch.utils._pytree:tree_unflatten"),
    "treespec_dumps": _Name("torch.utils._pytree:treespec_dumps"),
    "treespec_loads": _Name("torch.utils._pytree:treespec_loads"),
    # torch.export and Dynamo
    "CompileContext": _Name("torch._guards:CompileContext"),
    "TracingContext": _Name("torch._guards:TracingContext"),
    "combine_args": _Name("torch.export.dynamic_shapes:_combine_args"),
    "cache_entries": _Name("torch._dynamo.eval_frame:_debug_get_cache_entry_list"),
    "decompositions": _Name("torch._decomp.decompositions"),
    "detect_fake_mode": _Name("torch._guards:detect_fake_mode"),
    "shapes_map_with_path": _Name("torch.export.dynamic_shapes:_tree_map_with_path"),
    "tracing": _Name("torch._guards:tracing"),
    # Inductor
    "CustomGraphModulePass": _Name("torch._inductor.custom_graph_pass:CustomGraphModulePass"),
    "aoti_compile_and_package": _Name("torch._inductor:aoti_compile_and_package"),
    "aoti_load_package": _Name("torch._inductor:aoti_load_package"),
    "inductor_cache_dir": _Name("torch._inductor.runtime.cache_dir_utils:cache_dir"),
    "inductor_codegen": _Name("torch._inductor.codegen.common"),
    "inductor_compile_fx": _Name("torch._inductor.compile_fx"),
    "inductor_config": _Name("torch._inductor.config"),
    "inductor_globals": _Name("torch._inductor.virtualized:V"),
    "inductor_graph_pass": _Name("torch._inductor.custom_graph_pass"),
    "inductor_lowering": _Name("torch._inductor.lowering"),
    "list_mode_options": _Name("torch._inductor:list_mode_options"),
    "select_decomp_table": _Name("torch._inductor.decomposition:select_decomp_table"),
    "stable_topological_sort": _Name("torch._inductor.pattern_matcher:stable_topological_sort"),
}


@contextmanager
def without_onednn() -> Iterator[None]:
    """Let torch's ops run without oneDNN. `torch.backends.mkldnn.flags` also warns of TF32."""
    before = _torch._C._get_mkldnn_enabled()
    _torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        _torch._C._set_mkldnn_enabled(before)


@contextmanager
def copying_graphs() -> Iterator[None]:
    """Hide a warning of torch's about its own LeafSpec, for which copying a graph is enough."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*LeafSpec", category=FutureWarning)
        yield


def forward_ad_level() -> int:
    """Return the level of forward-mode derivatives that is active, or -1."""
    level: int = _forward_ad._current_level
    return level


def quantized_decomposed() -> Any:
    """Return `torch.ops.quantized_decomposed`; `_decomposed_ops` sees to it that it is defined."""
    importlib.import_module("cpuaccel._decomposed_ops")
    return _torch.ops.quantized_decomposed


def __getattr__(name: str) -> Any:
    row = _NAMES.get(name)
    if row is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attributes = row.path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for attribute in attributes.split(".") if attributes else ():
            found = getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"torch {_torch.__version__} has no {row.path.replace(':', '.')}, which cpuaccel needs"
            f" (torch {_span(row)} has it): use one of these, or a newer cpuaccel"
        ) from error
    globals()[name] = found
    return found


def _span(row: _Name) -> str:
    since = ".".join(map(str, row.since))
    if row.before is None:
        return f"{since} and later"
    return f"{since} to before {'.'.join(map(str, row.before))}"
