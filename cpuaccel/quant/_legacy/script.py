"""Reads a TorchScript archive into a graph, without torch.jit and without executing its code.

The forward of the archive is followed statement by statement. What depends on numbers and on
attributes of modules is computed on the way; ops on tensors become nodes. Code that branches on
values of tensors has no graph and is rejected.
"""

from __future__ import annotations

import ast
import operator
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from cpuaccel.quant._legacy import script_ops
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.graphs import FileModel
from cpuaccel.quant._legacy.packed import Cell, convolution, linear
from cpuaccel.quant._legacy.quantized_ops import QUANTIZE, QUANTIZED_OPS
from cpuaccel.quant._legacy.recurrent import GRU, LSTM, GRUCell, LSTMCell
from cpuaccel.quant._legacy.script_objects import Instance, Objects
from cpuaccel.quant._legacy.script_source import Sources
from cpuaccel.quant._lowering.integers import Convolution, IntegerTensor, UnpackedLayer

_MAX_STATEMENTS = 1_000_000
_MAX_DEPTH = 100
_CONSTANTS = "CONSTANTS"
_ROOTS = ("torch", "ops", "__torch__", _CONSTANTS)
_ARGUMENTS = (Node, bool, int, float, str, torch.dtype)
_WEIGHTS = (Tensor, IntegerTensor, UnpackedLayer, Cell)


