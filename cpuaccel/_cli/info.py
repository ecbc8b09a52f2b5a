"""The command `python -m cpuaccel info`: versions, CPU features, state, every setting."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from rich.console import Console

import cpuaccel
from cpuaccel import _engine_state, _native, _shim, config, memory
from cpuaccel._cli.rich_table import table
from cpuaccel._explain.choices import choices_footer


def print_info(console: Console) -> None:
    """Print the facts and the settings as two tables."""
    console.print(table(("item", "value"), facts()))
    console.print()
    console.print(
        table(("setting", "value", "from", "environment", "expected", "meaning"), _settings())
    )


def facts() -> Iterable[tuple[str, str]]:
    """Yield the name and value of each fact about this process and this build."""
    yield "cpuaccel", cpuaccel.__version__
    yield "torch", str(torch.__version__)
    yield "state", "on" if cpuaccel.is_enabled() else f"off: {_engine_state.why_off()}"
    yield "torch.backends.quantized.engine", str(torch.backends.quantized.engine)
    yield "allocator", "on" if memory.is_enabled() else f"off: {memory.why_off()}"
    yield "threads", str(torch.get_num_threads())
    try:
        # Loading the module overrides no kernel of torch, so this works while cpuaccel is off, too.
        native = _native.load()
    except RuntimeError as error:
        yield "compiled module", f"cannot be used: {error}"
        return
    build = native.build_info()
    yield "shims for torch", ", ".join(_shim.built())
    yield "built with torch", str(build.get("torch"))
    yield "oneDNN compiled with", str(build.get("onednn_compiled") or "none")
    yield "oneDNN loaded", str(build.get("onednn_runtime") or "none")
    yield "FBGEMM", "torch's own" if build.get("fbgemm") else "none"
    yield "torch.ao's quantized tensors", "yes" if build.get("quantized_tensors") else "no"
    yield "compiler", str(build.get("compiler"))
    yield "CPU features", " ".join(native.cpu_features())
    yield "core", native.cpu_core() or f"not known, of {native.cpu_vendor() or 'no known vendor'}"
    yield "ISA in use", native.isa()
    yield "matrix products", "; ".join(choices_footer(native))


def _settings() -> Iterable[tuple[str, ...]]:
    for setting in config.settings():
        option = setting.option
        environment = ", ".join(option.env)
        value = config.shown(setting.value) or "none"
        yield option.name, value, setting.source, environment, option.expected, option.doc
