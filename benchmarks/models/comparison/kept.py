"""The file of what was measured, a line a case, which an interrupted run goes on with."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.models.comparison.cases import Case


class Kept:
    """Results by case, each written as soon as it is there."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Begins a file, or goes on with that of a run that was interrupted.

        Raises:
            ValueError: a line of it is not what this program writes.
        """
        self._path = path
        self._of: dict[Case, dict[str, Any]] = {}
        if resume and path.exists():
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                try:
                    result = json.loads(line)
                    self._of[Case(**result["case"])] = result
                except (ValueError, TypeError, KeyError) as error:
                    raise ValueError(f"{path}, line {number}: not a result: {error}") from None
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")

    def __contains__(self, case: Case) -> bool:
        """Whether `case` was measured; one of which nothing could be is tried again."""
        return case in self._of and "error" not in self._of[case]

    def add(self, case: Case, result: dict[str, Any]) -> None:
        """Writes the result of `case`."""
        self._of[case] = result
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")

    def of(self, cases: Iterable[Case]) -> dict[Case, dict[str, Any]]:
        """Those of `cases` that are there, in their order."""
        return {case: self._of[case] for case in cases if case in self._of}

    def machine(self) -> dict[str, str]:
        """What they were measured on.

        Raises:
            ValueError: not all on the same machine with the same versions.
        """
        found: dict[str, str] = {}
        for result in self._of.values():
            facts = {k: v for k, v in result.get("machine", {}).items() if k != "threads"}
            if found and facts and facts != found:
                different = [name for name in found if facts.get(name) != found[name]]
                raise ValueError(
                    f"{self._path}: measured on different machines or versions:"
                    f" {', '.join(different) or 'settings'}; begin anew without --resume"
                )
            found = found or facts
        return found
