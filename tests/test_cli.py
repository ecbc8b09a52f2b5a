"""`python -m cpuaccel`: what it prints; bad files give a message, not a traceback."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

import cpuaccel
from cpuaccel import config
from cpuaccel.__main__ import main


class _Marker:
    """Pickles to a call that creates a file, in place of harmful code."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (Path.touch, (self.path,))


@pytest.fixture
def model() -> nn.Module:
    torch.backends.quantized.engine = "x86"
    with cpuaccel.enabled():
        return torch.ao.quantization.quantize_dynamic(
            nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)).eval(), {nn.Linear}
        )


@pytest.fixture
def script(model: nn.Module, tmp_path: Path) -> Path:
    file = tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(model), file)
    return file


@pytest.fixture
def pickled(model: nn.Module, tmp_path: Path) -> Path:
    file = tmp_path / "module.pt"
    torch.save(model, file)
    return file


def _error(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must fail and return its message."""
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    assert exit_.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    return printed.err


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    with cpuaccel.enabled():
        assert main(["info"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["cpuaccel", cpuaccel.__version__] in lines
    assert ["torch", torch.__version__] in lines
    assert ["state", "on"] in lines
    for option in config.OPTIONS:
        assert any(
            line[:2] == [option.name, config.shown(config.get(option.name)) or "none"]
            for line in lines
        )


def test_info_says_why_it_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    with cpuaccel.enabled(False):
        assert main(["info"]) == 0
        assert not cpuaccel.is_enabled()
    out = capsys.readouterr().out
    assert re.search(r"^state +off: ", out, re.MULTILINE)


def test_info_as_a_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cpuaccel", "info"],
        env={**os.environ, "CPUACCEL": "0", "CPUACCEL_PROVIDER": "intree"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "off: CPUACCEL in the environment" in done.stdout
    assert "CPUACCEL_PROVIDER" in done.stdout
    assert done.stderr == ""


def test_explain_torchscript(capsys: pytest.CaptureFixture[str], script: Path) -> None:
    assert main(["explain", str(script)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    layers = {line[0]: line for line in lines if line}
    assert {"0", "2"} <= set(layers)
    assert layers["0"][1] == "quantized::linear_dynamic"


def test_layers_with_brackets_are_not_markup(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    torch.backends.quantized.engine = "x86"
    lstm = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.LSTM(4, 4)), {nn.LSTM})
    torch.jit.save(torch.jit.script(lstm), tmp_path / "lstm.pt")
    assert main(["explain", str(tmp_path / "lstm.pt")]) == 0
    assert "0[0].ih" in capsys.readouterr().out


def test_explain_module_takes_trust(capsys: pytest.CaptureFixture[str], pickled: Path) -> None:
    assert "--trust" in _error(capsys, "explain", pickled)
    assert main(["explain", "--trust", str(pickled)]) == 0
    assert "quantized::linear_dynamic" in capsys.readouterr().out


def test_old_format_takes_trust(
    capsys: pytest.CaptureFixture[str], model: nn.Module, tmp_path: Path
) -> None:
    file = tmp_path / "old.pt"
    torch.save(model, file, _use_new_zipfile_serialization=False)
    assert "--trust" in _error(capsys, "explain", file)
    assert main(["explain", "--trust", str(file)]) == 0


@pytest.mark.parametrize("save", [torch.save, lambda x, file: file.write_bytes(pickle.dumps(x))])
def test_nothing_of_a_pickle_runs_without_trust(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, save
) -> None:
    ran = tmp_path / "ran"
    save(_Marker(ran), tmp_path / "harm.pt")
    assert "--trust" in _error(capsys, "explain", tmp_path / "harm.pt")
    assert not ran.exists()


def test_help_says_that_pickles_run_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["explain", "--help"])
    assert exit_.value.code == 0
    assert "runs code" in capsys.readouterr().out


def test_missing_file_and_directory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no such file" in _error(capsys, "explain", tmp_path / "none.pt")
    assert "directory" in _error(capsys, "explain", tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", bytes(1000), b"PK\x03\x04 cut", b"\x7fELF"])
def test_foreign_file(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "foreign"
    file.write_bytes(content)
    assert "expected a file of torch.jit.save or torch.save" in _error(
        capsys, "explain", "--trust", file
    )


def test_foreign_archive(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "notes.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("notes.txt", "hello")
    assert "expected a file of torch.jit.save or torch.save" in _error(
        capsys, "explain", "--trust", file
    )


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9, 0.999])
def test_cut_files(
    capsys: pytest.CaptureFixture[str], script: Path, pickled: Path, kept: float
) -> None:
    for file in (script, pickled):
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * kept)])
        assert "error: " in _error(capsys, "explain", "--trust", file)


@pytest.mark.parametrize("entry", ["constants.pkl", "data.pkl", "version"])
def test_damaged_entries(capsys: pytest.CaptureFixture[str], script: Path, entry: str) -> None:
    with zipfile.ZipFile(script) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(script, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, b"\x80\x02garbage" if name.endswith("/" + entry) else content)
    assert "error: " in _error(capsys, "explain", script)


def test_damaged_pickle(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "bad.pt"
    file.write_bytes(b"\x80\x04garbage")
    assert "damaged" in _error(capsys, "explain", "--trust", file)


def test_state_dict_is_no_model(
    capsys: pytest.CaptureFixture[str], model: nn.Module, tmp_path: Path
) -> None:
    file = tmp_path / "state.pt"
    torch.save(model.state_dict(), file)
    assert "expected a torch.nn.Module" in _error(capsys, "explain", "--trust", file)


def test_class_that_cannot_be_imported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.pt"
    file.write_bytes(b"\x80\x04\x8c\x09no_module\x8c\x05Model\x93.")
    message = _error(capsys, "explain", "--trust", file)
    assert "no_module" in message or "damaged" in message


@pytest.mark.parametrize("arguments", [[], ["explain"], ["nonsense"], ["info", "extra"]])
def test_bad_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert "usage:" in _error(capsys, *arguments)
