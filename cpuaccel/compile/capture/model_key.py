"""The key of a model's captures on disk: a digest of everything that they depend on.

These are the structure of the model, the code that runs (by files and as it is in memory, because
either may have been changed), versions, settings and the CPU. Numbers in weights decide nothing
in a capture, but the comparison with the model: so samples of each tensor are part of the key.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import platform
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel import _native, _transformers_names, _tuning_cache, config
from cpuaccel._compat import is_traceable_wrapper_subclass
from cpuaccel._inductor import keys
from cpuaccel.compile.capture import code_key

_PACKAGES = (_transformers_names.PACKAGE, "torchao")
"""Packages whose files are part of the key, if the model has objects of them. Of torch, the version
is."""

_KNOWN = frozenset({"torch", "cpuaccel", "builtins", "huggingface_hub", *_PACKAGES})
"""Packages of the classes that a model may have."""

_UNREAD = frozenset(
    {"_modules", "_parameters", "_buffers", "generation_config"}
    | {"_compiled_call_impl", "_is_torch_compile"}
)
"""Attributes of modules that are described otherwise, or that no forward reads."""

_HOOKS_OF_STATE = ("_state_dict", "_load_state_dict", "_backward")

_WITHOUT_EFFECT = frozenset(
    {"capture_cache", "capture_cache_mib", "ranks", "allocator", "memory_cache_mib"}
    | {"weight_cache_mib", "index_cache_mib"}
)
"""Settings that change no capture."""

_WHOLE = 1 << 12
"""Most numbers of a tensor that are all part of the key; of larger ones, samples are."""
_SAMPLES = 64
_DEPTH = 16


class NoKey(Exception):
    """A model has no key. The message says why."""


def key_of(model: nn.Module, *facts: object) -> str:
    """Return the key of the captures of a model; `facts` are others that they depend on.

    Raises:
        NoKey: something of the model cannot be described.
    """
    described = _Description(model)
    digest = hashlib.sha256()
    for each in (*facts, *_surroundings(), *described.lines(), *described.packages()):
        digest.update(repr(each).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _surroundings() -> list[Any]:
    """Return what captures depend on beside the model."""
    native = _native.load()
    folder = Path(__file__).resolve().parents[2]
    settings = [
        (each.option.name, each.value)
        for each in config.settings()
        if each.option.name not in _WITHOUT_EFFECT
    ]
    return [
        *(sys.version, torch.__version__, torch.version.git_version),
        *(keys.sources(folder), _stamps(folder, (".so", ".3"))),
        *(platform.machine(), native.isa(), native.cpu_vendor(), sorted(native.cpu_features())),
        *(_tuning_cache.cpu_name(), torch.get_num_threads(), settings, native.fastmath_asked()),
        *(torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()),
        *(torch.is_autocast_enabled("cpu"), torch.backends.mkldnn.enabled),
    ]


def _package(name: str) -> str:
    """Return the version of a package, and a digest of its files."""
    found: Any = sys.modules[name]
    version = str(getattr(found, "__version__", ""))
    return f"{version} {_stamps(Path(found.__file__).parent, ('.py', '.so'))}"


@functools.cache
def _stamps(folder: Path, suffixes: tuple[str, ...]) -> str:
    """Return a digest of the names, sizes and times of the files of a package."""
    files = sorted(each for each in folder.rglob("*") if each.suffix in suffixes)
    digest = hashlib.sha256()
    for path in files:
        stat = path.stat()
        text = f"{path.relative_to(folder)} {stat.st_size} {stat.st_mtime_ns}\n"
        digest.update(text.encode())
    return digest.hexdigest()


class _Description:
    def __init__(self, model: nn.Module) -> None:
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._model = model
        self._described: dict[int, Any] = {}
        self._names: set[str] = set()

    def packages(self) -> Iterable[Any]:
        """Describe the packages of the objects that were described."""
        used = {name.partition(".")[0] for name in self._names}
        return [(name, _package(name)) for name in _PACKAGES if name in used]

    def _name_of(self, cls: type) -> str:
        name = code_key.name_of(cls)
        self._names.add(name)
        return name

    def lines(self) -> Iterable[Any]:
        """Describe each module of the model, and the code of their classes."""
        classes: dict[type, None] = {}
        for path, module in self._model.named_modules(remove_duplicate=False):
            held = vars(module)
            if "forward" in held:
                raise NoKey(f"{path or 'the model'} has a forward of its own")
            classes.update(dict.fromkeys(type(module).__mro__))
            yield path, self._paths[id(module)], self._name_of(type(module))
            for name, value in held.items():
                if name not in _UNREAD and not name.startswith(_HOOKS_OF_STATE):
                    yield name, self.of(value)
            for named in (module._parameters, module._buffers):
                yield [(name, self._tensor(each)) for name, each in named.items()]
        yield code_key.of_classes(classes, _KNOWN, NoKey)

    def of(self, value: Any, depth: int = 0) -> Any:
        """Return values of builtin types that differ if `value` does."""
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            return type(value).__name__, value
        if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            return str(value)
        if depth > _DEPTH:
            raise NoKey("an attribute that holds itself, or is nested deeply")
        kind = self._name_of(type(value))
        if isinstance(value, enum.Enum):
            return kind, value.name
        if isinstance(value, dict):
            pairs = [(self.of(k, depth + 1), self.of(v, depth + 1)) for k, v in value.items()]
            return kind, pairs
        if isinstance(value, (set, frozenset)):
            return kind, sorted(repr(self.of(each, depth + 1)) for each in value)
        if isinstance(value, (list, tuple)):
            return kind, [self.of(each, depth + 1) for each in value]
        if isinstance(value, Tensor):
            return kind, self._tensor(value)
        if isinstance(value, nn.Module):
            if id(value) not in self._paths:
                raise NoKey(f"an attribute holds a {kind} from outside of the model")
            return kind, self._paths[id(value)]
        if isinstance(value, type):
            return self._name_of(value)
        if isinstance(value, functools.partial):
            parts = value.func, value.args, value.keywords
            return kind, [self.of(each, depth + 1) for each in parts]
        if isinstance(value, types.MethodType):
            return kind, [self.of(each, depth + 1) for each in (value.__func__, value.__self__)]
        if isinstance(value, types.FunctionType):
            return code_key.of_function(value)
        if isinstance(value, types.BuiltinFunctionType):
            return kind, value.__module__, value.__qualname__
        return kind, self._object(value, kind, depth)

    def _object(self, value: Any, kind: str, depth: int) -> Any:
        if id(value) not in self._described:
            if kind.partition(".")[0] not in _PACKAGES:
                raise NoKey(f"an attribute is a {kind}")
            held = {**getattr(value, "__dict__", {})}
            if dataclasses.is_dataclass(value):
                held |= {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
            if not held:
                raise NoKey(f"an attribute is a {kind}")
            self._described[id(value)] = self.of(held, depth + 1)
        return self._described[id(value)]

    def _tensor(self, value: Tensor | None) -> Any:
        if value is None:
            return None
        kind = (
            *(self._name_of(type(value)), str(value.dtype), tuple(value.shape)),
            *(value.layout, value.device.type, value.requires_grad),
        )
        if is_traceable_wrapper_subclass(value):
            tensor: Any = value
            names, context = tensor.__tensor_flatten__()
            return kind, self.of(context), [(n, self._tensor(getattr(value, n))) for n in names]
        if value.layout is not torch.strided or value.device.type != "cpu" or value.is_quantized:
            raise NoKey(f"a tensor of layout {value.layout} on {value.device}")
        return kind, value.stride(), _numbers(value)


def _numbers(tensor: Tensor) -> str:
    """Return a digest of a tensor's numbers, or of samples of them."""
    with torch.no_grad():
        flat = tensor.detach().flatten()
        if flat.numel() > _WHOLE:
            flat = flat[:: flat.numel() // _SAMPLES]
        plain = flat.contiguous().view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(plain).hexdigest()
