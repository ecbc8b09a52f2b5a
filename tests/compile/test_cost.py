"""The choice of partitions by families, places and measured rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuaccel import matmul
from cpuaccel.compile.partition import cost, cost_table
from cpuaccel.compile.partition.cost import Facts, choose
from cpuaccel.compile.partition.cost_table import Row

_MEASURED = (
    *("reduction", "softmax", "layer_norm", "attention", "convolution", "product", "pool"),
    cost.ELEMENTWISE,
)


@pytest.mark.parametrize(
    ("kinds", "family"),
    [
        (("Convolution", "ReLU"), "convolution"),
        (("ConvTranspose",), "convolution"),
        (("MatMul", "Add"), "product"),
        (("MatMul", "SoftMax", "MatMul"), "softmax"),
        (("Add", "LayerNorm"), "layer_norm"),
        (("q_conv",), "quantized layer"),
        (("q_add",), "quantized"),
        (("MaxPool",), "pool"),
        (("permute",), "view"),
        (("Tanh", "Multiply"), "elementwise"),
    ],
)
def test_families(kinds: tuple[str, ...], family: str) -> None:
    assert cost.family_of(kinds) == family


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (
        Row("", "", "product", "alone", "bf16", 0, 0, 1.5, "a"),
        Row("", "", "product", "alone", "any", 0, 1000, 0.5, "b"),
        Row("", "", "product", "alone", "any", 0, 0, 0.98, "c"),
    )
    monkeypatch.setattr(cost_table, "_rows", lambda: rows)


@pytest.mark.parametrize(
    ("dtype", "work", "taken", "speedup"),
    [("bf16", 10, True, 1.5), ("f32", 1000, False, 0.5), ("f32", 1001, False, 0.98)],
)
@pytest.mark.usefixtures("table")
def test_the_first_row_that_matches(dtype: str, work: int, taken: bool, speedup: float) -> None:
    chosen = choose(Facts(("MatMul",), dtype, 1, work, "alone"))
    assert chosen.taken == taken
    assert f"product alone: {speedup:.2f} times Inductor's speed" in chosen.reason


@pytest.mark.parametrize(("place", "taken"), [("between", True), ("beside", False)])
def test_partitions_that_join_others_need_not_be_faster(
    place: str, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row("", "", "pool", "any", "any", 0, 0, 0.99, "a")
    monkeypatch.setattr(cost_table, "_rows", lambda: (row,))
    assert choose(Facts(("MaxPool",), "f32", 1, 1, place)).taken == taken


@pytest.mark.usefixtures("table")
def test_a_family_without_a_row_is_a_fallback() -> None:
    chosen = choose(Facts(("MatMul",), "f32", 2, 1, "chain"))
    assert chosen == cost.Choice(False, "product chain: not measured")


@pytest.mark.usefixtures("table")
def test_chains_of_one_row_are_taken_but_in_packages() -> None:
    facts = Facts(("MatMul",), "f32", 1, 512 * 512, "chain")
    assert choose(facts).taken
    with cost.for_packages():
        assert not choose(facts).taken


def test_fixed_choices_need_no_row() -> None:
    assert choose(Facts(("q_linear",), "u8", 1, 1, "alone")).taken
    assert choose(Facts(("q_add",), "u8", 1, 1, "beside")).taken
    assert not choose(Facts(("q_add",), "u8", 1, 1, "alone")).taken
    assert choose(Facts(("permute",), "f32", 1, 1, "between")).taken
    assert not choose(Facts(("permute",), "f32", 1, 1, "beside")).taken


@pytest.mark.parametrize(
    ("kinds", "place", "taken"),
    [
        (("Tanh",), "beside", True),
        (("Tanh",), "alone", False),
        (("MaxPool",), "between", True),
        (("SoftMax",), "beside", False),
    ],
)
def test_in_eager_mode_nothing_else_fuses(
    kinds: tuple[str, ...], place: str, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_table, "_rows", lambda: ())
    facts = Facts(kinds, "f32", 0, 1, place)
    assert not choose(facts).taken
    with cost.against_eager():
        assert choose(facts).taken == taken


def test_overruling_holds_inside() -> None:
    facts = Facts(("SoftMax",), "f32", 1, 1, "alone")
    with cost.overrule({"softmax": True}):
        assert choose(facts).taken
    assert not choose(facts).taken


def test_the_table_has_a_row_for_everything() -> None:
    rows = cost_table.read(cost_table.TABLE)
    machines = {(row.vendor, row.isa) for row in rows}
    for vendor, isa in machines:
        for family in _MEASURED:
            if family == "attention" and vendor != "AuthenticAMD":
                continue  # attention falls back there before the table is used
            layers = family in cost.LAYER_FAMILIES
            for place in ("alone", "chain") if layers else cost.PLACES:
                for dtype in ("f32", "bf16"):
                    assert any(
                        (row.vendor, row.isa) == (vendor, isa)
                        and row.max_M == row.max_work == 0
                        and row.matches(family, place, dtype, 10**6, 10**12)
                        for row in rows
                    ), (vendor, isa, family, place, dtype)


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (("AuthenticAMD", "avx512"), ("AuthenticAMD", "avx512")),
        (("GenuineIntel", "avx2"), ("GenuineIntel", "avx512")),
        (("Unknown", "avx2"), ("AuthenticAMD", "avx2")),
        (("Unknown", "sve"), ("AuthenticAMD", "avx2")),
    ],
)
def test_another_machine_has_the_rows_of_one_like_it(
    machine: tuple[str, str], expected: tuple[str, str]
) -> None:
    measured = [("AuthenticAMD", "avx2"), ("AuthenticAMD", "avx512"), ("GenuineIntel", "avx512")]
    rows = [Row(*each, "pool", "alone", "f32", 0, 0, 1.25, "") for each in measured]
    found = cost_table.of_machine(rows, *machine)
    assert [(row.vendor, row.isa) for row in found] == [expected]
    assert cost_table.of_machine([], *machine) == ()


@pytest.mark.measured_table
def test_a_machine_without_rows_finds_some(monkeypatch: pytest.MonkeyPatch) -> None:
    first = cost_table.read(cost_table.TABLE)[0]
    monkeypatch.setattr(matmul, "machine", lambda: ("Unknown", "unknown"))
    cost_table._rows.cache_clear()
    try:
        assert cost_table.find(first.family, first.place, first.dtype, 1, 1) == first
    finally:
        cost_table._rows.cache_clear()


def test_a_table_is_written_and_read(tmp_path: Path) -> None:
    rows = [Row("AuthenticAMD", "avx512", "pool", "alone", "f32", 0, 0, 1.25, "a, b")]
    cost_table.write(tmp_path / "t.csv", rows)
    assert cost_table.read(tmp_path / "t.csv") == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "expected the columns vendor,isa"),
        (
            "vendor,isa,family,place,dtype,max_M,max_work,speedup,measured\nv,i,pool,alone,f32,0,x,1,m\n",
            "line 2",
        ),
    ],
)
def test_a_bad_table_raises(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        cost_table.read(path)
