"""Reads the source of a GraphModule's forward, which is in its pickle, into a graph.

The source is parsed and never executed. Only calls of the functions, methods and modules in
`torch_names` become nodes.
"""

from __future__ import annotations

import ast
import math
import operator
from typing import Any

import torch
from torch.fx import Node

from cpuaccel.quant._legacy import torch_names
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.graphs import FileModel
from cpuaccel.quant._legacy.modules import Part, built
from cpuaccel.quant._legacy.quantized_ops import QUANTIZE, QUANTIZED_OPS
from cpuaccel.quant._legacy.values import DTYPES

_MAX_SOURCE = 16 << 20
_SELF = "self"

_BINARY: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
}
_IN_PLACE: dict[type[ast.operator], Any] = {
    ast.Add: operator.iadd,
    ast.Sub: operator.isub,
    ast.Mult: operator.imul,
    ast.Div: operator.itruediv,
}
_COMPARED: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC = frozenset([*_BINARY.values(), *_IN_PLACE.values(), *_COMPARED.values()])
_CONSTANTS = {"inf": math.inf, "nan": math.nan}


class _Path(str):
    """A dotted name of one of the model's modules or of torch, such as `torch.nn.functional`."""


def graph_of(part: Part) -> FileModel:
    """Return the graph of a GraphModule of a file.

    Raises:
        LegacyError: its source is damaged, or names what is not in `torch_names`.
    """
    if part.code is None or len(part.code) > _MAX_SOURCE:
        raise LegacyError("the GraphModule has no source of its forward, or one of over 16 MB")
    model = FileModel()
    _Reader(part, model).read(_parsed(part.code))
    return model


def _parsed(source: str) -> ast.FunctionDef:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LegacyError(f"the source of its forward is damaged: {error}") from error
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise LegacyError("the source of its forward is not one function")
    return body[0]


