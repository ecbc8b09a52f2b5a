"""Captures with symbolic sizes: one capture serves calls that differ in tensor sizes only.

The first sizes have a capture of their own, of fixed sizes. When other sizes come, the model is
captured again with symbols for the dimensions that differ. That capture then runs for all sizes
that it accepts; for new sizes, weights are packed and primitives are chosen again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from cpuaccel.compile.capture import input_signature
from cpuaccel.compile.capture.call_signature import Call, TensorSignature
from cpuaccel.compile.capture.dynamic_shapes import shapes_of
from cpuaccel.compile.common import report
from cpuaccel.compile.common.lru_cache import LRUCache
from cpuaccel.compile.frontend.capture_outcome import CaptureOutcome
from cpuaccel.compile.validate.verdict import PLAN, Verdict

MAX_CACHED_SIGNATURES = 1024
"""Number of input signatures for which the symbolic capture that served them is cached."""

CALLS_BEFORE_CAPTURE = 3
"""An input signature gets a capture of its own at this number of calls, if no other capture serves
it."""

MAX_CAPTURES_IN_FAMILY = 4
"""Maximum number of captures of symbolic sizes in one family."""

_MAX_FAMILIES = 64

SPECIALIZED = "the model specializes its sizes"
REJECTED = "the symbolic capture does not accept these sizes"

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


@dataclass(frozen=True)
class SymbolicTrace:
    """What to trace with symbolic sizes."""

    example: Call
    """The call that torch.export sees."""
    dynamic: frozenset[tuple[int, int]]
    """The dimensions that vary, as (leaf, dimension)."""


@dataclass(frozen=True)
class CaptureRequest:
    """A request for a capture."""

    args: Args
    kwargs: Kwargs
    traced: SymbolicTrace | None = None
    """For symbolic sizes: what to trace."""
    with_symbolic: bool = False
    """Whether a capture of symbolic sizes is to be made along with it."""
    only_symbolic: bool = False
    """Whether that one is enough, if it can be made."""


Make = Callable[[Args, Kwargs, SymbolicTrace], CaptureOutcome]
"""Makes a capture, and compares it with the model for these arguments."""

Check = Callable[[CaptureOutcome, Args, Kwargs], "Verdict | None"]
"""Compares a capture with the model for these arguments; returns the verdict if it is off."""


@dataclass
class _Family:
    """Calls that differ in tensor sizes only."""

    first: Call
    """The first call. Its capture has fixed sizes."""
    traced: dict[frozenset[tuple[int, int]], Call]
    """Calls that were captured for, by their dimensions of size 0 or 1."""
    stop_reason: str = ""
    """The reason why no more captures of symbolic sizes are made."""
    varying: set[tuple[int, int]] = field(default_factory=set)
    """Dimensions, as (leaf, dimension), in which later calls differed from the first."""
    captures: list[CaptureOutcome] = field(default_factory=list)
    """Newest first."""
    rejected: list[Verdict] = field(default_factory=list)
    """Verdicts of captures that are not used."""
    unvalidated: list[CaptureOutcome] = field(default_factory=list)
    """Captures that were compared with the model only at the sizes of their trace."""
    unused: list[CaptureOutcome] = field(default_factory=list)
    """Captures that have served no call yet. They are not reported."""

    def to_trace(self, call: Call) -> list[SymbolicTrace]:
        """Return what to trace, one after the other, until a capture accepts the sizes of `call`.

        An earlier call is the better example: `call` then has other sizes than the trace, and shows
        whether the capture is right for them. torch specializes sizes of 0 and 1.
        """
        self.varying |= _differing(self.first, call)
        ones = _specialized_dimensions(call)
        dynamic = frozenset(self.varying - ones)
        calls = dict.fromkeys((self.traced.setdefault(ones, call), call))
        return [SymbolicTrace(each, dynamic) for each in calls] if dynamic else []


class SymbolicCaptures:
    """The captures of symbolic sizes of one model."""

    def __init__(self, make: Make, check: Check) -> None:
        self._make, self._check = make, check
        self._families: dict[Hashable, _Family] = {}
        self._served: LRUCache[CaptureOutcome] = LRUCache(MAX_CACHED_SIGNATURES)
        self._call_counts: LRUCache[int] = LRUCache(MAX_CACHED_SIGNATURES)

    def captures(self) -> list[CaptureOutcome]:
        """Return the captures that have served a call."""
        return [
            each
            for family in list(self._families.values())
            for each in family.captures
            if each not in family.unused
        ]

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts of these captures, and those of captures that are not used."""
        families = list(self._families.values())
        rejected = [each for family in families for each in family.rejected]
        return [*(each.verdict for each in self.captures()), *rejected]

    def find(self, key: Hashable) -> CaptureOutcome | None:
        """Return the cached capture that has served this input signature before."""
        return self._served.get(key)

    def clear(self) -> None:
        """Forget everything."""
        self._families.clear()
        self._served.clear()
        self._call_counts.clear()

    def begin(self, args: Args, kwargs: Kwargs, made: CaptureOutcome) -> None:
        """Begin a family with what was made for these sizes only."""
        key, stop_reason = input_signature.family_key(args, kwargs)
        if key is not None and len(self._families) < _MAX_FAMILIES:
            call = Call.of(args, kwargs)
            stop_reason = stop_reason or made.fallback_reason or made.no_symbolic_reason
            family = _Family(call, {_specialized_dimensions(call): call}, stop_reason)
            self._families.setdefault(key, family)

    def add(self, args: Args, kwargs: Kwargs, made: CaptureOutcome) -> None:
        """Add a capture of symbolic sizes that was made along with the family's first capture."""
        family = self._families.get(input_signature.family_key(args, kwargs)[0])
        if family is not None and not family.stop_reason:
            family.captures.insert(0, made)
            family.unused.append(made)
            # It accepts all that another trace with the first call would accept.
            family.traced.pop(_specialized_dimensions(family.first), None)
            if not made.is_validated:
                family.unvalidated.append(made)

    def serve(
        self, key: Hashable, args: Args, kwargs: Kwargs, *, captures: bool = True
    ) -> CaptureOutcome | None:
        """Return a capture of symbolic sizes that accepts these inputs; None if there is none.

        `captures`: whether one is made if there is none yet.
        """
        family_key, _ = input_signature.family_key(args, kwargs)
        family = self._families.get(family_key)
        if family is None:
            return None
        call = Call.of(args, kwargs)
        found = self._accepting(family, call, args, kwargs)
        if found is None and captures and not family.stop_reason:
            self._capture(family, call, args, kwargs)
            self._families[family_key] = family  # clear() was called if the model has changed
            found = self._accepting(family, call, args, kwargs)
        if found is None:
            return None
        if found in family.unused:
            family.unused.remove(found)
            if found.report is not None:
                report.register(found.report)
        inputs = input_signature.describe(args, kwargs)
        reason = f"runs the capture for {found.verdict.inputs}"
        verdict = Verdict(inputs, PLAN, reason, found.verdict.arithmetic)
        served = CaptureOutcome(found.run, found.report, verdict, "", found.capture)
        self._served.put(key, served)
        return served

    def fallback_reason(self, key: Hashable, args: Args, kwargs: Kwargs) -> str:
        """Return why the model runs for inputs without a capture; "" if they get one now."""
        family = self._families.get(input_signature.family_key(args, kwargs)[0])
        if family is None:
            return ""
        came = (self._call_counts.get(key) or 0) + 1
        self._call_counts.put(key, came)
        if came >= CALLS_BEFORE_CAPTURE:
            return ""
        why = f": {family.stop_reason}" if family.stop_reason else ""
        return f"these sizes were called fewer than {CALLS_BEFORE_CAPTURE} times{why}"

    def _accepting(
        self, family: _Family, call: Call, args: Args, kwargs: Kwargs
    ) -> CaptureOutcome | None:
        """Return the capture of a family that accepts these sizes."""
        for each in list(family.captures):
            made = each.capture
            assert made is not None
            assert made.sizes is not None
            if made.sizes.mismatch(shapes_of(call)):
                continue
            if each not in family.unvalidated or made.call == call:
                return each
            rejected = self._check(each, args, kwargs)
            if rejected is None:
                family.unvalidated.remove(each)
                return each
            family.captures.remove(each)
            family.rejected.append(rejected)
            family.stop_reason = rejected.reason
            self._served.clear()
        return None

    def _capture(self, family: _Family, call: Call, args: Args, kwargs: Kwargs) -> None:
        for traced in family.to_trace(call):
            made = self._make(args, kwargs, traced)
            if made.run is not None:
                family.captures.insert(0, made)
                if traced.example == call:
                    family.unvalidated.append(made)
                if len(family.captures) >= MAX_CAPTURES_IN_FAMILY:
                    family.stop_reason = (
                        f"there are {MAX_CAPTURES_IN_FAMILY} captures of symbolic sizes already"
                    )
                return
            if made.fallback_reason != REJECTED:
                family.rejected.append(made.verdict)
                family.stop_reason = made.fallback_reason
                return


def _differing(a: Call, b: Call) -> set[tuple[int, int]]:
    """Return the dimensions, as (leaf, dimension), whose sizes differ between two calls."""
    return {
        (leaf, dim)
        for leaf, (of_a, of_b) in enumerate(zip(shapes_of(a), shapes_of(b), strict=True))
        for dim, (size, other) in enumerate(zip(of_a or (), of_b or (), strict=True))
        if size != other
    }


def _specialized_dimensions(call: Call) -> frozenset[tuple[int, int]]:
    """Return the dimensions of size 0 or 1, as (leaf, dimension)."""
    return frozenset(
        (leaf, dim)
        for leaf, each in enumerate(call.leaves)
        if isinstance(each, TensorSignature)
        for dim, size in enumerate(each.shape)
        if size < 2
    )
