"""The interface that a server needs of a model, and the validation of requests."""

import importlib
import json
from collections.abc import Collection, Iterator
from typing import Any, Protocol, runtime_checkable


class BadRequest(ValueError):
    """A request that the model does not accept; `field` names the invalid part."""

    def __init__(self, field: str, expected: str, got: str) -> None:
        super().__init__(f"{field}: expected {expected}, got {got}")
        self.field, self.expected, self.got = field, expected, got

    def as_json(self) -> dict[str, str]:
        """The body of the reply."""
        return {
            "error": str(self),
            "field": self.field,
            "expected": self.expected,
            "got": self.got,
        }


class Servable(Protocol):
    """A model that answers requests, created as `kind(form)`.

    `prepare` runs once, on one thread, before the workers are forked; they share what it reads and
    packs. `warm` runs in each worker with the worker's threads. `read` validates the JSON of a
    request and may raise BadRequest. `answer` computes, one request at a time.
    """

    route: str

    def prepare(self) -> None: ...
    def warm(self) -> None: ...
    def read(self, body: object) -> Any: ...
    def answer(self, request: Any) -> dict[str, object]: ...


@runtime_checkable
class Streaming(Servable, Protocol):
    """A model that answers in parts. `stream` replaces `answer`: each part is sent when it comes.

    The streams of several requests take turns on the model's thread, one part each.
    """

    def stream(self, request: Any) -> Iterator[dict[str, object]]: ...


def make(name: str, form: str) -> Servable:
    """The model named `name`, in the form MODULE:CLASS.

    Raises:
        ValueError: the class does not exist, or does not have this form.
    """
    module, _, kind = name.partition(":")
    if not module or not kind:
        raise ValueError(f"--model: expected MODULE:CLASS, got {name!r}")
    try:
        servable: Servable = getattr(importlib.import_module(module), kind)(form)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--model {name}: {error}") from error
    return servable


def parse_json(raw: bytes) -> object:
    """Parses a request body."""
    try:
        body: object = json.loads(raw)
    except ValueError as error:  # also for an invalid encoding
        raise BadRequest("body", "JSON in UTF-8", str(error)) from None
    return body


def fields(body: object, names: Collection[str]) -> dict[str, Any]:
    """`body` as an object with exactly these fields."""
    if not isinstance(body, dict):
        raise BadRequest("body", f"an object with {_listed(names)}", _kind(body))
    for name in names:
        if name not in body:
            raise BadRequest(name, "this field", f"an object with {_listed(body)}")
    for name in body:
        if name not in names:
            raise BadRequest(name, f"no field but {_listed(names)}", "this one too")
    return body


def text(name: str, value: object, longest: int) -> str:
    """`value` as a non-empty string."""
    expected = f"a string of 1 to {longest} characters, not all of them blanks"
    if not isinstance(value, str):
        raise BadRequest(name, expected, _kind(value))
    if len(value) > longest:
        raise BadRequest(name, expected, f"{len(value)} characters")
    if not value.strip():
        raise BadRequest(name, expected, repr(value[:20]))
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise BadRequest(name, expected, "half of a surrogate pair")
    return value


def _listed(names: Collection[object]) -> str:
    return ", ".join(repr(name) for name in names) or "nothing in it"


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    if value is None:
        return "null"
    return kinds.get(type(value), "a number")
