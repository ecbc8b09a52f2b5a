"""cpuaccel's configuration: every setting and environment variable, in one typed table.

A value is taken, in this order, from `config.set`, from the first environment variable of its row
that is set and not empty, or from the default. For an invalid environment value there is one
warning and the default is used, because nothing here may make `import torch` fail.
"""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable
from dataclasses import dataclass

Value = bool | int | str
Setter = Callable[[str, Value], None]

_TRUE = frozenset({"1", "on", "true", "yes"})
_FALSE = frozenset({"0", "off", "false", "no"})
_MAX_CAPACITY = 2**31 - 1

_ARM = ("ref", "neon", "dotprod", "i8mm", "sve", "sve256")
_X86 = ("ref", "avx2", "avx_vnni", "avx512", "avx512_vnni", "avx512_vbmi")
ISAS = _ARM if platform.machine() in ("aarch64", "arm64") else _X86
"""ISAs of this architecture, in order: a machine that has one has those before it."""


def _parse_switch(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(text)


def _parse_word(text: str) -> str:
    return text.strip().lower()


@dataclass(frozen=True)
class Option:
    """One row of the table: a setting's name, its environment variables and its valid values."""

    name: str
    env: tuple[str, ...]
    parse: Callable[[str], Value]
    default: Value
    expected: str
    doc: str
    allowed: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = _MAX_CAPACITY
    setter: str = ""
    """Name of the function of `cpuaccel._C` that takes the value; empty if there is none."""
    live: bool = False
    """Whether it may change without a setter, because it is read whenever it is needed."""

    def check(self, value: object) -> Value:
        """Return `value` if it is valid for this setting; raise ValueError otherwise."""
        # isinstance counts a bool as an int, but a bool is no capacity.
        if type(value) is type(self.default):
            if isinstance(value, bool):
                return value
            if isinstance(value, int) and self.minimum <= value <= self.maximum:
                return value
            if isinstance(value, str) and (not self.allowed or value in self.allowed):
                return value
        raise ValueError(value)


@dataclass(frozen=True)
class Setting:
    """An option with its current value, and the source of the value."""

    option: Option
    value: Value
    source: str


def _words(
    name: str, env: str, default: str, allowed: tuple[str, ...], setter: str, doc: str
) -> Option:
    expected = "one of " + ", ".join(allowed)
    return Option(name, (env,), _parse_word, default, expected, doc, allowed, setter=setter)


OPTIONS: tuple[Option, ...] = (
    Option(
        "enabled",
        ("CPUACCEL",),
        _parse_switch,
        True,
        "0 or 1",
        "Switch cpuaccel on when torch is imported.",
    ),
    Option(
        "allocator",
        ("CPUACCEL_ALLOCATOR",),
        _parse_switch,
        True,
        "0 or 1",
        "Cache large blocks of memory for reuse; this replaces torch's CPU allocator.",
    ),
    Option(
        "memory_cache_mib",
        ("CPUACCEL_MEMORY_CACHE_MIB",),
        int,
        -1,
        f"an integer from -1 to {_MAX_CAPACITY}",
        "Most MiB of freed memory to cache; -1 is half of what the machine or cgroup has.",
        minimum=-1,
        setter="set_memory_cache",
    ),
    _words(
        "max_isa",
        "CPUACCEL_MAX_ISA",
        "auto",
        ("auto", *ISAS),
        "set_max_isa",
        "Newest ISA that kernels may use; auto is what the CPU has.",
    ),
    _words(
        "provider",
        "CPUACCEL_PROVIDER",
        "auto",
        ("auto", "cpuaccel", "onednn", "fbgemm", "intree"),
        "set_provider",
        "Provider of newly packed layers; for tests and benchmarks.",
    ),
    _words(
        "matmul_provider",
        "CPUACCEL_MATMUL_PROVIDER",
        "auto",
        ("auto", "cpuaccel", "onednn", "intree"),
        "set_matmul_provider",
        "Provider of floating-point matrix products; auto uses the measured table.",
    ),
    _words(
        "fastmath",
        "CPUACCEL_FASTMATH",
        "auto",
        ("auto", "off", "emulate"),
        "set_fastmath",
        "BF16 arithmetic for fp32 models that request it; emulate rounds if the CPU has none.",
    ),
    Option(
        "deterministic",
        ("CPUACCEL_DETERMINISTIC",),
        _parse_switch,
        False,
        "0 or 1",
        "Choose kernels by tables only, never by timing.",
        setter="set_deterministic",
    ),
    Option(
        "learn",
        ("CPUACCEL_LEARN",),
        _parse_switch,
        True,
        "0 or 1",
        "Let calls learn which kernel is fastest on a CPU that nobody measured.",
        setter="set_learn",
    ),
    Option(
        "cpu",
        ("CPUACCEL_CPU",),
        str,
        "",
        "a vendor and a core, such as GenuineIntel Alder Lake",
        "Choose by tables as on another CPU; for tests.",
        setter="set_cpu",
    ),
    Option(
        "pt2e_plans",
        ("CPUACCEL_PT2E_PLANS",),
        _parse_switch,
        True,
        "0 or 1",
        "Run eager calls of what torchao's convert_pt2e returned by plans, made in the first call.",
        live=True,
    ),
    Option(
        "legacy_plans",
        ("CPUACCEL_LEGACY_PLANS",),
        _parse_switch,
        True,
        "0 or 1",
        "Run eager calls of what load_legacy returned by plans, made in the first call.",
        live=True,
    ),
    Option(
        "teams",
        ("CPUACCEL_TEAMS",),
        _parse_switch,
        True,
        "0 or 1",
        "Wake a plan's threads once for consecutive steps that run cpuaccel kernels.",
        setter="set_teams",
    ),
    Option(
        "matmul_table",
        ("CPUACCEL_MATMUL_TABLE",),
        str,
        "",
        "the path of a file",
        "This machine's table of matrix products; none: matmul.csv in the user's configuration.",
    ),
    Option(
        "ranks",
        ("CPUACCEL_RANKS",),
        str,
        "",
        "the path of a file",
        "The tuning cache; none: a file in the user's cache folder.",
        live=True,
    ),
    Option(
        "capture_cache",
        ("CPUACCEL_CAPTURE_CACHE",),
        str,
        "",
        "the path of a folder",
        "The capture cache of decoders; none: a folder in the user's cache folder.",
        live=True,
    ),
    Option(
        "capture_cache_mib",
        ("CPUACCEL_CAPTURE_CACHE_MIB",),
        int,
        256,
        f"an integer from 0 to {_MAX_CAPACITY}",
        "Most MiB of captures of decoders on disk; 0 keeps none.",
        live=True,
    ),
    Option(
        "weight_cache_mib",
        ("CPUACCEL_WEIGHT_CACHE_MIB",),
        int,
        -1,
        f"an integer from -1 to {_MAX_CAPACITY}",
        "Most MiB of cached weights in another dtype (autocast); -1 is a quarter of the memory.",
        minimum=-1,
        setter="set_weight_cache",
    ),
    Option(
        "plan_weights_mib",
        ("CPUACCEL_PLAN_WEIGHTS_MIB",),
        int,
        -1,
        f"an integer from -1 to {_MAX_CAPACITY}",
        "Most MiB of packed weights in plans; beyond, products read plain weights, which is "
        "slower. -1 is a quarter of the memory.",
        minimum=-1,
        setter="set_plan_weights",
    ),
    Option(
        "index_cache_mib",
        ("CPUACCEL_INDEX_CACHE_MIB",),
        int,
        -1,
        f"an integer from -1 to {_MAX_CAPACITY}",
        "Most MiB of cached sorted graphs; -1 is a quarter of the memory.",
        minimum=-1,
        setter="set_index_cache",
    ),
    Option(
        "primitive_cache_capacity",
        ("CPUACCEL_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"),
        int,
        1024,
        f"an integer from 0 to {_MAX_CAPACITY}",
        "Most cached oneDNN primitives, over all layers.",
        setter="set_primitive_cache_capacity",
    ),
    Option(
        "graph_cache_capacity",
        ("CPUACCEL_GRAPH_CACHE_CAPACITY",),
        int,
        1024,
        f"an integer from 0 to {_MAX_CAPACITY}",
        "Most cached plans of regions, over all models.",
        setter="set_graph_cache_capacity",
    ),
)

_BY_NAME = {option.name: option for option in OPTIONS}
_settings: dict[str, Setting] = {}
_push: Setter | None = None


def get(name: str) -> Value:
    """Return the current value of the setting `name`.

    Raises:
        ValueError: there is no such setting.
    """
    return _setting(_option("get", name)).value


def set(name: str, value: Value) -> None:
    """Give the setting `name` a new value, at once if cpuaccel._C is loaded.

    Layers that are packed already are not packed again.

    Raises:
        ValueError: there is no such setting, it is read at import only, or `value` is invalid.
        RuntimeError: cpuaccel._C can no longer change the setting.
    """
    option = _option("set", name)
    if not option.setter and not option.live:
        raise ValueError(
            f"cpuaccel.config.set: name: {name!r} is read from {option.env[0]} when torch is "
            "imported; expected a setting that can change later"
            " (for the switch, call cpuaccel.enable() or cpuaccel.disable())"
        )
    try:
        checked = option.check(value)
    except ValueError:
        expected = "True or False" if isinstance(option.default, bool) else option.expected
        raise ValueError(
            f"cpuaccel.config.set: value of {name!r}: expected {expected}, got {value!r}"
        ) from None
    if _push is not None and option.setter:
        _push(option.setter, checked)
    _settings[name] = Setting(option, checked, "config.set")


def settings() -> tuple[Setting, ...]:
    """Return every setting with its value and the source of the value, in table order."""
    return tuple(_setting(option) for option in OPTIONS)


def attach(push: Setter) -> None:
    """Pass every value that is not a default to cpuaccel._C through `push`, now and from now on.

    `push` takes the name of a function of `cpuaccel._C` and its argument.
    """
    global _push
    for setting in settings():
        # Defaults are not sent: an unneeded cap would hide newer instructions from oneDNN.
        if setting.option.setter and setting.value != setting.option.default:
            push(setting.option.setter, setting.value)
    _push = push


def shown(value: Value) -> str:
    """Return `value` as it is written in the environment."""
    return str(int(value) if isinstance(value, bool) else value)


def _option(function: str, name: str) -> Option:
    option = _BY_NAME.get(name)
    if option is None:
        names = ", ".join(_BY_NAME)
        raise ValueError(f"cpuaccel.config.{function}: name: expected one of {names}, got {name!r}")
    return option


def _setting(option: Option) -> Setting:
    setting = _settings.get(option.name)
    if setting is None:
        # Stored before the warning, which raises if warnings are errors.
        setting, problem = _from_environment(option)
        _settings[option.name] = setting
        if problem:
            warnings.warn(problem, RuntimeWarning, stacklevel=2)
    return setting


def _from_environment(option: Option) -> tuple[Setting, str]:
    for variable in option.env:
        text = os.environ.get(variable, "")
        if not text.strip():
            continue
        try:
            return Setting(option, option.check(option.parse(text)), variable), ""
        except ValueError:
            problem = (
                f"cpuaccel: environment variable {variable}: expected {option.expected}, "
                f"got {text!r}; using the default, {shown(option.default)}"
            )
            return Setting(option, option.default, f"default ({variable} is invalid)"), problem
    return Setting(option, option.default, "default"), ""
