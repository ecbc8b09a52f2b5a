"""`python -m cpuaccel plan`: what it prints of a file, what it draws, and how it fails."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import torch
from _settings import setting
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn
from compile._optimized import image, net
from cpuaccel.__main__ import main
from cpuaccel._cli.plan import graphviz
from cpuaccel._explain import step_timing
from cpuaccel.compile.capture.call_signature import Call
from cpuaccel.compile.package import load

pytestmark = needs_onednn


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_timing, "_SECONDS", 0.02)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that no test changes."""
    path = tmp_path_factory.mktemp("plan") / "net.pt2"
    with setting("deterministic", True):
        cpuaccel.save(cpuaccel.optimize(net(), (image(),), time_budget=0), path)
    return path


def _printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    capsys.readouterr()
    assert main(["plan", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def _error(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must fail and return its message."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        main(["plan", *map(str, arguments)])
    assert exit_.value.code == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed.err


def _words(line: str) -> str:
    return " ".join(line.split())


def test_it_prints_the_signature_and_each_step(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = _printed(capsys, saved)
    assert lines[0] == "net.pt2: a file of cpuaccel.save"
    assert lines[1] == "call: (float32 [2, 3, 10, 10])"
    assert lines[2].startswith(
        f"made by cpuaccel {cpuaccel.__version__} with torch {torch.__version__}"
    )
    assert "step kernel sizes type us rate of bound of time" in map(_words, lines)
    loaded = cpuaccel.load(saved)
    plans = cpuaccel.explain(loaded, (image(),)).plans
    assert plans
    for step in (step for plan in plans for step in plan.steps):
        assert any(line.startswith(step.kinds) and step.sizes in line for line in lines), step
    assert any("us a call" in line and "between steps" in line for line in lines)
    assert lines[-1].startswith("a call: ")
    assert lines[-1].endswith("% of it in plans")


def test_a_loaded_model_explains_the_plans_of_the_saved_one(saved: Path) -> None:
    def steps(model: nn.Module) -> list[Any]:
        return [
            (step.kinds, step.kernel, step.sizes, step.inputs, step.outputs)
            for plan in cpuaccel.explain(model, (image(),)).plans
            for step in plan.steps
        ]

    optimized = cpuaccel.optimize(net(), (image(),), time_budget=0)
    assert steps(cpuaccel.load(saved)) == steps(optimized) != []


def test_no_run_runs_nothing(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = cpuaccel.explain(cpuaccel.load(saved)).rows

    def refused(*arguments: object) -> None:
        raise AssertionError("it is loaded")

    monkeypatch.setattr(load, "load", refused)
    lines = _printed(capsys, saved, "--no-run")
    assert lines[1] == "call: (float32 [2, 3, 10, 10])"
    for row in rows:
        assert any(line.startswith(row.op) and row.reason in line for line in lines), row
    assert any(_words(line).startswith("Convolution+ReLU 2x3x10x10 * 8x3x3x3 ->") for line in lines)
    assert not any(" us " in line for line in lines)


@pytest.mark.parametrize("options", [(), ("--no-run",)], ids=("run", "no-run"))
def test_it_draws(
    options: tuple[str, ...], saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pygraphviz", reason="the extra cpuaccel[plot] is not installed")
    out = tmp_path / "folder" / "net.svg"
    lines = _printed(capsys, saved, "--svg", out, *options)
    assert lines[-1] == f"Drawn in {out}"
    texts = [
        "".join(each.itertext()) for each in ET.parse(out).iter() if each.tag.endswith("}text")
    ]
    assert "net.pt2: a file of cpuaccel.save" in texts
    assert "input x" in texts
    assert any("Convolution" in text for text in texts)
    assert any("f32 2x3x10x10" in text for text in texts)
    assert any("% of time" in text for text in texts) == (not options)
    assert list(out.parent.iterdir()) == [out]


def test_arguments_are_made_for_any_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tokens are word numbers; a keyword, a constant and autocast belong to the call."""

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.linear = nn.Embedding(4, 8), nn.Linear(8, 4)

        def forward(self, tokens: Tensor, *, mask: Tensor, scale: float = 1.0) -> Tensor:
            return self.linear(self.words(tokens) * mask.unsqueeze(-1)) * scale

    model = Words().eval()
    tokens = torch.tensor([[3, 1]]).expand(5, 2)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        mask = torch.ones(5, 2, dtype=torch.bool)
        keywords = {"mask": mask, "scale": 0.5}
        optimized = cpuaccel.optimize(model, (tokens,), keywords, time_budget=0)
        cpuaccel.save(optimized, tmp_path / "net.pt2")
    lines = _printed(capsys, tmp_path / "net.pt2")
    assert lines[1] == (
        "call: (int64 [5, 2], mask=bool [5, 2], scale=0.5), under autocast to bfloat16"
    )
    start = lines.index("torch's ops:")
    ops = {line.split()[0]: _words(line) for line in lines[start + 2 : -2]}
    assert ops["embedding"].startswith("embedding embedding f32 5x2x8 ")


def test_random_arguments_are_of_the_call() -> None:
    args = (
        torch.randn(3, 4).t(),
        torch.randint(9, (7, 1)).expand(7, 5),
        torch.ones(2, 0),
        torch.tensor(True),
        "mode",
    )
    call = Call.of(args, {"scale": 2})
    made, keywords = call.random()
    assert Call.of(made, keywords) == call
    assert set(made[1].unique().tolist()) <= {0, 1}
    assert made[0].unique().numel() > 2


def test_each_op_of_a_run_is_timed(saved: Path) -> None:
    loaded = cpuaccel.load(saved)
    with loaded.timed() as runs:
        first = loaded(image())
        loaded(image())
    count = len(loaded.facts["flat"]["ops"])
    assert [len(run) for run in runs] == [count, count]
    assert all(each >= 0 for run in runs for each in run)
    assert torch.equal(loaded(image()), first)
    assert len(runs) == 2
    drawn = [node for node in loaded.facts["outline"]["nodes"] if node["op"] != "input"]
    assert len(drawn) == count


# Bad input


def test_files_that_are_none(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = saved.read_bytes()
    truncated, changed = tmp_path / "truncated.pt2", tmp_path / "changed.pt2"
    truncated.write_bytes(content[: len(content) // 2])
    place = len(content) // 3
    changed.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    foreign = tmp_path / "foreign.pt2"
    torch.save(torch.ones(2), foreign)
    for options in ((), ("--no-run",)):
        for path in (truncated, changed):
            assert f"{path}: damaged" in _error(capsys, path, *options)
        message = _error(capsys, foreign, *options)
        assert "expected a file of cpuaccel.save or cpuaccel.aot_compile" in message
        assert "No such file" in _error(capsys, tmp_path / "missing.pt2", *options)
        assert "directory" in _error(capsys, tmp_path, *options)


def test_a_model_that_fails_on_random_numbers(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object, **keywords: object) -> None:
        raise IndexError("index out of range")

    monkeypatch.setattr(load.Loaded, "forward", fails)
    message = _error(capsys, saved)
    assert (
        f"{saved}: the model does not run on random inputs: index out of range; --no-run" in message
    )


def test_out_has_to_end_in_svg(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "net.png"
    message = _error(capsys, saved, "--svg", out)
    assert f"--svg: expected a file that ends in .svg, got {out}" in message
    assert not out.exists()


def test_out_that_cannot_be_written(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pygraphviz", reason="the extra cpuaccel[plot] is not installed")
    folder = tmp_path / "folder.svg"
    folder.mkdir()
    assert str(folder) in _error(capsys, saved, "--no-run", "--svg", folder)
    assert list(tmp_path.iterdir()) == [folder]
    below_a_file = saved / "net.svg"
    assert str(saved) in _error(capsys, saved, "--no-run", "--svg", below_a_file)


def test_an_existing_drawing_stays_if_drawing_fails(
    saved: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pygraphviz", reason="the extra cpuaccel[plot] is not installed")

    def fails(*arguments: object) -> str:
        raise ValueError("no layout")

    monkeypatch.setattr(graphviz, "svg_of", fails)
    out = tmp_path / "net.svg"
    out.write_text("before")
    assert "no layout" in _error(capsys, saved, "--no-run", "--svg", out)
    assert out.read_text() == "before"
    assert list(tmp_path.iterdir()) == [out]


def test_the_library_that_draws_is_named_where_it_is_missing(
    saved: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    message = _error(capsys, saved, "--svg", tmp_path / "net.svg")
    assert "pip install 'cpuaccel[plot]'" in message
    assert list(tmp_path.iterdir()) == []
