"""The tensors and settings of a checkpoint of safetensors files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import Tensor

_INDEX = "model.safetensors.index.json"


class Checkpoint:
    """A safetensors file, or a folder with one or more; tensors are read one at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        opened = [_open(file) for file in self._paths()]
        self._file_of = {name: file for file in opened for name in file.keys()}  # noqa: SIM118
        self.names = set(self._file_of)

    def tensor(self, name: str) -> Tensor:
        """Return the tensor of this name, which may be a mapping of the file: copy what is kept."""
        tensor: Tensor = self._file_of[name].get_tensor(name)
        return tensor

    def error(self, text: str) -> ValueError:
        """Return a ValueError that names the checkpoint."""
        return ValueError(f"{self.path}: {text}")

    def settings(self, method: str) -> dict[str, Any]:
        """Return how the model was quantized, from the files beside it; empty without such a file.

        Raises:
            ValueError: it was quantized by another method.
        """
        folder = self.path if self.path.is_dir() else self.path.parent
        found: dict[str, Any] = {}
        for file, key in (
            ("quantize_config.json", None),
            ("quant_config.json", None),
            ("config.json", "quantization_config"),
        ):
            if not found and (folder / file).is_file():
                found = self._json(folder / file)
                found = found if key is None else found.get(key) or {}
        if found.get("quant_method", method) != method:
            raise self.error(f"its quant_method is {found['quant_method']!r}: expected {method!r}")
        return found

    def _paths(self) -> Iterable[Path]:
        if not self.path.exists():
            raise FileNotFoundError(f"{self.path}: there is no such file or folder")
        if not self.path.is_dir():
            return [self.path]
        if (self.path / _INDEX).is_file():
            names = self._json(self.path / _INDEX).get("weight_map", {})
            files = [self.path / name for name in sorted(set(names.values()))]
            missing = [file.name for file in files if not file.is_file()]
            if missing:
                raise self.error(f"{_INDEX} names files that are missing: {', '.join(missing)}")
            return files
        files = sorted(self.path.glob("*.safetensors"))
        if not files:
            raise self.error("expected a safetensors file in the folder")
        return files

    def _json(self, file: Path) -> dict[str, Any]:
        try:
            read = json.loads(file.read_text())
        except ValueError as error:
            raise self.error(f"{file.name} is no JSON: {error}") from error
        if not isinstance(read, dict):
            raise self.error(f"{file.name} is no JSON object")
        return read


def _open(file: Path) -> Any:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ImportError(
            "reading safetensors files needs the package safetensors: pip install safetensors"
        ) from error
    try:
        return safe_open(file, framework="pt")
    except SafetensorError as error:
        raise ValueError(f"{file}: not a safetensors file, or damaged: {error}") from error
