"""A rule: a statement, what breaking it costs, and its name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.rules.expression import Expression, LabeledJointTokens, LabeledTokens
from rulefield.rules.labels import known_scheme

LEARN = "learn"
AUTO = "auto"
OPEN = {
    LEARN: 'the weight of "{}" is still to be learned',
    AUTO: 'the price of "{}" is still to be found in data',
}
"""Weights that are not known yet, and what is said of a rule that has one."""
HARD = float("inf")
LARGEST_WEIGHT = 1e100
"""What a labeling pays for many units of violation must stay finite."""


@dataclass(frozen=True)
class Rule:
    """A statement about labelings that must hold (hard) or should (soft).

    Users write rules with the functions of :mod:`rulefield.rules` and never need this class. The weight is what a unit of
    violation costs (``per="once"``: what any violation costs): ``inf`` if the rule is hard; ``"learn"`` until it is learned;
    ``"auto"`` until its residual price is found: what breaking it should cost beyond what a model knows by itself.
    """

    body: Expression
    weight: float | str = HARD
    per: str = "unit"
    name: str | None = None

    def soft(self, weight: float | str, per: str = "unit") -> "Rule":
        """Return the same rule, at a price: ``weight`` a unit of violation, or in all with ``per="once"``."""
        if not (isinstance(weight, str) and weight in OPEN) and not _is_price(weight):
            wanted = f'a finite number >= 0 (at most {LARGEST_WEIGHT:g}), "learn" or "auto"'
            raise RuleError(f"the weight of a soft rule must be {wanted}; got {weight!r:.60}.")
        if per not in ("unit", "once"):
            raise RuleError(f'per must be "unit" or "once"; got {per!r}.')
        return replace(self, weight=weight if isinstance(weight, str) else float(weight), per=per)

    def hard(self) -> "Rule":
        """Return the same rule, never to be broken."""
        return replace(self, weight=HARD, per="unit")

    def named(self, name: str) -> "Rule":
        """Return the same rule under a name."""
        if not isinstance(name, str) or not name:
            raise RuleError(f"the name of a rule must be a non-empty string; got {name!r}.")
        return replace(self, name=name)

    @property
    def is_hard(self) -> bool:
        """Whether the rule must hold."""
        return self.weight == HARD

    @property
    def is_open(self) -> bool:
        """Whether the weight is still to be found: "learn" or "auto"."""
        return isinstance(self.weight, str)

    def still_open(self) -> str:
        """Say that the weight is not known yet; the way out is the caller's."""
        return OPEN[str(self.weight)].format(self.label)

    @property
    def text(self) -> str:
        """The statement as it is written, without weight and name."""
        return repr(self.body)

    @property
    def label(self) -> str:
        """The name, or else the statement."""
        return self.name if self.name is not None else self.text

    def violation(
        self,
        tokens: Sequence[Any],
        labels: Sequence[str] | Mapping[str, Sequence[str]],
        scheme: str | Mapping[str, str | None] | None = "auto",
    ) -> int:
        """By how much a labeling breaks the rule, from the definition; needs no model.

        The scheme is guessed from the labels unless it is given; None means none. Labels of several tasks are a dict
        of task to labels, and may have one scheme for each.
        """
        if isinstance(labels, Mapping):
            given = scheme if isinstance(scheme, Mapping) else dict.fromkeys(labels, scheme)
            schemes = {task: known_scheme(given.get(task), own) for task, own in labels.items()}
            return int(self.body.amount(LabeledJointTokens(tokens, labels, schemes)))
        if isinstance(scheme, Mapping):
            raise RuleError("schemes by task go with labels by task; give one scheme, or a dict of labels.")
        return int(self.body.amount(LabeledTokens(tokens, labels, known_scheme(scheme, labels))))

    def cost(self, amount: float) -> float:
        """Return what an amount of violation costs."""
        if self.is_open:
            raise RuleError(f"{self.still_open()}; fit a RuledCRF, or give a number.")
        units = 1.0 if self.per == "once" else amount
        return float(self.weight) * units if amount > 0 else 0.0

    def __repr__(self) -> str:
        text = self.text
        if getattr(self.body, "is_comparison", False) and (self.name or not self.is_hard):
            text = f"({text})"
        if not self.is_hard:
            text += f".soft({self.weight!r})" if self.per == "unit" else f'.soft({self.weight!r}, per="once")'
        return text if self.name is None else f"{text}.named({self.name!r})"

    def __bool__(self) -> bool:
        raise RuleError(
            "a rule is neither true nor false before there is a labeling: for 'and' write all_of(a, b), for 'or' "
            "any_of(a, b), for 'not' not_(a), and for 1 <= n <= 3 write all_of(n >= 1, n <= 3)."
        )

    def _no_order(self, other: object) -> "Rule":
        raise RuleError(
            "rules cannot be compared with < <= > >=; a chained comparison such as 1 <= n <= 3 must be written "
            "all_of(n >= 1, n <= 3)."
        )

    __lt__ = __le__ = __gt__ = __ge__ = _no_order

    def _no_operator(self, other: object) -> "Rule":
        raise RuleError("for a & b write all_of(a, b), for a | b write any_of(a, b), for a >> b write implies(a, b).")

    __and__ = __or__ = __rand__ = __ror__ = __rshift__ = __xor__ = _no_operator

    def __invert__(self) -> "Rule":
        raise RuleError("for ~a write not_(a).")


def as_rules(rules: "Iterable[Rule] | Rule | None") -> tuple[Rule, ...]:
    """Return rules as a tuple, checked: one rule by itself is a tuple of one, None is an empty tuple."""
    if rules is None or isinstance(rules, Rule):
        return () if rules is None else (rules,)
    if isinstance(rules, str) or not isinstance(rules, Iterable):
        raise RuleError(f"rules must be a list of rules; got {rules!r:.60}.")
    checked = tuple(rules)
    for rule in checked:
        if not isinstance(rule, Rule):
            hint = "; a text is read by rulefield.rules.parse_rule" if isinstance(rule, str) else ""
            raise RuleError(f"rules must be written with the functions of rulefield.rules; got {rule!r}{hint}.")
    return checked


def _is_price(weight: object) -> bool:
    number = isinstance(weight, int | float | np.floating | np.integer) and not isinstance(weight, bool)
    return number and 0 <= weight <= LARGEST_WEIGHT  # type: ignore[operator]


def body_of(rule: object, where: str) -> Expression:
    """Take the statement out of a rule that is used inside logic; its price and name would be lost there."""
    if isinstance(rule, Expression):
        return rule
    if not isinstance(rule, Rule):
        raise RuleError(f"{where} needs rules, such as present('title'); got {rule!r}.")
    if not rule.is_hard or rule.name is not None:
        raise RuleError(f"soft(...) and named(...) belong to the whole rule, outside {where}; got {rule!r}.")
    return rule.body
