"""`cpuaccel.load`: loads a model from a file. It imports little: imports take most of the time."""

from __future__ import annotations

import copy
import logging
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn

from cpuaccel import _log, _native, _tuning_cache
from cpuaccel._compat import quantized_decomposed, tree_flatten, tree_unflatten
from cpuaccel.compile.bridge import region_op as _region_op  # noqa: F401  torch's ops in its place
from cpuaccel.compile.bridge.plan_text import check_digest
from cpuaccel.compile.capture.call_signature import Call, with_strides_of
from cpuaccel.compile.capture.dynamic_shapes import DynamicSizes
from cpuaccel.compile.capture.memory_overlap import overlaps_mutated
from cpuaccel.compile.common import report
from cpuaccel.compile.common.lru_cache import LRUCache
from cpuaccel.compile.common.torch_names import dtype_of
from cpuaccel.compile.package import archive
from cpuaccel.compile.package.op_list import OpList
from cpuaccel.compile.package.schemas import REGION, check_ops

_MAX_CACHED_CALLS = 256
"""Number of calls with other sizes or strides than the file's own that are cached."""

PROGRAM, PACKAGE = "program", "package"
"""Kinds of files: a graph that torch runs op by op, or a package that AOTInductor compiled."""

Path_ = str | os.PathLike[str]


class Loaded(nn.Module):
    """A model from a file. It runs calls of the kind that it was made for, and rejects others.

    `facts` are the facts of the file. The weights of a program are its buffers.
    """

    def __init__(
        self, run: Callable[..., Any], facts: dict[str, Any], path: Path, kind: str
    ) -> None:
        super().__init__()
        self.training = False
        self.facts = facts
        self.kind = kind
        self._path = path
        self._call = Call.from_facts(facts["call"])
        self._sizes = [DynamicSizes.from_facts(each) for each in facts.get("sizes", ())]
        """If there are any, all of them have to accept a call."""
        self._cached_calls: LRUCache[Call] = LRUCache(_MAX_CACHED_CALLS)
        self._written: list[int] = facts["written"]
        self._run = run
        self.reports = [report.Report.from_facts(facts["report"])]
        """The report of the graph, from where the file was made."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns.

        Raises:
            ValueError: sizes, dtypes, devices or the structure of the arguments, or autocast,
                differ from those that the file was made for; or the model mutates an argument that
                shares memory with another.
            RuntimeError: an argument requires gradients, and gradients are enabled.
        """
        if not self._call.is_of(args, kwargs):
            got = Call.of(args, kwargs)
            if got != self._call:
                return self._call_on_copies(got, args, kwargs)
        self._check_no_overlap(args, kwargs)
        return self._called(args, kwargs)

    def _called(self, args: Any, kwargs: Any) -> Any:
        if torch.is_grad_enabled() and any(
            isinstance(each, Tensor) and each.requires_grad
            for each in tree_flatten((args, kwargs))[0]
        ):
            raise RuntimeError(
                f"{self._path}: a loaded model computes no gradients: call it under torch.no_grad()"
            )
        if self._call.autocast is None:
            with torch.no_grad():
                return self._run(*args, **kwargs)
        # The casts of autocast are in the graph.
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            return self._run(*args, **kwargs)

    def timed(self) -> AbstractContextManager[list[list[int]]]:
        """Collect the time of each op of the graph in the block, as OpList.timed does.

        For a package, or a graph that torch.export loaded, nothing is collected.
        """
        return self._run.timed() if isinstance(self._run, OpList) else nullcontext([])

    def train(self, mode: bool = True) -> Loaded:
        """Stay in eval mode, the only mode of a loaded model.

        Raises:
            RuntimeError: `mode` is true.
        """
        if mode:
            raise RuntimeError(f"{self._path}: a loaded model is for inference only")
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Loaded:
        if self.kind == PACKAGE:
            raise TypeError(f"{self._path}: a compiled package cannot be copied: load it again")
        return Loaded(copy.deepcopy(self._run, memo), self.facts, self._path, self.kind)

    def __reduce__(self) -> Any:
        raise TypeError(f"{self._path}: a loaded model cannot be pickled: send its file instead")

    def _call_on_copies(self, got: Call, args: Any, kwargs: Any) -> Any:
        """Run on arguments copied to the expected layout; mutations are copied back."""
        leaves, spec = tree_flatten((args, kwargs))
        try:
            fitting = with_strides_of(leaves, self._fitting_for(got))
        except ValueError as error:
            raise ValueError(f"{self._path}: {error}") from None
        self._check_no_overlap(args, kwargs)
        if any(new is not old for new, old in zip(fitting, leaves, strict=True)):
            _native.load().count_fallback(
                "load", "an input has other strides than the file expects: it is copied"
            )
        args, kwargs = tree_unflatten(fitting, spec)
        result = self._called(args, kwargs)
        for number in self._written:
            if fitting[number] is not leaves[number]:
                leaves[number].copy_(fitting[number])
        return result

    def _fitting_for(self, got: Call) -> Call:
        """Return `got` with the strides that the program expects.

        Raises:
            ValueError: the program is not for such calls.
        """
        expected = self._cached_calls.get(got)
        if expected is None:
            if reason := self._call.mismatch(got, any_size=bool(self._sizes)):
                raise ValueError(reason)
            expected = self._call
            for each in self._sizes:
                expected = each.fitting(got)
            self._cached_calls.put(got, expected)
        return expected

    def _check_no_overlap(self, args: Any, kwargs: Any) -> None:
        if self._written and overlaps_mutated(tree_flatten((args, kwargs))[0], self._written):
            numbers = ", ".join(map(str, self._written))
            raise ValueError(
                f"{self._path}: it mutates argument {numbers}: expected the other arguments to"
                " share no memory with it"
            )