class _Path(str):
    """A dotted name: of an op, a function or a class."""


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class ScriptReader:
    """Follows the code of an archive and writes a graph."""

    def __init__(self, sources: Sources, objects: Objects, constants: Any) -> None:
        self.model = FileModel()
        self._sources = sources
        self._objects = objects
        self._constants = constants
        self._nodes: dict[int, tuple[Any, Node]] = {}
        self._statements = 0
        self._depth = 0

    def read(self, described: Any) -> FileModel:
        """Return the graph of the forward of a described object."""
        instance = self._objects.value(described)
        if not isinstance(instance, Instance):
            raise LegacyError("it holds no module")
        for each in self._objects.with_state:
            self._call_method(each, "__setstate__", [each.state], {})
        forward = instance.cls.methods.get("forward")
        if forward is None:
            raise LegacyError(f"class {instance.cls.name} has no forward")
        defaults = self._defaults(forward)
        # A graph is for calls with the required arguments only: the code branches on the others.
        values = [
            defaults[name] if name in defaults else self.model.graph.placeholder(name)
            for name in (each.arg for each in forward.args.args[1:])
        ]
        self.model.graph.output(self._argument(self._run(forward, [instance, *values], {})))
        _drop_checks(self.model.graph)
        return self.model

    def _defaults(self, function: ast.FunctionDef) -> dict[str, Any]:
        named = function.args.args[len(function.args.args) - len(function.args.defaults) :]
        pairs = zip(named, function.args.defaults, strict=True)
        return {each.arg: self._value(default, {}) for each, default in pairs}

    # Calls and statements

    def _run(self, function: ast.FunctionDef, args: list[Any], kwargs: dict[str, Any]) -> Any:
        names = self._defaults(function)
        parameters = [each.arg for each in function.args.args]
        if len(args) > len(parameters):
            raise LegacyError(f"{function.name} is called with {len(args)} arguments")
        names |= dict(zip(parameters, args, strict=False)) | kwargs
        if any(each not in names for each in parameters):
            raise LegacyError(f"{function.name} is called with too few arguments")
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise LegacyError(f"its functions call each other more than {_MAX_DEPTH} deep")
        try:
            self._block(function.body, names)
        except _Returned as returned:
            return returned.value
        finally:
            self._depth -= 1
        return None

    def _block(self, statements: list[ast.stmt], names: dict[str, Any]) -> None:
        for statement in statements:
            self._statements += 1
            if self._statements > _MAX_STATEMENTS:
                raise LegacyError(f"its code runs more than {_MAX_STATEMENTS} statements")
            self._statement(statement, names)

    def _statement(self, statement: ast.stmt, names: dict[str, Any]) -> None:
        if isinstance(statement, ast.Assign):
            value = self._value(statement.value, names)
            for target in statement.targets:
                self._assign(target, value, names)
        elif isinstance(statement, ast.Return):
            value = None if statement.value is None else self._value(statement.value, names)
            raise _Returned(value)
        elif isinstance(statement, ast.If):
            self._if(statement, names)
        elif isinstance(statement, ast.For):
            self._for(statement, names)
        elif isinstance(statement, ast.Expr):
            self._value(statement.value, names)
        elif not isinstance(statement, ast.Pass):
            raise _unknown(statement)

    def _assign(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, Node) and len(_items(value)) != len(target.elts):
                raise LegacyError(f"line {target.lineno} of its code unpacks other items")
            for index, each in enumerate(target.elts):
                self._assign(each, self._item(value, index), names)
        elif isinstance(target, ast.Attribute):
            owner = self._value(target.value, names)
            if not isinstance(owner, Instance):
                raise _unknown(target)
            owner.attributes[target.attr] = value
        else:
            raise _unknown(target)

    def _if(self, statement: ast.If, names: dict[str, Any]) -> None:
        condition = self._value(statement.test, names)
        if not isinstance(condition, (Node, Tensor)):
            self._block(statement.body if condition else statement.orelse, names)
        elif _raises(statement.body):
            self._block(statement.orelse, names)  # a check of the input
        elif _raises(statement.orelse):
            self._block(statement.body, names)
        else:
            raise LegacyError(
                f"line {statement.lineno} of its code branches on values or sizes of tensors:"
                " save the model with torch.jit.trace, or pass a torch.save file of it"
            )

    def _for(self, statement: ast.For, names: dict[str, Any]) -> None:
        for each in _items(self._value(statement.iter, names)):
            self._assign(statement.target, each, names)
            self._block(statement.body, names)

    # Expressions

    def _value(self, expression: ast.expr, names: dict[str, Any]) -> Any:
        if isinstance(expression, ast.Constant):
            return expression.value
        if isinstance(expression, ast.Name):
            return self._name(expression, names)
        if isinstance(expression, ast.Attribute):
            return self._member(self._value(expression.value, names), expression.attr)
        if isinstance(expression, ast.Call):
            return self._call(expression, names)
        if isinstance(expression, ast.Tuple):
            return tuple(self._value(each, names) for each in expression.elts)
        if isinstance(expression, ast.List):
            return [self._value(each, names) for each in expression.elts]
        if isinstance(expression, ast.Dict) and None not in expression.keys:
            keys = [self._value(each, names) for each in expression.keys if each is not None]
            values = [self._value(each, names) for each in expression.values]
            return dict(zip(keys, values, strict=True))
        if isinstance(expression, ast.Subscript):
            index = self._value(expression.slice, names)
            return self._item(self._value(expression.value, names), index)
        if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub):
            return -self._number(expression.operand, names)
        if isinstance(expression, ast.IfExp):
            condition = self._value(expression.test, names)
            if not isinstance(condition, (Node, Tensor)):
                return self._value(expression.body if condition else expression.orelse, names)
        raise _unknown(expression)

    def _number(self, expression: ast.expr, names: dict[str, Any]) -> Any:
        value = self._value(expression, names)
        if not isinstance(value, (int, float)):
            raise _unknown(expression)
        return value

    def _name(self, expression: ast.Name, names: dict[str, Any]) -> Any:
        if expression.id in names:
            return names[expression.id]
        if expression.id in ("inf", "nan"):
            return float(expression.id)
        if expression.id in _ROOTS:
            return _Path(expression.id)
        raise LegacyError(f"line {expression.lineno} of its code reads unknown {expression.id!r}")

    def _member(self, owner: Any, name: str) -> Any:
        if isinstance(owner, _Path):
            if owner == _CONSTANTS:
                return self._constant(name)
            return _Path(f"{owner}.{name}")
        if isinstance(owner, Instance):
            if name in owner.attributes:
                return owner.attributes[name]
            if name in owner.cls.constants:
                return self._value(owner.cls.constants[name], {})
            raise LegacyError(f"{owner.path or 'its module'} has no attribute {name!r}")
        raise LegacyError(f"its code reads attribute {name!r} of a {type(owner).__name__}")

    def _constant(self, name: str) -> Any:
        number = name.removeprefix("c")
        table = self._constants
        if not number.isdecimal() or not isinstance(table, tuple) or int(number) >= len(table):
            raise LegacyError(f"constant {name} is missing: the file is damaged")
        return self._objects.value(table[int(number)], f"constant_{number}")

    def _item(self, value: Any, index: Any) -> Any:
        if isinstance(value, Node) or isinstance(index, Node):
            return self._node(operator.getitem, (value, index), {})
        try:
            return _items(value)[index] if not isinstance(value, dict) else value[index]
        except (IndexError, KeyError, TypeError) as error:
            raise LegacyError(f"its code reads item {index!r}: {error}") from error

    # Calls

    def _call(self, call: ast.Call, names: dict[str, Any]) -> Any:
        if isinstance(call.func, ast.Name) and call.func.id not in names:
            return self._call_builtin(call.func.id, call, names)
        args = [self._value(each, names) for each in call.args]
        kwargs = {str(each.arg): self._value(each.value, names) for each in call.keywords}
        if isinstance(call.func, ast.Attribute):
            owner = self._value(call.func.value, names)
            if isinstance(owner, Instance):
                return self._call_method(owner, call.func.attr, args, kwargs)
            if isinstance(owner, _Path):
                return self._call_path(f"{owner}.{call.func.attr}", args, kwargs)
        function = self._value(call.func, names)
        if isinstance(function, _Path):
            return self._call_path(function, args, kwargs)
        raise _unknown(call)

    def _call_builtin(self, name: str, call: ast.Call, names: dict[str, Any]) -> Any:
        if name in ("annotate", "unchecked_cast") and len(call.args) == 2:
            kind = call.args[0].id if isinstance(call.args[0], ast.Name) else ""
            return _cast(kind, self._value(call.args[1], names))
        if name == "uninitialized":
            return None
        args = [self._value(each, names) for each in call.args]
        if name in ("int", "float", "bool", "str") and len(args) == 1:
            return _cast(name, args[0])
        if name == "getattr" and len(args) == 2 and isinstance(args[1], str):
            return self._member(*args)
        if name == "range" and all(isinstance(each, int) for each in args):
            return range(*args)
        raise LegacyError(f"line {call.lineno} of its code calls {name}, which is not known")

    def _call_method(
        self, owner: Instance, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        method = owner.cls.methods.get(name)
        if method is None:
            raise LegacyError(f"class {owner.cls.name} has no method {name}")
        return self._run(method, [owner, *args], kwargs)

    def _call_path(self, path: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if path.startswith("__torch__."):
            function = self._sources.function_named(path)
            if function is None:
                raise LegacyError(f"its code calls {path}, which the file does not have")
            return self._run(function, args, kwargs)
        owner, _, name = path.rpartition(".")
        if owner == "ops.prim":
            return self._call_prim(name, args)
        if owner == "ops.quantized":
            return self._call_quantized(name, args, kwargs)
        if owner == "torch":
            return self._call_torch(name, args, kwargs)
        raise LegacyError(f"its code calls {path}, which is not known")

    def _call_prim(self, name: str, args: list[Any]) -> Any:
        if name == "RaiseException":
            raise LegacyError(f"its code raises an error for every input: {args[0]!r}")
        if name in ("dtype", "device", "is_quantized") and isinstance(args[0], (Node, Tensor)):
            return self._node(getattr, (args[0], name), {})
        if name in ("data", "NumToTensor", "unchecked_unwrap_optional"):
            return args[0]
        if name in ("min", "max") and not _has_nodes(args):
            return (min if name == "min" else max)(*args)
        raise LegacyError(f"its code calls prim::{name}, which is not known")

    def _call_torch(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name == "quantize_per_tensor":
            return self._node(QUANTIZE, (*args[:3], script_ops.dtype_of(args[3])), {})
        if name in ("quantized_lstm", "quantized_gru"):
            return self._recurrent(name, args)
        is_number = name in script_ops.NUMBERS
        if is_number and not _has_nodes(args) and not _has_tensors(args):
            try:
                return script_ops.on_numbers(name, args)
            except (TypeError, ValueError, ArithmeticError, LookupError) as error:
                raise LegacyError(f"its code computes {name}: {error}") from error
        if name == "append" and isinstance(args[0], list):
            return script_ops.on_numbers(name, args)
        if name in ("__is__", "__isnot__"):
            return (args[0] is args[1]) == (name == "__is__")
        if name in ("format", "list", "device"):
            return args[0]
        translate = script_ops.TENSORS.get(name)
        if translate is None:
            raise LegacyError(
                f"its code calls aten::{name}, which is not on the list of"
                " cpuaccel.quant.load_legacy"
            )
        try:
            called, new_args, new_kwargs = translate(*args, **kwargs)
        except (TypeError, IndexError) as error:
            raise LegacyError(f"its code calls aten::{name} with other arguments") from error
        return self._node(called, new_args, new_kwargs)

    def _call_quantized(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name == "linear_prepack" or name == "linear_prepack_fp16":
            return linear(*args)
        if name.startswith("conv") and name.endswith("_prepack"):
            return _prepacked(name, args)
        if name == "embedding_bag_prepack" and isinstance(args[0], IntegerTensor):
            return args[0]
        if name == "embedding_byte":
            return self._node(QUANTIZED_OPS[name], tuple(args[:2]), {})
        if name in ("quantized_lstm_cell_dynamic", "quantized_gru_cell_dynamic"):
            return self._recurrent_cell(name, args)
        if name not in QUANTIZED_OPS:
            raise LegacyError(f"its code calls quantized::{name}, which is not known")
        return self._node(QUANTIZED_OPS[name], tuple(args), kwargs)

    def _recurrent(self, name: str, args: list[Any]) -> Any:
        if len(args) < 9 or not isinstance(args[2], list):
            raise LegacyError(f"{name} of packed sequences is not supported: pad them")
        input, state, cells, _biases, num_layers, _dropout, _train, directions, first = args[:9]
        shape = int(num_layers), bool(directions), bool(first)
        if name == "quantized_gru":
            return self._call_module(GRU(cells, *shape), name, (input, state), 2)
        output, states = self._call_module(LSTM(cells, *shape), name, (input, tuple(state)), 2)
        return output, self._item(states, 0), self._item(states, 1)

    def _recurrent_cell(self, name: str, args: list[Any]) -> Any:
        if not all(isinstance(each, UnpackedLayer) for each in args[2:4]):
            raise LegacyError(f"damaged {name}: its packed weights are missing")
        cell = Cell(args[2], args[3], reduce_range=True)
        if name == "quantized_gru_cell_dynamic":
            return self._call_module(GRUCell(cell), name, (args[0], args[1]), 0)
        return self._call_module(LSTMCell(cell), name, (args[0], tuple(args[1])), 2)

    # Nodes

    def _call_module(self, module: Any, name: str, args: Any, results: int) -> Any:
        path = f"{name}_{len(self.model.modules)}"
        node = self.model.call(path, module, self._argument(args), {})
        return tuple(self._item(node, i) for i in range(results)) if results else node

    def _node(self, called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        args, kwargs = self._argument(args), self._argument(kwargs)
        if isinstance(called, str):
            return self.model.graph.call_method(called, args, kwargs)
        return self.model.graph.call_function(called, args, kwargs)

    def _argument(self, value: Any) -> Any:
        """Return a value as an argument of a node: weights become constants of the graph."""
        if isinstance(value, tuple):
            return tuple(self._argument(each) for each in value)
        if isinstance(value, list):
            return [self._argument(each) for each in value]
        if isinstance(value, dict):
            return {key: self._argument(each) for key, each in value.items()}
        if isinstance(value, slice):
            return slice(*map(self._argument, (value.start, value.stop, value.step)))
        if isinstance(value, _WEIGHTS):
            known = self._nodes.get(id(value))
            if known is None:
                path = f"constant_{len(self._nodes)}"
                known = self._nodes[id(value)] = value, self.model.get_constant(path, value)
            return known[1]
        if value is not None and (isinstance(value, _Path) or not isinstance(value, _ARGUMENTS)):
            raise LegacyError(f"its code passes a {type(value).__name__} to an op")
        return value


def _unknown(node: Any) -> LegacyError:
    return LegacyError(
        f"line {node.lineno} of its code has {type(node).__name__}, which"
        " cpuaccel.quant.load_legacy does not know"
    )


def _drop_checks(graph: Graph) -> None:
    """Erase nodes that only read sizes and the like for checks of the input."""
    pure = {getattr, *script_ops.NUMBERS.values(), "size", "dim", "numel"}
    for node in reversed(graph.nodes):
        if not node.users and (node.op == "get_attr" or node.target in pure):
            graph.erase_node(node)


def _raises(statements: list[ast.stmt]) -> bool:
    """Return whether a block raises an exception, after it has made the message."""
    return any(
        isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Call)
        and ast.unparse(each.value.func) == "ops.prim.RaiseException"
        for each in statements
    )


def _cast(kind: str, value: Any) -> Any:
    """Return a value as `kind`; a tensor of the file as a number."""
    if kind in ("int", "float", "bool"):
        if isinstance(value, Tensor) and value.numel() == 1:
            value = value.item()
        if isinstance(value, (int, float)):
            return {"int": int, "float": float, "bool": bool}[kind](value)
    return value


def _items(value: Any) -> Any:
    if not isinstance(value, (list, tuple, range)):
        raise LegacyError(f"its code reads items of a {type(value).__name__}")
    return value


def _has_nodes(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has_nodes(each) for each in value)
    return isinstance(value, Node)


def _has_tensors(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has_tensors(each) for each in value)
    return isinstance(value, _WEIGHTS)


def _prepacked(name: str, args: list[Any]) -> UnpackedLayer:
    transposed = "transpose" in name
    try:
        if transposed:
            weight, bias, stride, padding, output_padding, dilation, groups = args
        else:
            weight, bias, stride, padding, dilation, groups = args
            output_padding = [0] * len(stride)
        # The op of 1-D convolutions also takes the numbers of two dimensions.
        sizes = slice(-1, None) if "1d" in name else slice(None)
        numbers = Convolution(
            transposed=transposed,
            stride=list(stride)[sizes],
            padding=list(padding)[sizes],
            output_padding=list(output_padding)[sizes],
            dilation=list(dilation)[sizes],
            groups=int(groups),
        )
    except (TypeError, ValueError) as error:
        raise LegacyError(f"its code calls {name} with other arguments") from error
    return convolution(weight, bias, numbers)
