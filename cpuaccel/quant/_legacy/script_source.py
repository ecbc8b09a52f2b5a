"""Finds the classes and functions of a TorchScript archive in its sources, which stay text."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

from cpuaccel.quant._legacy.errors import LegacyError

_MANGLED = re.compile(r"\.___torch_mangle_\d+")
ROOT = "__torch__"


@dataclass
class ScriptClass:
    """A class of an archive."""

    name: str
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    """Values of attributes that are the same in all objects."""


class Sources:
    """The sources of an archive, parsed when they are needed."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts
        self._classes: dict[str, ScriptClass] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        self._parsed: set[str] = set()

    def class_named(self, name: str) -> ScriptClass | None:
        """Return a class by its full name, such as `__torch__.torch.nn.modules.conv.Conv2d`."""
        self._parse(name.rpartition(".")[0])
        return self._classes.get(name)

    def function_named(self, name: str) -> ast.FunctionDef | None:
        """Return a function outside of classes, by its full name."""
        self._parse(name.rpartition(".")[0])
        return self._functions.get(name)

    def _parse(self, module: str) -> None:
        if module in self._parsed or module not in self._texts:
            return
        self._parsed.add(module)
        try:
            body = ast.parse(self._texts[module]).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise LegacyError(f"source {module} is damaged: {error}") from error
        for node in body:
            if isinstance(node, ast.FunctionDef):
                self._functions[f"{module}.{node.name}"] = node
            elif isinstance(node, ast.ClassDef):
                self._classes[f"{module}.{node.name}"] = _class(f"{module}.{node.name}", node)


def _class(name: str, node: ast.ClassDef) -> ScriptClass:
    found = ScriptClass(name)
    for each in node.body:
        if isinstance(each, ast.FunctionDef):
            found.methods[each.name] = each
        elif isinstance(each, ast.AnnAssign) and each.value and isinstance(each.target, ast.Name):
            found.constants[each.target.id] = each.value
    return found


def plain_name(name: str) -> str:
    """Return the name of a class as Python has it, without what TorchScript adds."""
    return _MANGLED.sub("", name).removeprefix(f"{ROOT}.")


def is_script(made_by: Any) -> bool:
    """Return whether a global is a class of an archive."""
    return f"{made_by.module}.".startswith(f"{ROOT}.")
