"""Reads pickles into descriptions. No name in a pickle is imported and nothing is called.

Python's own unpickler imports every global and calls what a REDUCE names. This one runs the same
machine on descriptions: a global is its name, a call is the name and its arguments. So a pickle of
`os.system` is a description that no later step understands.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator
from typing import IO, Any

from cpuaccel.quant._legacy.descriptions import Global, Object, StorageId
from cpuaccel.quant._legacy.errors import LegacyError

MAX_OPCODES = 20_000_000
"""More than the pickle of any model has: it bounds the time that a hostile file takes."""

_MARK = object()

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset(
    [
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
        *("BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    ]
)
_IGNORED = frozenset(["PROTO", "FRAME"])
_SMALL_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_KEYS = (str, bytes, int, float, bool, type(None), Global)


def read_pickle(file: IO[bytes], storages: list[StorageId] | None = None) -> Any:
    """Return what one pickle describes. `file` then stands behind it.

    Args:
        file: a seekable file that stands at the start of the pickle.
        storages: gets the ids of all storages that the pickle names.

    Raises:
        LegacyError: it is damaged, or uses an opcode that torch's files do not have.
    """
    try:
        return _Machine(storages).run(pickletools.genops(file))
    except LegacyError:
        raise
    except (
        *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError),
        *(MemoryError, RecursionError, UnicodeError, EOFError),
    ) as error:
        raise LegacyError(f"damaged pickle: {type(error).__name__}: {error}") from error


class _Machine:
    def __init__(self, storages: list[StorageId] | None) -> None:
        self.storages = [] if storages is None else storages
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.calls: dict[str, Callable[[Any], None]] = {
            name.removeprefix("_op_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_op_")
        }

    def run(self, opcodes: Iterator[tuple[pickletools.OpcodeInfo, Any, int | None]]) -> Any:
        for count, (opcode, argument, _position) in enumerate(opcodes):
            name = opcode.name
            if count >= MAX_OPCODES:
                raise LegacyError(f"a pickle with more than {MAX_OPCODES} opcodes")
            if name == "STOP":
                return self.pop()
            if name in _LITERALS:
                self.stack.append(argument)
            elif name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            elif name in _SMALL_TUPLES:
                size = _SMALL_TUPLES[name]
                self.stack.append(tuple(reversed([self.pop() for _ in range(size)])))
            elif name in self.calls:
                self.calls[name](argument)
            elif name not in _IGNORED:
                raise LegacyError(f"pickle opcode {name}, which torch.save does not write")
        raise LegacyError("damaged pickle: it has no end")

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise LegacyError("damaged pickle: a mark in place of a value")
        return value

    def top(self) -> Any:
        if self.stack[-1] is _MARK:
            raise LegacyError("damaged pickle: a mark in place of a value")
        return self.stack[-1]

    def pop_to_mark(self) -> list[Any]:
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _MARK:
                items = self.stack[index + 1 :]
                del self.stack[index:]
                return items
        raise LegacyError("damaged pickle: a mark is missing")

    # Containers

    def _op_MARK(self, _: Any) -> None:
        self.stack.append(_MARK)

    def _op_EMPTY_TUPLE(self, _: Any) -> None:
        self.stack.append(())

    def _op_EMPTY_LIST(self, _: Any) -> None:
        self.stack.append([])

    def _op_EMPTY_DICT(self, _: Any) -> None:
        self.stack.append({})

    def _op_EMPTY_SET(self, _: Any) -> None:
        self.stack.append(Object(Global("builtins", "set")))

    def _op_TUPLE(self, _: Any) -> None:
        self.stack.append(tuple(self.pop_to_mark()))

    def _op_LIST(self, _: Any) -> None:
        self.stack.append(self.pop_to_mark())

    def _op_DICT(self, _: Any) -> None:
        items = self.pop_to_mark()
        made: dict[Any, Any] = {}
        _set_items(made, items)
        self.stack.append(made)

    def _op_FROZENSET(self, _: Any) -> None:
        self.stack.append(Object(Global("builtins", "frozenset"), items=self.pop_to_mark()))

    def _op_APPEND(self, _: Any) -> None:
        value = self.pop()
        _extend(self.top(), [value])

    def _op_APPENDS(self, _: Any) -> None:
        items = self.pop_to_mark()
        _extend(self.top(), items)

    _op_ADDITEMS = _op_APPENDS

    def _op_SETITEM(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        _set_items(self.top(), [key, value])

    def _op_SETITEMS(self, _: Any) -> None:
        items = self.pop_to_mark()
        _set_items(self.top(), items)

    # Names, calls and objects

    def _op_GLOBAL(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self.stack.append(Global(module, name))

    def _op_STACK_GLOBAL(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise LegacyError("damaged pickle: the name of a global is not text")
        self.stack.append(Global(module, name))

    def _op_REDUCE(self, _: Any) -> None:
        args, made_by = self.pop(), self.pop()
        if not isinstance(made_by, Global) or not isinstance(args, tuple):
            raise LegacyError("damaged pickle: it calls a value that is not a name")
        self.stack.append(Object(made_by, args))

    _op_NEWOBJ = _op_REDUCE

    def _op_NEWOBJ_EX(self, _: Any) -> None:
        keywords = self.pop()
        if keywords:
            raise LegacyError("an object with keyword arguments, which torch.save does not write")
        self._op_REDUCE(None)

    def _op_BUILD(self, _: Any) -> None:
        state = self.pop()
        made = self.top()
        if not isinstance(made, Object):
            raise LegacyError("damaged pickle: a state for what is not an object")
        made.state = state

    def _op_BINPERSID(self, _: Any) -> None:
        parts = self.pop()
        if not isinstance(parts, tuple):
            raise LegacyError("damaged pickle: the id of a storage is not a tuple")
        if len(parts) > 1 and parts[0] == "module":  # a class, with its source
            self.stack.append(parts[1])
            return
        self.storages.append(StorageId(parts))
        self.stack.append(self.storages[-1])

    # The memo and the stack

    def _put(self, index: Any) -> None:
        self.memo[index] = self.top()

    _op_PUT = _op_BINPUT = _op_LONG_BINPUT = _put

    def _op_MEMOIZE(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.top()

    def _get(self, index: Any) -> None:
        self.stack.append(self.memo[index])

    _op_GET = _op_BINGET = _op_LONG_BINGET = _get

    def _op_POP(self, _: Any) -> None:
        self.stack.pop()

    def _op_POP_MARK(self, _: Any) -> None:
        self.pop_to_mark()

    def _op_DUP(self, _: Any) -> None:
        self.stack.append(self.top())


def _extend(target: Any, items: list[Any]) -> None:
    if isinstance(target, Object):
        target.items.extend(items)
    elif isinstance(target, list):
        target.extend(items)
    else:
        raise LegacyError("damaged pickle: items for what is not a list")


def _set_items(target: Any, items: list[Any]) -> None:
    entries = target.entries if isinstance(target, Object) else target
    if not isinstance(entries, dict) or len(items) % 2:
        raise LegacyError("damaged pickle: entries for what is not a dict")
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, _KEYS):  # hashing deep tuples would overflow the C stack
            raise LegacyError(f"a dict with a key of type {type(key).__name__}")
        entries[key] = value
