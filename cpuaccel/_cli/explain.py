"""The command `python -m cpuaccel explain`: loads a model from a file and explains it."""

from __future__ import annotations

import argparse
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

import cpuaccel
from cpuaccel import _native
from cpuaccel._cli.rich_table import table

_PICKLE_HELP = """\
FILE is a TorchScript archive (torch.jit.save), or a whole module (torch.save).
Loading a file of torch.save runs code that the file contains, so it needs
--trust: pass it only for files that you would run as a program.
"""


class LoadError(Exception):
    """The file has no model that can be explained; the message gives the reason."""


def add_explain(commands: Any) -> None:
    """Add the command to `python -m cpuaccel`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "explain",
        help="which library runs each layer of the model in a file",
        description="Print which library and kernel run each layer of a model, and why.",
        epilog=_PICKLE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the model; its format is below")
    parser.add_argument(
        "--trust", action="store_true", help="load a pickled module, which runs code from FILE"
    )


def run_explain(console: Console, options: argparse.Namespace) -> int:
    """Print what runs each layer; return the exit code.

    Raises:
        LoadError: FILE has no model, or loading it needs --trust.
    """
    try:
        model = _load(options.file, options.trust)
    except LoadError as error:
        raise LoadError(f"{options.file}: {error}") from error
    explanation = cpuaccel.explain(model)
    header, lines = explanation.cells()
    if lines:
        console.print(table(header, lines))
    else:
        console.print("cpuaccel knows no layer of this model.")
    for line in explanation.footer:
        console.print(Text(line))
    return 0


def _load(file: Path, trust: bool) -> torch.nn.Module:
    """Load a model under the torch engine that cpuaccel replaces; then cpuaccel packs its layers.

    Raises:
        LoadError: there is no model in `file`, or loading it needs `trust`.
    """
    if not file.exists():
        raise LoadError("no such file")
    if not file.is_file():
        raise LoadError("expected a file, got a directory or a device")
    if (module := _native.native()) is not None:
        name = module.torch_engine()
        if name is not None and name in torch.backends.quantized.supported_engines:
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
        raise LoadError(
            "expected a file of torch.jit.save or torch.save; it is damaged or has another format"
            " (python -m cpuaccel plan shows a .pt2 file)"
        )
    if not trust:
        raise LoadError(
            "loading a pickled file runs code from it; pass --trust if you trust its source"
        )
    try:
        found = torch.load(file, map_location="cpu", weights_only=False)
    except (AttributeError, ModuleNotFoundError) as error:
        raise LoadError(
            f"the model's classes cannot be imported: {_first_line(error)}; run this where they can"
        ) from error
    except Exception as error:
        raise LoadError(f"damaged file: {_first_line(error)}") from error
    if not isinstance(found, torch.nn.Module):
        raise LoadError(f"expected a torch.nn.Module in the file, got a {type(found).__name__}")
    return found


def _is_pickle(file: Path) -> bool:
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist())
    with file.open("rb") as stream:
        return stream.read(1) == pickle.PROTO


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
