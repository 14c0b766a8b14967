"""A proof of an answer: what the file says, and its check."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rulefield import proofcheck
from rulefield.exceptions import InternalError
from rulefield.outputs import write_whole

Text = dict[str, Any]


@dataclass(frozen=True)
class Proof:
    """A proof that no labeling is worth more than a bound, or that none is possible."""

    bound: float | None  # no labeling is worth more; None if none is possible
    write: Callable[[], Text] = field(repr=False, compare=False)
    """Returns what the file holds (see docs/proofs.md): the problem is written down when it is first asked for."""

    @cached_property
    def text(self) -> Text:
        """What the file holds."""
        return self.write()

    def check(self) -> str:
        """Return what is proved, in words, by :mod:`rulefield.proofcheck`; raise if it refuses the proof."""
        return check_text(self.to_json())

    def to_json(self) -> str:
        """Return the text of the file; doubles are written so that they read back as they were."""
        return json.dumps(self.text, allow_nan=False, separators=(",", ":"))

    def __getstate__(self) -> dict[str, Any]:
        return {"bound": self.bound, "write": None, "text": self.text}

    def save(self, path: str | Path) -> None:
        """Write the file."""
        write_whole(path, self.to_json())


def check_text(text: str) -> str:
    """Return what the text of a file proves, in words; raise :class:`InternalError` if it proves nothing."""
    try:
        return proofcheck.check(json.loads(text))
    except Exception as error:
        raise InternalError(f"the proof is refused by the checker: {error!r}; please report this problem.") from error


def make_text(problem: Text, witness: list[int] | None, bound: float | None, tree: Text) -> Text:
    """Return the text of a proof file."""
    head = {"format": proofcheck.FORMAT, "version": proofcheck.VERSION}
    return head | {"problem": problem, "witness": witness, "bound": bound, "tree": tree}
