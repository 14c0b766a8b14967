"""``--on-infeasible raise|relax|mark``: one row that cannot obey the hard rules does not end a batch of a million."""

import sys
from math import isinf
from typing import Any

from rulefield.exceptions import InputError

CHOICES = ("mark", "raise", "relax")
INFEASIBLE = "infeasible"


class Infeasible:
    """What to do with rows that cannot obey the hard rules, and how many there were.

    Parameters
    ----------
    choice : {"mark", "raise", "relax"}
        "raise" stops at the first one, with its place and text; "relax" labels it with the least violation; "mark" leaves
        it without labels, with the status "infeasible".
    """

    def __init__(self, choice: str):
        if choice not in CHOICES:
            raise InputError(f"--on-infeasible must be one of {', '.join(CHOICES)}; got {choice!r}.")
        self.choice, self.count = choice, 0

    def prepare(self, model: Any) -> None:
        """Have a model break hard rules where it must; what that means is judged row by row."""
        model.set_params(on_infeasible="relax")

    def judge(self, place: str, text: str, broken: Any) -> bool:
        """Return whether a row is to be marked; say so for the first ones, or stop."""
        hard = [b.rule for b in broken if isinf(b.cost)]
        if not hard or self.choice == "relax":
            return False
        reason = f"{place}: no labeling of {text[:80]!r} obeys the hard rules; broken would be: {'; '.join(hard)}"
        if self.choice == "raise":
            raise InputError(f"{reason}. Make one soft, or choose --on-infeasible relax or mark.")
        self.count += 1
        if self.count == 1:
            sys.stderr.write(f"rulefield: {reason}. It is marked {INFEASIBLE!r}.\n")
        return True

    def tell(self) -> None:
        """Say at the end how many rows were marked."""
        if self.count > 1:
            sys.stderr.write(f"rulefield: {self.count} rows are marked {INFEASIBLE!r} (see --on-infeasible).\n")
