"""Digests of code as it is in memory: a function that was replaced has another one."""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections.abc import Collection, Iterable
from typing import Any

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def name_of(cls: type) -> str:
    """Return the name of a class, with that of its module."""
    return f"{cls.__module__}.{cls.__qualname__}"


def of_classes(
    classes: Iterable[type], known: Collection[str], error: type[Exception]
) -> list[Any]:
    """Describe the functions of classes, and those of the modules that define them.

    Code of torch and of Python itself is left out.

    Raises:
        error: a class is of a package that is not in `known`.
    """
    found: list[Any] = []
    modules: dict[str, None] = {}
    for cls in classes:
        package = cls.__module__.partition(".")[0]
        if package not in known:
            raise error(f"{name_of(cls)} is of another package than {', '.join(sorted(known))}")
        if package not in ("torch", "builtins"):
            modules[cls.__module__] = None
            found.append((name_of(cls), _functions_in(vars(cls))))
    for name in modules:
        module = sys.modules.get(name)
        found.append((name, _functions_in(vars(module)) if module is not None else None))
    return found


def _functions_in(scope: Any) -> list[tuple[str, str]]:
    found = []
    for name, value in list(scope.items()):
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if isinstance(function, types.FunctionType):
            found.append((name, of_function(function)))
    return sorted(found)


def of_function(function: types.FunctionType) -> str:
    """Return a digest of a function's code, its defaults, and the functions that it holds."""
    return digest_of(_described(function, ()))


def _described(function: types.FunctionType, outer: tuple[int, ...]) -> Any:
    held: list[Any] = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # an empty cell
            held.append(None)
    inside = (*outer, id(function))
    return (
        *(function.__module__, function.__qualname__, _of_code(function.__code__)),
        [_value(each, inside) for each in held],
    )


def _value(value: Any, outer: tuple[int, ...]) -> Any:
    if isinstance(value, _PLAIN):
        return type(value).__name__, value
    if isinstance(value, (list, tuple)):
        return [_value(each, outer) for each in value]
    if isinstance(value, types.FunctionType):
        return "itself" if id(value) in outer else _described(value, outer)
    return type(value).__qualname__


@functools.cache
def _of_code(code: types.CodeType) -> str:
    return digest_of(
        (
            *(code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_argcount),
            *map(_constant, code.co_consts),
        )
    )


def _constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return _of_code(value)
    if isinstance(value, frozenset):  # its order differs from process to process
        return sorted(map(repr, value))
    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    return value


def digest_of(value: object) -> str:
    """Return a digest of a value of builtin types."""
    return hashlib.sha256(repr(value).encode()).hexdigest()
