"""`cpuaccel.save`: writes an optimized model to a file, without its Python code."""

from __future__ import annotations

import copy
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.pt2_archive import constants as places

from cpuaccel import _log
from cpuaccel._compat import copying_graphs
from cpuaccel._files import written
from cpuaccel.compile.bridge.translation import Fallback
from cpuaccel.compile.common.torch_names import name_of
from cpuaccel.compile.frontend.optimized_module import Optimized
from cpuaccel.compile.package import archive, dynamic_captures, export, op_list
from cpuaccel.compile.package.load import PROGRAM, Path_

_MODEL = "model"
"""The name that torch.export.save gives a program."""


def save(optimized: Optimized, path: Path_, *, dynamic_shapes: Any = None) -> None:
    """Write the capture that `optimized` ran last to a `.pt2` file, which `cpuaccel.load` reads.

    The file has the graph with cpuaccel's ops, and the plain weights: the CPU that loads the file
    packs them. It is valid for inputs of the sizes and dtypes of the last call. If that call ran a
    capture of symbolic sizes, the file is valid for all sizes that it accepts. An existing file is
    replaced atomically.

    Args:
        optimized: the result of `cpuaccel.optimize`, called at least once.
        path: the file to write; ends in .pt2.
        dynamic_shapes: the sizes that may vary, in torch.export's format, such as
            `({0: torch.export.Dim("batch", max=64)},)`. The last call is captured again with them,
            and compared with the model on random inputs, of its sizes and of other sizes. torch
            requires 2 or more in the call for a size that varies.

    Raises:
        TypeError: `optimized` is not the result of `cpuaccel.optimize`.
        ValueError: `path` does not end in .pt2; nothing was captured, or the plan was off or slower
            than the model (with `time_budget=0`, optimize uses the plan without timing it); the
            model has changed since; an argument of the call cannot be written to a file; the model
            does not accept `dynamic_shapes`, or its results are off with them.
        OSError: the file cannot be written.
    """
    if not isinstance(optimized, Optimized):
        raise TypeError(
            "cpuaccel.save: optimized: expected the result of cpuaccel.optimize, got "
            f"{type(optimized).__name__}"
        )
    path = checked_path("cpuaccel.save", path)
    captured, reason = optimized.last()
    if captured is None:
        raise ValueError(f"cpuaccel.save: optimized: nothing to save: {reason}")
    if dynamic_shapes is not None:
        captured = dynamic_captures.capture_dynamic(optimized.model, captured.call, dynamic_shapes)
    sizes = captured.sizes
    # A copy, because weights are removed from it. Its tensors are the model's own.
    program = export.exported(_with_same_weights(captured.graph), captured.call, sizes)
    try:
        facts = export.facts_of(program, captured.call, captured.report, sizes)
    except ValueError as error:
        raise ValueError(f"cpuaccel.save: {error}") from error
    with written(path) as partial:
        torch.export.save(program, partial)
        archive.seal(partial, {"kind": PROGRAM, **facts, **_flat(program, partial)})


def checked_path(function: str, path: Path_) -> Path:
    """Return `path`, which has to end in .pt2 for torch."""
    if not os.fspath(path).endswith(".pt2"):
        raise ValueError(f"{function}: path: expected a path that ends in .pt2, got {path}")
    return Path(path)


def _flat(program: ExportedProgram, path: Path) -> dict[str, Any]:
    """Return `program` in the form that runs without torch.export, and its weights in the file."""
    try:
        encoded = op_list.encode(program)
        return {"flat": encoded, "weights": _weights(program, path, encoded["weights"].values())}
    except Fallback as why:
        _log.logger.info("save: torch.export will load the file, because %s", why)
        return {"flat": None, "weights": {}}


def _weights(program: ExportedProgram, path: Path, names: Any) -> dict[str, Any]:
    found = {}
    with zipfile.ZipFile(path) as whole:
        root = whole.namelist()[0].partition("/")[0]
        for config, folder in (
            (places.WEIGHTS_CONFIG_FILENAME_FORMAT, places.WEIGHTS_DIR),
            (places.CONSTANTS_CONFIG_FILENAME_FORMAT, places.CONSTANTS_DIR),
        ):
            listed = json.loads(whole.read(f"{root}/{config.format(_MODEL)}"))["config"]
            for name in sorted(listed.keys() & set(names)):  # the same file each time
                if listed[name]["use_pickle"]:
                    raise Fallback(f"weight {name} is pickled")
                tensors = program.state_dict if name in program.state_dict else program.constants
                found[name] = [folder + listed[name]["path_name"], *_layout(tensors[name])]
    return found


def _layout(tensor: Any) -> tuple[str, list[int], list[int], int]:
    return name_of(tensor.dtype), list(tensor.shape), list(tensor.stride()), tensor.storage_offset()


def _with_same_weights(module: Any) -> Any:
    """Return a copy of a captured graph that shares the tensors of `module`."""
    tensors = [*module.parameters(), *module.buffers()]
    with copying_graphs():
        return copy.deepcopy(module, {id(each): each for each in tensors})
