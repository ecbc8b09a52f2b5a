"""The layers of cpuaccel, and import cycles of the whole package, read from the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PACKAGE = "cpuaccel"

_LAYERS = (
    "package",
    "frontend",
    "validate",
    "capture",
    "partition",
    "passes",
    "bridge",
    "common",
)
"""Folders of cpuaccel/compile. Each imports only from itself and from folders after it."""

_BELOW_COMPILE = ("gnn", "quant", "_prepack", "_inductor", "_ops")
"""Folders of cpuaccel that import nothing from cpuaccel/compile."""


def test_each_folder_of_compile_imports_only_from_folders_below_it() -> None:
    found = {path.parent.name for path in _ROOT.glob(f"{_PACKAGE}/compile/*/__init__.py")}
    assert found == set(_LAYERS)
    upward = [
        f"{module} imports {imported}"
        for module, imports in _imports().items()
        for imported in imports
        if _layer(module) is not None
        and _layer(imported) is not None
        and _LAYERS.index(str(_layer(imported))) < _LAYERS.index(str(_layer(module)))
    ]
    assert not upward


def test_folders_below_compile_import_nothing_from_it() -> None:
    upward = [
        f"{module} imports {imported}"
        for module, imports in _imports().items()
        for imported in imports
        if _folder(module) in _BELOW_COMPILE and _folder(imported) == "compile"
    ]
    assert not upward


def test_no_module_imports_itself_through_others() -> None:
    assert not _cycles(_imports())


def test_cycles_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": set()}
    assert _cycles(imports) == {frozenset("abc")}
    assert _cycles({"a": {"b"}, "b": set()}) == set()


def _layer(module: str) -> str | None:
    """Return the folder of cpuaccel/compile that has a module; None for other modules."""
    package, _, rest = module.partition(".compile.")
    return rest.split(".")[0] if package == _PACKAGE and rest else None


def _folder(module: str) -> str:
    """Return the folder or module of cpuaccel that has a module."""
    return module.removeprefix(f"{_PACKAGE}.").partition(".")[0]


def _imports() -> dict[str, set[str]]:
    """Return what each module of the package imports from the package.

    Imports inside of functions, and those for type checkers only, count too.
    """
    modules = {_name(path): path for path in sorted((_ROOT / _PACKAGE).rglob("*.py"))}
    return {
        module: {
            each
            for imported in _imported(path)
            if (each := _module_of(imported, modules)) not in (None, module)
        }
        for module, path in modules.items()
    }


def _name(path: Path) -> str:
    """Return the dotted name of a module."""
    parts = path.relative_to(_ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path) -> Iterator[str]:
    """Yield the names that a file imports: a.b for `import a.b`, a.b.c for `from a.b import c`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _module_of(imported: str, modules: dict[str, Path]) -> str | None:
    """Return the module that has an imported name, or is it; None outside of the package."""
    if imported in modules:
        return imported
    owner = imported.rpartition(".")[0]
    return owner if owner in modules else None


def _cycles(imports: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of modules that reach each other, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for imported in imports[module]:
            if imported not in number:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in stack:
                lowest[module] = min(lowest[module], number[imported])
        if lowest[module] == number[module]:
            members = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(members) > 1:
                found.add(frozenset(members))

    for module in imports:
        if module not in number:
            visit(module)
    return found