class _Reader:
    def __init__(self, part: Part, model: FileModel) -> None:
        self._part = part
        self._parts = {each.path: each for each in part.parts().values()}
        self._prefix = f"{part.path}." if part.path else ""
        self._model = model
        self._names: dict[str, Any] = {}
        self._imports = _imported(part.imports)

    def read(self, forward: ast.FunctionDef) -> None:
        arguments = forward.args
        if arguments.vararg or arguments.kwarg or arguments.posonlyargs or arguments.kwonlyargs:
            raise LegacyError("its forward has variable or keyword-only arguments")
        names = [each.arg for each in arguments.args]
        if not names or names[0] != _SELF or forward.decorator_list:
            raise LegacyError("the source of its forward is not a method")
        defaults = [self._expression(each) for each in arguments.defaults]
        for index, name in enumerate(names[1:], 1):
            given = index - (len(names) - len(defaults))
            default = defaults[given : given + 1] if given >= 0 else []
            self._names[name] = (
                self._model.graph.placeholder(name, default_value=default[0])
                if default
                else self._model.graph.placeholder(name)
            )
        for statement in forward.body:
            if isinstance(statement, ast.Return):
                value = None if statement.value is None else self._value(statement.value)
                self._model.graph.output(value)
                return
            self._statement(statement)
        raise LegacyError("its forward returns nothing")

    # Statements

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assign):
            value = self._value(statement.value)
            for target in statement.targets:
                self._assign(target, value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._assign(statement.target, self._value(statement.value))
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            run = _IN_PLACE.get(type(statement.op))
            if run is None:
                raise self._unknown(statement)
            before = self._names.get(statement.target.id)
            value = self._call_function(run, (before, self._value(statement.value)), {})
            self._names[statement.target.id] = value
        elif isinstance(statement, ast.Expr):
            self._value(statement.value)
        elif not isinstance(statement, ast.Pass):
            raise self._unknown(statement)

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for index, each in enumerate(target.elts):
                self._assign(each, self._item(value, index))
        else:
            raise self._unknown(target)

    # Expressions

    def _value(self, expression: ast.expr) -> Any:
        """Return the value of an expression, which is not the name of a module or function."""
        value = self._expression(expression)
        if isinstance(value, _Path):
            dtype = value.removeprefix("torch.")
            if value.startswith("torch.") and dtype in DTYPES:
                return DTYPES[dtype]
            if value in ("torch.contiguous_format", "torch.channels_last", "torch.preserve_format"):
                return getattr(torch, dtype)
            if value.startswith(f"{_SELF}."):
                return self._attribute(value)
            raise LegacyError(f"its forward names {value}, which is not a value")
        return value

    def _expression(self, expression: ast.expr) -> Any:
        if isinstance(expression, ast.Constant):
            return expression.value
        if isinstance(expression, ast.Name):
            return self._name(expression.id)
        if isinstance(expression, ast.Attribute):
            return self._member(self._expression(expression.value), expression.attr)
        if isinstance(expression, ast.Call):
            return self._call(expression)
        if isinstance(expression, (ast.Tuple, ast.List)):
            made = [self._value(each) for each in expression.elts]
            return tuple(made) if isinstance(expression, ast.Tuple) else made
        if isinstance(expression, ast.Dict) and None not in expression.keys:
            keys = [self._value(each) for each in expression.keys if each is not None]
            return dict(zip(keys, map(self._value, expression.values), strict=True))
        if isinstance(expression, ast.Subscript):
            return self._item(self._value(expression.value), self._index(expression.slice))
        if isinstance(expression, ast.Slice):
            return self._index(expression)
        return self._arithmetic(expression)

    def _arithmetic(self, expression: ast.expr) -> Any:
        if isinstance(expression, ast.BinOp) and type(expression.op) in _BINARY:
            operands = self._value(expression.left), self._value(expression.right)
            return self._call_function(_BINARY[type(expression.op)], operands, {})
        if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub):
            value = self._value(expression.operand)
            return (
                -value
                if isinstance(value, (int, float))
                else self._call_function(operator.neg, (value,), {})
            )
        if isinstance(expression, ast.Compare) and len(expression.ops) == 1:
            run = _COMPARED.get(type(expression.ops[0]))
            if run is not None:
                operands = self._value(expression.left), self._value(expression.comparators[0])
                return self._call_function(run, operands, {})
        raise self._unknown(expression)

    def _name(self, name: str) -> Any:
        if name in self._names:
            return self._names[name]
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        return _Path(self._imports.get(name, name))

    def _member(self, owner: Any, name: str) -> Any:
        if isinstance(owner, _Path):
            return _Path(f"{owner}.{name}")
        if name not in torch_names.ATTRIBUTES:
            raise LegacyError(f"its forward reads attribute {name!r} of a value")
        return self._call_function(getattr, (owner, name), {})

    def _index(self, index: ast.expr) -> Any:
        if isinstance(index, ast.Slice):
            bounds = (index.lower, index.upper, index.step)
            return slice(*(None if each is None else self._value(each) for each in bounds))
        if isinstance(index, ast.Tuple):
            return tuple(self._index(each) for each in index.elts)
        return self._value(index)

    def _item(self, value: Any, index: Any) -> Any:
        if isinstance(value, Node):
            return self._model.graph.call_function(operator.getitem, (value, index))
        if isinstance(value, (tuple, list, dict)) and not isinstance(index, (Node, tuple)):
            try:
                return value[index]
            except (IndexError, KeyError, TypeError) as error:
                raise LegacyError(f"its forward reads item {index!r}: {error}") from error
        raise LegacyError("its forward reads an item of what has none")

    # Calls

    def _call(self, call: ast.Call) -> Any:
        if isinstance(call.func, ast.Name) and call.func.id == "getattr":
            return self._getattr(call)
        args = tuple(self._value(each) for each in call.args if not isinstance(each, ast.Starred))
        kwargs = {each.arg: self._value(each.value) for each in call.keywords if each.arg}
        if len(args) != len(call.args) or len(kwargs) != len(call.keywords):
            raise LegacyError("its forward unpacks arguments")
        if isinstance(call.func, ast.Attribute):
            owner = self._expression(call.func.value)
            if not isinstance(owner, _Path):
                return self._call_method(owner, call.func.attr, args, kwargs)
            return self._call_path(_Path(f"{owner}.{call.func.attr}"), args, kwargs)
        path = self._expression(call.func)
        if not isinstance(path, _Path):
            raise LegacyError("its forward calls a value")
        return self._call_path(path, args, kwargs)

    def _getattr(self, call: ast.Call) -> Any:
        """`getattr(self.layer1, "0")` is how torch.fx writes names that are numbers."""
        if len(call.args) != 2 or call.keywords:
            raise self._unknown(call)
        name = self._value(call.args[1])
        if not isinstance(name, str):
            raise self._unknown(call)
        return self._member(self._expression(call.args[0]), name)

    def _call_method(self, owner: Any, name: str, args: Any, kwargs: Any) -> Node:
        if name not in torch_names.METHODS:
            raise LegacyError(
                f"its forward calls method {name!r} of a tensor, which is not on the list of"
                " cpuaccel.quant.load_legacy"
            )
        return self._model.graph.call_method(name, (owner, *args), kwargs)

    def _call_path(self, path: _Path, args: Any, kwargs: Any) -> Any:
        if path.startswith(f"{_SELF}."):
            return self._call_module(path.removeprefix(f"{_SELF}."), args, kwargs)
        if path in ("torch.quantize_per_tensor", "torch.ops.aten.quantize_per_tensor"):
            return self._call_function(QUANTIZE, args, kwargs)
        if path == "torch.dequantize":
            return self._call_method(args[0], "dequantize", (), {})
        if path == "torchvision.ops.stochastic_depth.stochastic_depth" and args:
            return args[0]  # evaluation mode: convert_fx traced training=False
        name = path.removeprefix("torch.ops.quantized.")
        if name != path and name in QUANTIZED_OPS:
            return self._call_function(QUANTIZED_OPS[name], args, kwargs)
        run = torch_names.function(path)
        if run is None:
            raise LegacyError(
                f"its forward calls {path}, which is not on the list of functions of"
                " cpuaccel.quant.load_legacy"
            )
        return self._call_function(run, args, kwargs)

    def _call_function(self, run: Any, args: Any, kwargs: Any) -> Node:
        if run in _ARITHMETIC and not any(isinstance(each, Node) for each in args):
            raise LegacyError("its forward computes numbers, which a graph of torch.fx does not")
        return self._model.graph.call_function(run, args, kwargs)

    def _call_module(self, path: str, args: Any, kwargs: Any) -> Any:
        part = self._parts.get(self._prefix + path)
        if part is None:
            raise LegacyError(f"its forward calls module {path}, which the file does not have")
        if part.code is not None:
            raise LegacyError(f"module {path} is a GraphModule inside of a GraphModule")
        module = built(part)
        if module is None:
            raise LegacyError(
                f"its forward calls module {path} of class {part.made_by}, which"
                " cpuaccel.quant.load_legacy does not know"
            )
        return self._model.call(path, module, args, kwargs)

    def _attribute(self, path: str) -> Any:
        owner, _, name = path.removeprefix(f"{_SELF}.").rpartition(".")
        part = self._parts.get((self._prefix + owner).rstrip(".") if owner else self._part.path)
        if part is None or name not in part.attributes:
            raise LegacyError(f"its forward reads {path}, which the file does not have")
        return self._model.get_constant(f"{owner}.{name}" if owner else name, part.attributes[name])

    def _unknown(self, node: ast.AST) -> LegacyError:
        return LegacyError(
            f"its forward has {type(node).__name__} in line {getattr(node, 'lineno', 0)},"
            " which a graph of torch.fx does not have"
        )


def _imported(source: str) -> dict[str, str]:
    """Return the full names of what the imports of a GraphModule give other names."""
    found: dict[str, str] = {}
    try:
        body = ast.parse(source[:_MAX_SOURCE]).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LegacyError(f"the imports of its forward are damaged: {error}") from error
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    found[alias.asname] = alias.name
    return found
