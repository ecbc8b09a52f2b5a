"""cpuaccel.load rejects files that are damaged, or of another program or version."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import cpuaccel
from compile._compiled import needs_onednn
from compile._structured import image as _x
from compile._structured import net as _net
from cpuaccel.compile.package import archive

pytestmark = needs_onednn

_FACTS = "extra/cpuaccel.json"


def _refused(path: Path, message: str) -> None:
    with pytest.raises(ValueError, match=rf"cpuaccel\.load: .*{path.name}: .*{message}"):
        cpuaccel.load(path)


def _rewritten(path: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """Rewrite the archive with each part as `change` returns it; None omits it."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            changed = change(name, content)
            if changed is not None:
                archive.writestr(name, changed)


def _with_facts(path: Path, **changed: Any) -> None:
    """Change facts of a file, and its digest with them."""

    def change(name: str, content: bytes) -> bytes:
        if not name.endswith(_FACTS):
            return content
        facts = {**json.loads(content), **changed}
        del facts["digest"]
        return json.dumps({**facts, "digest": archive._digest_of(facts)}).encode()

    _rewritten(path, change)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.pt2"):
        cpuaccel.load(tmp_path / "none.pt2")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\3\4" + bytes(100)])
def test_no_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.pt2").write_bytes(content)
    _refused(tmp_path / "net.pt2", "damaged or truncated: ")


def test_truncated_anywhere(saved: Path) -> None:
    whole = saved.read_bytes()
    for part in (0.1, 0.5, 0.9, 0.99, 1 - 1 / len(whole)):
        saved.write_bytes(whole[: int(len(whole) * part)])
        _refused(saved, "damaged or truncated: ")


def test_a_bit_anywhere(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = saved.read_bytes()
    expected = cpuaccel.load(saved)(_x())["scores"]
    chance = random.Random(0)
    refused = 0
    for _ in range(60):
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        saved.write_bytes(changed)
        try:
            loaded = cpuaccel.load(saved)
        except ValueError as error:
            assert "net.pt2: " in str(error)  # noqa: PT017
            refused += 1
        else:  # an insignificant bit: of a date, or between parts
            assert torch.equal(loaded(_x())["scores"], expected)
    assert refused > 20


@pytest.mark.parametrize(("offset", "value"), [(8, 1), (10, 8), (10, 14)])
def test_facts_that_say_they_are_packed(saved: Path, offset: int, value: int) -> None:
    """The list of parts says that they are encrypted, or compressed by bz2 or LZMA."""
    whole = bytearray(saved.read_bytes())
    entry = whole.rindex(b"PK\1\2", 0, whole.rindex(_FACTS.encode()))
    whole[entry + offset] = value
    saved.write_bytes(whole)
    if offset == 10:
        _refused(saved, "damaged or truncated: .*compressed")
    else:  # the contents are unchanged
        assert cpuaccel.load(saved)(_x())


def test_nothing_is_read_by_torch_before_all_of_it_is_known(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("torch read it")

    def change(name: str, content: bytes) -> bytes:
        return content[:-1] + b"?" if name.endswith("weight_0") else content

    _rewritten(saved, change)
    monkeypatch.setattr(torch.export, "load", read)
    _refused(saved, "damaged: .*weight_0 is not as it was written")


def test_a_part_is_missing_or_added(saved: Path) -> None:
    whole = saved.read_bytes()
    _rewritten(saved, lambda name, content: None if name.endswith("weight_1") else content)
    _refused(saved, "damaged: .*weight_1 is missing")
    saved.write_bytes(whole)
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("net/more", b"")
    _refused(saved, "changed since it was written: net/more was added")


def test_a_file_of_torchs_own(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(_net(), (_x(),)), path)
    _refused(path, r"expected a file of cpuaccel\.save .*no extra/cpuaccel\.json; .*torch\.export")
    torch.save(_net().state_dict(), path)
    _refused(path, "has no extra/cpuaccel.json")


def test_facts_that_are_none(saved: Path) -> None:
    whole = saved.read_bytes()
    for content in (b"", b"[]", b"{}", b'{"format": 1}', b"\xff"):

        def change(name: str, old: bytes, new: bytes = content) -> bytes:
            return new if name.endswith(_FACTS) else old

        saved.write_bytes(whole)
        _rewritten(saved, change)
        _refused(saved, "extra/cpuaccel.json is not as it was written")


def test_facts_that_were_changed(saved: Path) -> None:
    def change(name: str, content: bytes) -> bytes:
        return content.replace(b"avx", b"xva") if name.endswith(_FACTS) else content

    _rewritten(saved, change)
    _refused(saved, "extra/cpuaccel.json is not as it was written")


def test_of_another_format(saved: Path) -> None:
    _with_facts(saved, format=3, cpuaccel="9.9")
    _refused(saved, r"format 3 of cpuaccel 9\.9, this cpuaccel reads format 2: write it again")


def test_of_a_version_whose_ops_take_something_else(saved: Path) -> None:
    schema = "cpuaccel::graph_region(Tensor x) -> Tensor"
    _with_facts(saved, cpuaccel="9.9", ops={"cpuaccel::graph_region": schema})
    _refused(saved, r"made by cpuaccel 9\.9: it calls cpuaccel::graph_region\(Tensor x\) .*has ")
    _with_facts(saved, ops={"cpuaccel::of_tomorrow": schema})
    _refused(saved, "it calls cpuaccel::of_tomorrow, which this build of cpuaccel lacks")
    _with_facts(saved, ops={"aten::add": schema})
    _refused(saved, "expected an op of cpuaccel, got 'aten::add'")


def test_of_another_kind(saved: Path) -> None:
    _with_facts(saved, kind="poem")
    _refused(saved, "expected a file of kind 'program' or 'package', got 'poem'")


def test_a_fact_is_missing(saved: Path) -> None:
    _with_facts(saved, call={"leaves": []})
    _refused(saved, "its facts do not match format 2: KeyError")


def test_weights_beyond_their_memory(saved: Path) -> None:
    with zipfile.ZipFile(saved) as whole:
        name = next(name for name in whole.namelist() if name.endswith(_FACTS))
        weights = json.loads(whole.read(name))["weights"]
    weights["linear.weight"][2] = [1000, 1000]
    _with_facts(saved, weights=weights)
    _refused(saved, "weight linear.weight: ")
    del weights["linear.weight"]
    _with_facts(saved, weights=weights)
    _refused(saved, "its facts do not match format 2: KeyError")


def test_files_that_torch_cannot_read(saved: Path) -> None:
    """The damaged file has a valid digest, as an attacker could make it."""
    with zipfile.ZipFile(saved) as whole:
        facts = next(name for name in whole.namelist() if name.endswith(_FACTS))
        content = {**json.loads(whole.read(facts)), "torch": "9.9", "flat": None}

    def change(name: str, old: bytes) -> bytes | None:
        if name.endswith("models/model.json"):
            return old.replace(b'"major": ', b'"major": 9')
        return None if name == facts else old

    _rewritten(saved, change)
    for made_of in ("format", "digest", "digests"):
        content.pop(made_of)
    archive.seal(saved, content)
    _refused(saved, r"torch 2.* cannot read what torch 9\.9 wrote: ")


def test_of_another_cpu_it_runs(saved: Path) -> None:
    cpu = {"machine": "riscv64", "vendor": "", "isa": "rvv", "features": ["rvv"]}
    _with_facts(saved, cpu=cpu)
    expected = _net()(_x())["scores"].detach()
    torch.testing.assert_close(cpuaccel.load(saved)(_x())["scores"], expected, atol=1e-5, rtol=1e-4)
