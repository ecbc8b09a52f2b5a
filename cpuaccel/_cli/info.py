"""The command `python -m cpuaccel info`: versions, CPU features, what is on, every setting."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from rich.console import Console

import cpuaccel
from cpuaccel import _engine_state, _native, config, memory
from cpuaccel._cli.rich_table import table


def print_info(console: Console) -> None:
    """Print them as two tables."""
    console.print(table(("what", "is"), _facts()))
    console.print()
    console.print(
        table(("setting", "value", "from", "environment", "expected", "what"), _settings())
    )


def _facts() -> Iterable[tuple[str, str]]:
    yield "cpuaccel", cpuaccel.__version__
    yield "torch", str(torch.__version__)
    yield "engine", "on" if cpuaccel.is_enabled() else f"off: {_engine_state.why_off()}"
    yield "torch.backends.quantized.engine", str(torch.backends.quantized.engine)
    yield "allocator", "on" if memory.is_enabled() else f"off: {memory.why_off()}"
    yield "threads", str(torch.get_num_threads())
    try:
        # This also works while cpuaccel is off: loading the module overrides no kernel of torch.
        native = _native.load()
    except RuntimeError as error:
        yield "compiled module", f"cannot be used: {error}"
        return
    build = native.build_info()
    yield "built with torch", str(build.get("torch"))
    yield "oneDNN compiled with", str(build.get("onednn_compiled") or "none")
    yield "oneDNN loaded", str(build.get("onednn_runtime") or "none")
    yield "FBGEMM", "torch's own" if build.get("fbgemm") else "none"
    yield "compiler", str(build.get("compiler"))
    yield "CPU features", " ".join(native.cpu_features())
    yield "ISA in use", native.isa()


def _settings() -> Iterable[tuple[str, ...]]:
    for setting in config.settings():
        option = setting.option
        environment = ", ".join(option.env)
        value = config.shown(setting.value) or "none"
        yield option.name, value, setting.source, environment, option.expected, option.doc
