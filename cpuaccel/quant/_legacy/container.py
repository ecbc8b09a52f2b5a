"""Opens files of torch.save, pickle and torch.jit.save: their pickle, storages and sources."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from cpuaccel.quant._legacy.descriptions import StorageId
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.pickle_machine import read_pickle
from cpuaccel.quant._legacy.storages import dtype_of, storage_key

_MAGIC = 0x1950A86A20F9469CFC6C
"""What torch.save wrote first before torch 1.6, and still does if asked."""
_PROTOCOL = 1001
_COUNT_BYTES = 8
_TEXT_LIMIT = 256 << 20
"""Bytes of pickles and sources. Weights are apart from them."""
_ZIP_MAGIC = b"PK\x03\x04"
_TAR_MAGIC = (257, b"ustar")
_START = 512
"""Bytes that tell the formats apart."""


@dataclass
class Container:
    """The contents of a file."""

    data: Any
    """What its pickle describes."""
    read_storage: Callable[[str], bytes]
    """Returns the bytes of a storage by its key."""
    constants: Any = None
    """What constants.pkl of a TorchScript archive describes."""
    sources: dict[str, str] | None = None
    """The sources of a TorchScript archive, by module; None for other files."""


def open_container(file: IO[bytes], max_bytes: int) -> Container:
    """Read an open file, by its first bytes. It must stay open while storages are read.

    Raises:
        LegacyError: it is in none of the formats, damaged, or larger than `max_bytes`.
    """
    size = file.seek(0, os.SEEK_END)
    if size > max_bytes:
        raise LegacyError(f"it has {size} bytes, more than max_bytes={max_bytes}")
    file.seek(0)
    start = file.read(_START)
    file.seek(0)
    if not start:
        raise LegacyError("the file is empty")
    if start[_TAR_MAGIC[0] :].startswith(_TAR_MAGIC[1]):
        raise LegacyError(
            "a tar file: torch.save wrote these before 0.1.10, when torch had no int8 models"
        )
    if start.startswith(_ZIP_MAGIC):
        return _read_zip(file, max_bytes)
    if not start.startswith(b"\x80"):
        raise LegacyError(
            "no file of torch.save, torch.jit.save or pickle:"
            f" expected its first bytes to be PK or 0x80, got {start[:4]!r}"
        )
    return _read_stream(io.BytesIO(file.read()))


# Files of torch.save since 1.6, and of torch.jit.save


def _read_zip(file: IO[bytes], max_bytes: int) -> Container:
    try:
        archive = zipfile.ZipFile(file)
        members = {info.filename: info for info in archive.infolist()}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, NotImplementedError) as error:
        raise LegacyError(f"damaged zip file: {error}") from error
    total = sum(info.file_size for info in members.values())
    if total > max_bytes:
        raise LegacyError(
            f"its members have {total} bytes, more than max_bytes={max_bytes}: pass a larger one"
        )
    prefixes = [name.removesuffix("data.pkl") for name in members if _is_top(name, "data.pkl")]
    if len(prefixes) != 1:
        raise LegacyError(
            f"a zip file with {len(prefixes)} members data.pkl: expected one. A file of"
            " torch.export.save or cpuaccel.save is loaded by torch.export.load or cpuaccel.load"
        )
    zip_file = _Zip(archive, members, prefixes[0])
    if zip_file.text("byteorder", "little") != "little":
        raise LegacyError("it was saved on a big-endian machine: load and save it there as little")
    sources = None
    if f"{prefixes[0]}constants.pkl" in members:
        start = f"{prefixes[0]}code/"
        paths = [name for name in members if name.startswith(start) and name.endswith(".py")]
        sources = {
            name.removeprefix(start).removesuffix(".py").replace("/", "."): zip_file.text(
                name.removeprefix(prefixes[0])
            )
            for name in paths
        }
    return Container(
        data=read_pickle(io.BytesIO(zip_file.bytes("data.pkl", _TEXT_LIMIT))),
        read_storage=lambda key: zip_file.bytes(f"data/{key}", max_bytes),
        constants=None
        if sources is None
        else read_pickle(io.BytesIO(zip_file.bytes("constants.pkl", _TEXT_LIMIT))),
        sources=sources,
    )


def _is_top(name: str, member: str) -> bool:
    return name == member or (name.endswith(f"/{member}") and name.count("/") == 1)


class _Zip:
    def __init__(
        self, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], prefix: str
    ) -> None:
        self._archive = archive
        self._members = members
        self._prefix = prefix

    def bytes(self, name: str, limit: int) -> bytes:
        info = self._members.get(self._prefix + name)
        if info is None:
            raise LegacyError(f"member {name} is missing: the file is damaged, or not a model")
        if info.file_size > limit:
            raise LegacyError(f"member {name} has {info.file_size} bytes, more than {limit}")
        try:
            with self._archive.open(info) as member:
                # A member can have more bytes than it declares.
                read = member.read(info.file_size + 1)
        except (
            *(zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError),
            *(RuntimeError, NotImplementedError),
        ) as error:
            raise LegacyError(f"member {name} is damaged: {error}") from error
        if len(read) != info.file_size:
            raise LegacyError(
                f"member {name} is damaged: it has not the {info.file_size} bytes that it declares"
            )
        return read

    def text(self, name: str, missing: str | None = None) -> str:
        if missing is not None and self._prefix + name not in self._members:
            return missing
        try:
            return self.bytes(name, _TEXT_LIMIT).decode()
        except UnicodeDecodeError as error:
            raise LegacyError(f"member {name} is damaged: {error}") from error


# Pickles, and files of torch.save before 1.6


def _read_stream(contents: io.BytesIO) -> Container:
    first = read_pickle(contents)
    if first != _MAGIC:
        return Container(first, _no_storages)
    return _read_old(contents)


def _no_storages(key: str) -> bytes:
    raise LegacyError(f"storage {key}: a pickle has no storages of its own")


def read_nested(contents: bytes) -> Container:
    """Read what torch.storage._load_from_bytes gets, in a tensor that pickle.dump wrote."""
    stream = io.BytesIO(contents)
    if contents.startswith(_ZIP_MAGIC):
        return _read_zip(stream, max(len(contents) * 2, _TEXT_LIMIT))
    if read_pickle(stream) != _MAGIC:
        raise LegacyError("a tensor's bytes are not a file of torch.save")
    return _read_old(stream)


def _read_old(contents: io.BytesIO) -> Container:
    """Read the rest of a file whose magic number was read."""
    protocol, system = read_pickle(contents), read_pickle(contents)
    if protocol != _PROTOCOL or not isinstance(system, dict):
        raise LegacyError(f"format {protocol!r} of torch.save: expected {_PROTOCOL}")
    if not system.get("little_endian", True):
        raise LegacyError("it was saved on a big-endian machine: load and save it there as little")
    named: list[StorageId] = []
    data = read_pickle(contents, named)
    keys = read_pickle(contents)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise LegacyError("damaged file: the keys of its storages are not a list of texts")
    # The file has numbers of elements; only the pickle has their types.
    sizes = {storage_key(each): dtype_of(each).itemsize for each in named}
    found = {key: _old_storage(contents, key, sizes) for key in keys}
    return Container(data, partial(_from, found))


def _old_storage(contents: io.BytesIO, key: str, sizes: dict[str, int]) -> bytes:
    head = contents.read(_COUNT_BYTES)
    count = int.from_bytes(head, "little", signed=True)
    if len(head) != _COUNT_BYTES or count < 0:
        raise LegacyError(f"damaged file: storage {key} has no size")
    if key not in sizes:
        raise LegacyError(f"damaged file: no tensor names storage {key}")
    expected = count * sizes[key]
    left = len(contents.getbuffer()) - contents.tell()
    if expected > left:
        raise LegacyError(f"damaged file: storage {key} has {expected} bytes, but {left} are left")
    return contents.read(expected)


def _from(found: dict[str, bytes], key: str) -> bytes:
    if key not in found:
        raise LegacyError(f"storage {key} is missing: the file is damaged")
    return found[key]
