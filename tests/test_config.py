"""The table of settings: environment, defaults, bad values, and values set at run time."""

from __future__ import annotations

import importlib.util
import os
import re
import warnings
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpuaccel
from cpuaccel import config as live

_ANY_TEXT = (
    "matmul_table",
    "ranks",
    "capture_cache",
)  # any path is valid until it is opened
VARIABLES = [(option.name, variable) for option in live.OPTIONS for variable in option.env]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for _, variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def _fresh() -> ModuleType:
    """Return a copy of the module that has read no settings and is attached to nothing."""
    spec = importlib.util.find_spec("cpuaccel.config")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_PAGE = Path(__file__).parents[1] / "docs" / "guides" / "environment.md"


@pytest.mark.parametrize("option", live.OPTIONS, ids=lambda option: option.name)
def test_the_page_of_settings_has_the_default(option: live.Option) -> None:
    row = re.search(rf"^\| `{option.name}` \| (.+) \| `?([\w-]+)", _PAGE.read_text(), re.MULTILINE)
    assert row is not None
    assert re.findall(r"`(\w+)`", row[1]) == list(option.env)
    if option.name not in _ANY_TEXT:  # their default is a file of the user's folders
        assert row[2] == live.shown(option.default)


def test_defaults() -> None:
    config = _fresh()
    assert config.get("enabled") is True
    assert config.get("max_isa") == "auto"
    assert config.get("provider") == "auto"
    assert config.get("primitive_cache_capacity") == 1024
    assert {setting.source for setting in config.settings()} == {"default"}


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("CPUACCEL", "0", "enabled", False),
        ("CPUACCEL", "1", "enabled", True),
        ("CPUACCEL", "off", "enabled", False),
        ("CPUACCEL_MAX_ISA", "avx2", "max_isa", "avx2"),
        ("CPUACCEL_MAX_ISA", " AVX512_VNNI ", "max_isa", "avx512_vnni"),
        ("CPUACCEL_PROVIDER", "fbgemm", "provider", "fbgemm"),
        ("CPUACCEL_DETERMINISTIC", "1", "deterministic", True),
        ("CPUACCEL_PRIMITIVE_CACHE_CAPACITY", "0", "primitive_cache_capacity", 0),
        ("LRU_CACHE_CAPACITY", "17", "primitive_cache_capacity", 17),
    ],
)
def test_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, name: str, value: object
) -> None:
    monkeypatch.setenv(variable, text)
    config = _fresh()
    assert config.get(name) == value
    assert {s.option.name: s.source for s in config.settings()}[name] == variable


def test_newer_name_goes_before_the_older(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "17")
    monkeypatch.setenv("CPUACCEL_PRIMITIVE_CACHE_CAPACITY", "5")
    assert _fresh().get("primitive_cache_capacity") == 5


@pytest.mark.parametrize(("name", "variable"), VARIABLES)
def test_empty_is_not_set(monkeypatch: pytest.MonkeyPatch, name: str, variable: str) -> None:
    monkeypatch.setenv(variable, " ")
    config = _fresh()
    assert config.get(name) == config.OPTIONS[[o.name for o in config.OPTIONS].index(name)].default


@pytest.mark.parametrize(
    ("name", "variable"), [row for row in VARIABLES if row[0] not in _ANY_TEXT]
)
@pytest.mark.parametrize("text", ["nonsense", "-2", "1.5", "99999999999999999999"])
def test_bad_value_warns_once_and_gives_the_default(
    monkeypatch: pytest.MonkeyPatch, name: str, variable: str, text: str
) -> None:
    monkeypatch.setenv(variable, text)
    config = _fresh()
    with pytest.warns(RuntimeWarning) as caught:
        value = config.get(name)
    option = next(option for option in config.OPTIONS if option.name == name)
    assert value == option.default
    message = str(caught[0].message)
    assert variable in message
    assert repr(text) in message
    assert option.expected in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert config.get(name) == option.default


