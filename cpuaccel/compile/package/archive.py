"""Model files: archives that torch wrote, sealed with cpuaccel's facts and a digest of every part.

torch reads a part only after the digests of all parts were verified: torch's reader verifies no
checksums, and the parts of a package that it reads are code.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

FORMAT = 2
"""The version of the facts. Files of other versions are not read."""

_NAME = "extra/cpuaccel.json"
_LOCAL = struct.Struct("<26sHH")
"""The local header of a ZIP entry. It ends with the lengths of the name and of the extra field."""


def seal(path: Path, facts: dict[str, Any]) -> None:
    """Add `facts`, and the digests of all parts, to the archive at `path`."""
    with zipfile.ZipFile(path, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        sealed = {"format": FORMAT, **facts, "digests": _digests(archive)}
        sealed["digest"] = _digest_of(sealed)
        archive.writestr(f"{root}/{_NAME}", json.dumps(sealed))


def verified(
    file: IO[bytes], select: Callable[[str], bool] = lambda name: False
) -> tuple[dict[str, Any], dict[str, bytearray]]:
    """Verify all parts of an archive; return its facts and the contents of some parts.

    `select` selects these parts by their names, without the archive's root folder.

    Raises:
        ValueError: a part is not as it was written, or the archive was never sealed; the message
            says what is wrong.
    """
    selected: dict[str, bytearray] = {}

    def see(name: str, content: bytearray) -> None:
        part = name.partition("/")[2]
        if select(part):
            selected[part] = content

    try:
        with zipfile.ZipFile(file) as archive:
            facts = _facts(archive)
            _compare(_digests(archive, see), facts["digests"])
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OverflowError, OSError) as error:
        raise ValueError(f"damaged or truncated: {error}") from error
    finally:
        file.seek(0)
    return facts, selected


def _facts(archive: zipfile.ZipFile) -> dict[str, Any]:
    names = [name for name in archive.namelist() if name.endswith(f"/{_NAME}")]
    if len(names) != 1:
        raise ValueError(
            f"expected a file of cpuaccel.save or cpuaccel.aot_compile, this one has no {_NAME};"
            " if torch.export.save wrote it, torch.export.load reads it"
        )
    try:
        facts = json.loads(_content(archive, archive.getinfo(names[0])))
        version = facts["format"]
        digest = facts.pop("digest")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"damaged: {_NAME} is not as it was written") from error
    if version != FORMAT:
        raise ValueError(
            f"format {version!r} of {_made_by(facts)}, this cpuaccel reads format {FORMAT}:"
            " write it again with this version"
        )
    if digest != _digest_of(facts):
        raise ValueError(f"damaged: {_NAME} is not as it was written")
    return dict(facts)


def _made_by(facts: dict[str, Any]) -> str:
    return f"cpuaccel {facts.get('cpuaccel', '(unknown)')}"


def _compare(found: dict[str, str], expected: dict[str, str]) -> None:
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            raise ValueError(f"damaged: {name} is missing")
        if name not in expected:
            raise ValueError(f"changed since it was written: {name} was added")
        if found[name] != expected[name]:
            raise ValueError(f"damaged: {name} is not as it was written")


def _digests(
    archive: zipfile.ZipFile, see: Callable[[str, bytearray], None] = lambda name, content: None
) -> dict[str, str]:
    """Return the digests of all parts except the facts; `see` gets each of these parts."""
    names = archive.namelist()
    if len(set(names)) != len(names):
        raise ValueError("damaged: two parts have the same name")
    digests = {}
    for part in archive.infolist():
        if not part.filename.endswith(f"/{_NAME}"):
            content = _content(archive, part)
            digests[part.filename] = hashlib.sha256(content).hexdigest()
            see(part.filename, content)
    return digests


def _content(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> bytearray:
    """Return the contents of an uncompressed part; zipfile would compute a checksum too."""
    file: Any = archive.fp
    size = file.seek(0, os.SEEK_END)
    if part.compress_type != zipfile.ZIP_STORED or part.file_size > size:
        raise zipfile.BadZipFile(f"{part.filename} is larger than the file, or compressed")
    file.seek(part.header_offset)
    head = file.read(_LOCAL.size)
    if len(head) != _LOCAL.size or not head.startswith(b"PK\3\4"):
        raise zipfile.BadZipFile(f"{part.filename} is not where the archive's directory says")
    file.seek(sum(_LOCAL.unpack(head)[1:]), os.SEEK_CUR)
    content = bytearray(part.file_size)
    if file.readinto(content) != part.file_size:
        raise zipfile.BadZipFile(f"{part.filename} is longer than the file")
    return content


def _digest_of(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
