"""Damaged and hostile files: no code from them runs, and the error names file and reason."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from cpuaccel.quant import load_legacy
from cpuaccel.quant._legacy.errors import LegacyError
from quant.legacy import _files

_RAN: list[str] = []
"""What code of a file did, if any ran."""


def _run(what: str) -> nn.Module:
    _RAN.append(what)
    return nn.Identity()


class _Calls:
    """Pickles as a call of a function."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._call = function, args

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


class _Sets:
    """Pickles as an object whose __setstate__ runs code."""

    def __getstate__(self) -> dict[str, str]:
        return {"what": "setstate"}

    def __setstate__(self, state: dict[str, str]) -> None:
        _run(state["what"])


_MARK = Path(tempfile.gettempdir()) / f"cpuaccel-legacy-{os.getpid()}"
"""A folder that commands in files make, if any runs."""


@pytest.fixture(autouse=True)
def nothing_ran() -> Iterator[None]:
    _RAN.clear()
    yield
    assert not _RAN
    assert not _MARK.exists()


def _rejected(contents: bytes | io.BytesIO, match: str, **options: Any) -> None:
    file = contents if isinstance(contents, io.BytesIO) else io.BytesIO(contents)
    with pytest.raises(ValueError, match=match) as caught:
        load_legacy(file, **options)
    assert str(caught.value).startswith("cpuaccel.quant.load_legacy: the file object: ")