@given(
    st.sampled_from(VARIABLES),
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20),
)
def test_no_text_in_the_environment_raises(where: tuple[str, str], text: str) -> None:
    name, variable = where
    with mock.patch.dict(os.environ, {variable: text}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = _fresh()
        option = next(option for option in config.OPTIONS if option.name == name)
        assert option.check(config.get(name)) == config.get(name)


def test_only_what_differs_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPUACCEL_MAX_ISA", "avx2")
    monkeypatch.setenv("CPUACCEL", "0")
    config = _fresh()
    pushed: list[tuple[str, object]] = []
    config.attach(lambda setter, value: pushed.append((setter, value)))
    assert pushed == [("set_max_isa", "avx2")]
    config.set("provider", "intree")
    assert pushed[1:] == [("set_provider", "intree")]
    assert config.get("provider") == "intree"
    assert next(s for s in config.settings() if s.option.name == "provider").source == "config.set"


def test_set_before_the_engine_is_loaded_is_kept() -> None:
    config = _fresh()
    config.set("primitive_cache_capacity", 9)
    pushed: list[tuple[str, object]] = []
    config.attach(lambda setter, value: pushed.append((setter, value)))
    assert pushed == [("set_primitive_cache_capacity", 9)]


def test_what_no_engine_takes_may_change_too() -> None:
    config = _fresh()
    config.attach(lambda setter, value: pytest.fail(f"{setter} got {value}"))
    config.set("ranks", "a file")
    assert config.get("ranks") == "a file"
    with pytest.raises(ValueError, match="is read from CPUACCEL when torch is imported"):
        config.set("enabled", False)


def test_a_value_that_the_engine_rejects_is_not_set() -> None:
    def refuse(setter: str, value: object) -> None:
        raise RuntimeError("too late")

    config = _fresh()
    config.attach(refuse)
    with pytest.raises(RuntimeError, match="too late"):
        config.set("max_isa", "avx2")
    assert config.get("max_isa") == "auto"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_isa", "avx1024"),
        ("max_isa", 2),
        ("provider", "mkl"),
        ("primitive_cache_capacity", -1),
        ("primitive_cache_capacity", 2**31),
        ("primitive_cache_capacity", "12"),
        ("primitive_cache_capacity", True),
        ("primitive_cache_capacity", 1.0),
    ],
)
def test_set_rejects_bad_values(name: str, value: object) -> None:
    config = _fresh()
    option = next(option for option in config.OPTIONS if option.name == name)
    with pytest.raises(ValueError, match="expected") as raised:
        config.set(name, value)
    assert name in str(raised.value)
    assert repr(value) in str(raised.value)
    assert option.expected in str(raised.value)


def test_set_takes_no_number_for_a_switch() -> None:
    with pytest.raises(ValueError, match="value of 'teams': expected True or False, got 1"):
        _fresh().set("teams", 1)


def test_unknown_names_are_rejected() -> None:
    config = _fresh()
    with pytest.raises(ValueError, match="'speed'"):
        config.get("speed")
    with pytest.raises(ValueError, match="'speed'"):
        config.set("speed", 1)


def test_the_switch_is_not_set_here() -> None:
    with pytest.raises(ValueError, match=r"cpuaccel\.enable"):
        _fresh().set("enabled", False)


def test_every_row_is_complete() -> None:
    assert len({option.name for option in live.OPTIONS}) == len(live.OPTIONS)
    for option in live.OPTIONS:
        assert option.env
        assert option.doc.endswith(".")
        assert option.check(option.default) == option.default
        assert option.check(option.parse(live.shown(option.default))) == option.default


def test_the_engine_takes_every_value() -> None:
    with cpuaccel.enabled():
        for option in live.OPTIONS:
            before = live.get(option.name)
            for value in option.allowed:
                live.set(option.name, value)
                assert live.get(option.name) == value
            if option.setter:
                live.set(option.name, before)


def test_capacity_reaches_the_primitive_cache() -> None:
    before = live.get("primitive_cache_capacity")
    with cpuaccel.enabled():
        try:
            live.set("primitive_cache_capacity", 7)
            assert cpuaccel.stats()["primitive_cache"]["capacity"] == 7
        finally:
            live.set("primitive_cache_capacity", before)
