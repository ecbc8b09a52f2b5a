"""Reads and writes tables of measured rows: CSV files with the fields of a dataclass as columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from cpuaccel._files import write_atomically

Row = TypeVar("Row")


def read(path: Path, kind: type[Row], check: Callable[[Row], None] = lambda _: None) -> list[Row]:
    """Return the rows of a table. `check` raises ValueError for an invalid row.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a table; the message names the file, the line and what `check` said.
    """
    types = get_type_hints(kind)
    names = _columns(kind)
    found = []
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        if reader.fieldnames != names:
            raise ValueError(f"{path}: expected the columns {','.join(names)}")
        for line in reader:
            try:
                if None in line or None in line.values():
                    raise ValueError(f"expected {len(names)} values")
                row = kind(**{name: types[name](line[name]) for name in names})
                check(row)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {reader.line_num}: {error}") from None
            found.append(row)
    return found


def write(path: Path, kind: type[Any], rows: Iterable[Any]) -> None:
    """Write a table that `read` reads. An existing file is replaced at once or not at all."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_columns(kind))
    writer.writerows(astuple(row) for row in rows)
    write_atomically(path, text.getvalue())


def _columns(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]