def load(path: Path_) -> Loaded:
    """Load the model in a file of `cpuaccel.save` or `cpuaccel.aot_compile`.

    torch reads, and runs, nothing in the file before all of it was verified.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, truncated, not from cpuaccel, from another version, or
            compiled for a CPU that this one is not; the message names the file and what was
            expected.
    """
    file = Path(path)
    with file.open("rb") as stream, named(file):
        facts, parts = archive.verified(stream, _is_data)
        kind = facts.get("kind")
        if kind not in (PROGRAM, PACKAGE):
            raise ValueError(f"expected a file of kind {PROGRAM!r} or {PACKAGE!r}, got {kind!r}")
        check_ops(facts["ops"], f"cpuaccel {facts['cpuaccel']}")
        run = _program(stream, facts, parts) if kind == PROGRAM else _package(stream, facts)
        loaded = Loaded(run, facts, file, kind)
    for each in loaded.reports:
        report.register(each)
    _tuning_cache.load()
    return loaded


def read_facts(path: Path_) -> dict[str, Any]:
    """Return the facts of such a file. All of the file is verified, and nothing of it is run.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, truncated, not from cpuaccel, or from another version.
    """
    file = Path(path)
    with file.open("rb") as stream, named(file):
        return archive.verified(stream)[0]


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Add the file's path to errors that are raised in the block."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"cpuaccel.load: {path}: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"its facts do not match format {archive.FORMAT}: {error!r}"
        raise ValueError(f"cpuaccel.load: {path}: {reason}") from error


def _is_data(part: str) -> bool:
    return part.startswith(("data/weights/", "data/constants/")) and not part.endswith(".json")


def _program(stream: IO[bytes], facts: dict[str, Any], parts: dict[str, bytearray]) -> nn.Module:
    module = _flat(facts, parts) if facts["flat"] is not None else _by_torch(stream, facts)
    here = _native.load().isa()
    if facts["cpu"]["isa"] != here:
        _log.logger.info(
            "load: the file was made with %s, this CPU has %s: weights are packed for this CPU,"
            " partitions stay as they were chosen",
            facts["cpu"]["isa"],
            here,
        )
    return module


def _flat(facts: dict[str, Any], parts: dict[str, bytearray]) -> nn.Module:
    encoded = facts["flat"]
    for name, args, _ in encoded["ops"]:
        if name == REGION:
            check_digest(args[2])
        elif name.startswith("quantized_decomposed."):
            quantized_decomposed()  # defines the ops
    memory: dict[str, Tensor] = {}
    weights = {}
    for name, (part, dtype, shape, stride, offset) in facts["weights"].items():
        if part not in memory:
            memory[part] = torch.frombuffer(parts.pop(part) or bytearray(1), dtype=torch.uint8)
        try:
            weights[name] = _strided(memory[part], dtype_of(dtype), shape, stride, offset)
        except RuntimeError as error:
            raise ValueError(f"weight {name}: {_log.first_line(error)}") from error
    return OpList(encoded, weights)


def _strided(
    memory: Tensor, dtype: torch.dtype, shape: list[int], stride: list[int], offset: int
) -> Tensor:
    if 0 in shape:
        return torch.empty_strided(shape, stride, dtype=dtype)
    numbers = memory[: memory.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
    return torch.as_strided(numbers, shape, stride, offset)


def _by_torch(stream: IO[bytes], facts: dict[str, Any]) -> nn.Module:
    logger = logging.getLogger("torch.export")
    logger.addFilter(_silent)  # torch logs the error, and raises another that refers to the log
    try:
        program = torch.export.load(stream)
    except Exception as error:
        raise ValueError(
            f"torch {torch.__version__} cannot read what torch {facts['torch']} wrote: "
            f"{_log.first_line(error)}"
        ) from error
    finally:
        logger.removeFilter(_silent)
    for node in program.graph.nodes:
        if node.op == "call_function" and str(node.target) == REGION:
            check_digest(str(node.args[2]))
    module: nn.Module = program.module(check_guards=False)
    return module.requires_grad_(False)


def _package(stream: IO[bytes], facts: dict[str, Any]) -> Callable[..., Any]:
    cpu = facts["cpu"]
    missing = sorted(set(cpu["features"]) - set(_native.load().cpu_features()))
    if cpu["machine"] != platform.machine() or missing:
        lacking = f" without {', '.join(missing)}" if missing else ""
        raise ValueError(
            f"compiled for {cpu['machine']} with {cpu['isa']}, this CPU is {platform.machine()}"
            f"{lacking}: compile it here, with cpuaccel.aot_compile"
        )
    if _minor(facts["torch"]) != _minor(str(torch.__version__)):
        raise ValueError(
            f"compiled for torch {facts['torch']}, this is torch {torch.__version__}: compile it"
            " here, with cpuaccel.aot_compile"
        )
    from cpuaccel._compat import aoti_load_package

    # The descriptor is the file that was verified, even if the path is another file by now. torch
    # wants a path that ends in .pt2.
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "model.pt2"
        package.symlink_to(f"/proc/self/fd/{stream.fileno()}")
        found: Callable[..., Any] = aoti_load_package(str(package))
    return found


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _silent(record: logging.LogRecord) -> bool:
    return "error when deserializing" not in str(record.msg)
