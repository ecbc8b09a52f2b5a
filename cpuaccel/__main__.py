"""The command line `python -m cpuaccel`: info, explain, plan and tune."""

from __future__ import annotations

import argparse
import pickle
import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import torch
from rich.console import Console
from rich.text import Text

import cpuaccel
from cpuaccel import _engine_state, _native, config, memory
from cpuaccel._plan_command import add_plan, run_plan
from cpuaccel._printing import table
from cpuaccel._tune_command import add_tune, run_tune

_PIPE_WIDTH = 10_000
"""Columns for output that is not a terminal: nothing wraps, so that grep finds whole lines."""

_PICKLE_HELP = """\
FILE is a TorchScript archive (torch.jit.save), or a whole module (torch.save).
Loading a module that torch.save wrote runs code that the file chooses, so this
takes --trust: give it only for files you would run as a program.
"""


class LoadError(Exception):
    """The file holds no model that can be explained; the message gives the reason."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, or 2 if a file or an argument is bad."""
    options = _parser().parse_args(arguments)
    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console = Console(width=_PIPE_WIDTH)
    if options.command == "info":
        _print_info(console)
        return 0
    runs = {"tune": run_tune, "plan": run_plan}
    if options.command in runs:
        try:
            return runs[options.command](console, options)
        except (OSError, RuntimeError, ValueError) as error:
            _fail(str(error))
    try:
        model = _load(options.file, options.trust)
    except LoadError as error:
        _fail(f"{options.file}: {error}")
    explanation = cpuaccel.explain(model)
    header, lines = explanation.cells()
    if lines:
        console.print(table(header, lines))
    else:
        console.print("No layer of this model is known to cpuaccel.")
    for line in explanation.footer:
        console.print(Text(line))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cpuaccel", description="Say what cpuaccel does on this machine."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("info", help="versions, CPU features, what is on, every setting")
    explain = commands.add_parser(
        "explain",
        help="what runs each layer of the model in a file",
        description="Say what runs each layer of a model, and why.",
        epilog=_PICKLE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explain.add_argument("file", metavar="FILE", type=Path, help="the model")
    explain.add_argument(
        "--trust", action="store_true", help="load a pickled module, which runs code from FILE"
    )
    add_plan(commands)
    add_tune(commands)
    return parser


def _fail(message: str) -> NoReturn:
    print(f"python -m cpuaccel: error: {message}", file=sys.stderr)
    raise SystemExit(2)


def _print_info(console: Console) -> None:
    console.print(table(("what", "is"), _facts()))
    console.print()
    console.print(table(("setting", "value", "from", "environment", "expected", "what"), _rows()))


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


def _rows() -> Iterable[tuple[str, ...]]:
    for setting in config.settings():
        option = setting.option
        environment = ", ".join(option.env)
        value = config.shown(setting.value) or "none"
        yield option.name, value, setting.source, environment, option.expected, option.doc


def _load(file: Path, trust: bool) -> torch.nn.Module:
    """Load a model under the torch engine that cpuaccel replaces: so cpuaccel packs its layers.

    Raises:
        LoadError: there is no model in `file`, or loading it needs `trust`.
    """
    if not file.exists():
        raise LoadError("no such file")
    if not file.is_file():
        raise LoadError("expected a file, this is a directory or a device")
    if (module := _native.native()) is not None:
        name = module.torch_engine()
        if name in torch.backends.quantized.supported_engines:
            torch.backends.quantized.engine = name
    try:
        return _load_script(file) if _is_torchscript(file) else _load_pickle(file, trust)
    except LoadError:
        raise
    except zipfile.BadZipFile as error:
        raise LoadError(f"damaged archive: {error}") from error
    except OSError as error:
        raise LoadError(f"cannot be read: {error.strerror or error}") from error


def _is_torchscript(file: Path) -> bool:
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def _load_script(file: Path) -> torch.nn.Module:
    try:
        module: torch.nn.Module = torch.jit.load(str(file), map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:
        raise LoadError(f"damaged TorchScript archive: {_first_line(error)}") from error
    return module


def _load_pickle(file: Path, trust: bool) -> torch.nn.Module:
    if not _is_pickle(file):
        raise LoadError("expected what torch.jit.save or torch.save wrote; damaged or foreign file")
    if not trust:
        raise LoadError(
            "a pickled file runs code when it is loaded; give --trust if you trust where it is from"
        )
    try:
        found = torch.load(file, map_location="cpu", weights_only=False)
    except (AttributeError, ModuleNotFoundError) as error:
        raise LoadError(
            f"needs code that is not here: {_first_line(error)};"
            " run this where the model's classes can be imported"
        ) from error
    except Exception as error:
        raise LoadError(f"damaged file: {_first_line(error)}") from error
    if not isinstance(found, torch.nn.Module):
        raise LoadError(f"expected a module, the file holds a {type(found).__name__}")
    return found


def _is_pickle(file: Path) -> bool:
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist())
    with file.open("rb") as stream:
        return stream.read(1) == pickle.PROTO


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