CALLS = {
    "os.system": _Calls(os.system, f"mkdir {_MARK}"),
    "eval": _Calls(eval, "1 / 0"),
    "a function": _Calls(_run, "reduce"),
    "setstate": _Sets(),
    "nested": _Calls(_run, _Calls(_run, "inside")),
    "torch.load": _Calls(torch.load, "other.pt"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("write", [pickle.dumps, lambda v: _files.saved(v).getvalue()])
def test_calls_in_a_pickle_do_not_run(name: str, write: Callable[[Any], bytes]) -> None:
    _rejected(write(CALLS[name]), "holds an object of class")


@pytest.mark.parametrize("name", CALLS)
def test_calls_in_a_state_dict_do_not_run(name: str) -> None:
    state = {"0.weight": torch.zeros(3, 3), "0.bias": CALLS[name]}
    _rejected(_files.saved(state), "checkpoint", model=nn.Sequential(nn.Linear(3, 3)))


def test_calls_in_attributes_of_modules_do_not_run() -> None:
    model = nn.Sequential(nn.ReLU())
    model[0].inplace = _Calls(_run, "attribute")
    _rejected(_files.saved(model), "attribute 'inplace' has a value that it cannot have")


def test_an_attribute_cannot_replace_a_method() -> None:
    model = nn.Sequential(nn.ReLU())
    vars(model[0])["forward"] = 3
    _rejected(_files.saved(model), "attribute 'forward' has a value that it cannot have")


def _graph_file(code: str, imports: str = "") -> io.BytesIO:
    """A file of a GraphModule with another source of its forward."""
    model = _files.converted(_files.Functional)
    return _files.pickled(_Graph(model, code, imports))


class _Graph:
    def __init__(
        self, model: nn.Module, code: str, imports: str, attributes: dict[str, Any] | None = None
    ) -> None:
        self._call = model.__reduce__()
        self._imports = imports
        self._attributes = {"_code": code, **(attributes or {})}

    def __reduce__(self) -> Any:
        function, (attributes, imports) = self._call[:2]
        return function, ({**attributes, **self._attributes}, self._imports or imports)


CODES = {
    "import": "def forward(self, x):\n    import os\n    return x",
    "exec": "def forward(self, x):\n    exec('1')\n    return x",
    "os.system": "def forward(self, x):\n    y = os.system('ls')\n    return y",
    "torch.load": "def forward(self, x):\n    return torch.load('other.pt')",
    "torch.hub": "def forward(self, x):\n    return torch.hub.load('a', 'b')",
    "load_library": "def forward(self, x):\n    return torch.ops.load_library('a.so')",
    "from_file": "def forward(self, x):\n    return torch.from_file('/etc/passwd')",
    "a dunder method": "def forward(self, x):\n    return x.__reduce_ex__(2)",
    "a dunder attribute": "def forward(self, x):\n    return x.__class__",
    "globals": "def forward(self, x):\n    return self.forward.__globals__",
    "a lambda": "def forward(self, x):\n    return (lambda: x)()",
    "a comprehension": "def forward(self, x):\n    return [y for y in x]",
    "a loop": "def forward(self, x):\n    while True:\n        pass",
    "a decorator": "@f\ndef forward(self, x):\n    return x",
    "a default": "def forward(self, x=print()):\n    return x",
    "two functions": "def forward(self, x):\n    return x\nprint()",
    "register_hook": "def forward(self, x):\n    return x.register_hook(x)",
    "apply": "def forward(self, x):\n    return self.apply(x)",
    "no syntax": "def forward(self, x:",
    "a huge number": "def forward(self, x):\n    return 9 ** 9 ** 9 ** 9",
    "a huge text": "def forward(self, x):\n    return 'a' * 10 ** 12",
    "deep": "def forward(self, x):\n    return " + "-" * 5000 + "x",
    "deep parentheses": "def forward(self, x):\n    return " + "(" * 3000 + "x" + ")" * 3000,
    "a null byte": "def forward(self, x):\n    return x\0",
}


@pytest.mark.parametrize("name", CODES)
def test_sources_of_a_forward_do_not_run(name: str) -> None:
    _rejected(_graph_file(CODES[name]), "forward|deeply")


def test_imports_of_a_forward_are_not_imported() -> None:
    imports = "from os import system as torch_nn_functional_relu\nimport antigravity"
    code = "def forward(self, x):\n    return torch_nn_functional_relu(x)"
    _rejected(_graph_file(code, imports), r"calls os\.system, which is not on the list")


_EVIL = '"), __import__("quant.legacy.test_hostile")._run("name'
"""torch.fx writes the names of modules into code that it executes."""


def test_names_of_modules_are_not_executed() -> None:
    model = nn.Sequential(nn.ReLU())
    model._modules[_EVIL] = nn.ReLU()
    _rejected(_files.saved(model), "expected letters and digits")


@pytest.mark.parametrize("name", ["__class__", "__dict__"])
def test_names_of_python_s_own_attributes(name: str) -> None:
    code = f"def forward(self, x):\n    y = self.{name}\n    return y"
    file = _files.pickled(_Graph(_files.converted(_files.Functional), code, "", {name: 3.0}))
    _rejected(file, "expected letters and digits")


def test_an_attribute_of_text() -> None:
    code = "def forward(self, x):\n    y = self._text\n    return y"
    file = _files.pickled(_Graph(_files.converted(_files.Functional), code, "", {"_text": "a"}))
    _rejected(file, "attribute _text is a str")


@pytest.mark.parametrize("use", ["(x)", ""])
def test_names_in_a_forward_are_not_executed(use: str) -> None:
    code = f"def forward(self, x):\n    return getattr(self, {_EVIL!r}){use}"
    model = _files.converted(_files.Functional)
    attributes = {"_modules": {**model._modules, _EVIL: nn.ReLU()}, _EVIL: 3.0}
    file = _files.pickled(_Graph(model, code, "", attributes))
    _rejected(file, "expected letters and digits|the file does not have")


def _script(change: Callable[[str, bytes], bytes]) -> bytes:
    """A TorchScript archive with changed members."""
    model = nn.Sequential(nn.ReLU(), nn.Flatten())
    before = zipfile.ZipFile(_files.scripted(model))
    after = io.BytesIO()
    with zipfile.ZipFile(after, "w") as archive:
        for name in before.namelist():
            archive.writestr(name, change(name, before.read(name)))
    return after.getvalue()


STATEMENTS = {
    "import": "import os",
    "os": "os.system('ls')",
    "ops": "ops.aten.from_file('/etc/passwd')",
    "torch": "torch.from_file('/etc/passwd')",
    "eval": "eval('1')",
    "a class": "class A: pass",
    "a huge number": "a = torch.mul(torch.mul(9223372036854775807, 9), 9)",
    "a huge text": "a = torch.mul('a', 1000000000000)",
    "a huge list": "a = torch.mul([0], 1000000000000)",
    "an endless loop": "for i in range(1000000000000):\n      pass",
    "recursion": "a = self.forward(input, )",
    "an unknown name": "a = nowhere",
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_sources_of_torchscript_do_not_run(name: str) -> None:
    def change(member: str, contents: bytes) -> bytes:
        # container.py, or a file in container/ if this process scripted another Sequential before.
        if "/container" not in member or not member.endswith(".py"):
            return contents
        lines = contents.decode().splitlines()
        start = next(i for i, line in enumerate(lines) if "def forward" in line)
        body = next(i for i in range(start, len(lines)) if lines[i].rstrip().endswith(":"))
        lines.insert(body + 1, f"    {STATEMENTS[name]}")
        return "\n".join(lines).encode()

    _rejected(_script(change), "its code|line|deep|raises")


# Sizes


def _tensor_file(size: Any, stride: Any, offset: int = 0, numel: int = 4) -> bytes:
    """A state dict whose only tensor has any size and stride."""
    file = _files.saved(torch.zeros(4))
    archive = zipfile.ZipFile(file)
    prefix = archive.namelist()[0].partition("/")[0]
    opcodes = b"\x80\x02}X\x08\x00\x00\x000.weightctorch._utils\n_rebuild_tensor_v2\n(("
    opcodes += b"X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
    opcodes += b"X\x03\x00\x00\x00cpu" + pickle.dumps(numel, 2)[2:-1] + b"tQ"
    for each in (offset, size, stride):
        opcodes += pickle.dumps(each, 2)[2:-1]
    opcodes += b"\x89ccollections\nOrderedDict\n)RtRs."
    after = io.BytesIO()
    with zipfile.ZipFile(after, "w") as made:
        for name in archive.namelist():
            is_pickle = name == f"{prefix}/data.pkl"
            made.writestr(name, opcodes if is_pickle else archive.read(name))
    return after.getvalue()


SIZES = {
    "outside": ((5,), (1,), 0, 4),
    "outside by stride": ((2, 2), (100, 1), 0, 4),
    "outside by offset": ((1,), (1,), 4, 4),
    "negative offset": ((1,), (1,), -1, 4),
    "negative size": ((-1,), (1,), 0, 4),
    "negative stride": ((2,), (-1,), 1, 4),
    "huge": ((1 << 40, 1 << 40), (0, 0), 0, 4),
    "more than int64": ((1 << 70,), (0,), 0, 4),
    "no numbers": (("a",), (1,), 0, 4),
    "no tuple": ("a", (1,), 0, 4),
    "more dimensions than strides": ((1, 1), (1,), 0, 4),
    "a storage that is too short": ((4,), (1,), 0, 1 << 40),
    "a bool": ((True,), (1,), 0, 4),
    "a float": ((1.5,), (1,), 0, 4),
}


@pytest.mark.parametrize("name", SIZES)
def test_tensors_stay_inside_of_their_storage(name: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    _rejected(_tensor_file(*SIZES[name]), "tensor|storage", model=model)


def test_a_zip_bomb_is_not_unpacked() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\0" * (64 << 20))
    _rejected(file, r"more than max_bytes=1048576", max_bytes=1 << 20)


def test_a_member_with_more_bytes_than_it_declares() -> None:
    file = _files.saved({"a": torch.zeros(4)})
    contents = bytearray(file.getvalue())
    entry = contents.rindex(b"PK\x01\x02", 0, contents.rindex(b"data/0"))
    assert struct.unpack_from("<I", contents, entry + 24) == (16,)
    struct.pack_into("<I", contents, entry + 24, 4)
    _rejected(bytes(contents), "damaged", model=nn.Linear(2, 2))


def test_the_file_s_size_is_limited() -> None:
    _rejected(_files.saved(torch.zeros(1000)), "max_bytes=100", max_bytes=100)


# Contents that are no model


OTHERS: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "empty"),
    "text": (lambda: b"hello, world", "no file of torch.save"),
    "tar": (lambda: b"\0" * 257 + b"ustar" + b"\0" * 250, "tar file"),
    "a zip of something else": (lambda: _zip({"a.txt": b"x"}), "0 members data.pkl"),
    "a zip without entries": (lambda: b"PK\x03\x04" + b"\0" * 40, "damaged zip"),
    "a number": (lambda: _files.saved(3).getvalue(), "holds a int"),
    "a tensor": (lambda: _files.saved(torch.zeros(3)).getvalue(), "holds an object of class"),
    "an empty dict": (lambda: _files.saved({}).getvalue(), "holds a dict"),
    "endless recursion": (
        lambda: b"\x80\x02" + b"]" * 10**5 + b"a" * (10**5 - 1) + b".",
        "nested|holds",
    ),
    "deep tuples as keys": (lambda: b"\x80\x02})" + b"\x85" * 10**6 + b"Ns.", "key of type tuple"),
    "a huge memo index": (lambda: b"\x80\x02Nr\xff\xff\xff\x7f0N.", "NoneType"),
    "a list that holds itself": (lambda: b"\x80\x02]q\x00h\x00a.", "nested"),
    "no STOP": (lambda: b"\x80\x02N", "damaged pickle"),
    "an unknown opcode": (lambda: b"\x80\x02\xfe.", "damaged pickle"),
    "INST": (lambda: b"\x80\x02(S'ls'\nios\nsystem\n.", "INST"),
    "a persistent id of text": (lambda: b"\x80\x02Pid\n.", "PERSID"),
    "an extension": (lambda: b"\x80\x02\x82\x01.", "EXT1"),
    "a called number": (lambda: b"\x80\x02K\x01)R.", "damaged pickle"),
    "a negative length": (lambda: b"\x80\x02X\xff\xff\xff\xffa.", "damaged pickle"),
    "a negative text": (lambda: b"\x80\x02T\xff\xff\xff\xffa.", "damaged pickle"),
    "a long number": (lambda: b"\x80\x02L" + b"9" * 10**5 + b"L\n.", "damaged pickle"),
}


def _zip(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, contents in members.items():
            archive.writestr(name, contents)
    return file.getvalue()


@pytest.mark.parametrize("name", OTHERS)
def test_other_contents(name: str) -> None:
    contents, match = OTHERS[name]
    _rejected(contents(), match)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_legacy(tmp_path / "none.pt")


def test_the_error_names_the_path(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match=r"load_legacy: .*model\.pt: damaged zip file"):
        load_legacy(path)


@pytest.mark.parametrize("value", [3, None, b"PK"])
def test_what_is_no_file(value: Any) -> None:
    with pytest.raises(TypeError, match="file: expected a path or a file"):
        load_legacy(value)


# Fuzzing


def _seeds() -> dict[str, bytes]:
    model = _files.converted(_files.Functional)
    return {
        "saved": _files.saved(model).getvalue(),
        "old": _files.saved_old(model).getvalue(),
        "pickle": _files.pickled(model).getvalue(),
        "script": _files.scripted(model).getvalue(),
        "state": _files.saved_old(_files.eager_converted().state_dict()).getvalue(),
    }


_SEEDS: dict[str, bytes] = {}


@pytest.mark.parametrize("kind", ["saved", "old", "pickle", "script", "state"])
@given(data=st.data())
def test_changed_bytes_load_or_raise_value_error(kind: str, data: st.DataObject) -> None:
    if not _SEEDS:
        _SEEDS.update(_seeds())
    contents = bytearray(_SEEDS[kind])
    changes = data.draw(
        st.lists(
            st.tuples(st.integers(0, len(contents) - 1), st.integers(0, 255)),
            min_size=1,
            max_size=8,
        )
    )
    for position, value in changes:
        contents[position] = value
    end = data.draw(st.one_of(st.just(len(contents)), st.integers(0, len(contents))))
    options = {"model": _files.made(_files.Eager)} if kind == "state" else {}
    _loads_or_raises(bytes(contents[:end]), **options)


@pytest.mark.parametrize("kind", ["saved", "script"])
@given(data=st.data())
def test_changed_members_of_a_zip(kind: str, data: st.DataObject) -> None:
    """As above, with right checksums, so that the changes reach the pickle and the sources."""
    if not _SEEDS:
        _SEEDS.update(_seeds())
    before = zipfile.ZipFile(io.BytesIO(_SEEDS[kind]))
    names = [n for n in before.namelist() if n.endswith((".pkl", ".py")) and before.read(n)]
    changed = data.draw(st.sampled_from(names))
    contents = bytearray(before.read(changed))
    for _ in range(data.draw(st.integers(1, 6))):
        position = data.draw(st.integers(0, len(contents) - 1))
        contents[position] = data.draw(st.integers(0, 255))
    made = _zip({n: bytes(contents) if n == changed else before.read(n) for n in before.namelist()})
    _loads_or_raises(made)


def _loads_or_raises(contents: bytes, **options: Any) -> None:
    with contextlib.suppress(LegacyError):
        load_legacy(io.BytesIO(contents), **options)
