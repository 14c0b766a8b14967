"""Expectations: what should hold on average over a corpus while a model is trained.

``share(ner="B-PER", pos="NOUN").between(.053, .055)`` is a statement about the share of tokens with these labels;
``after=`` makes it one about neighboring pairs, ``given=`` one about the tokens that meet a condition. ``expected``
takes any linear number of the rule language, as a mean over sequences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.problem.expectation import CompiledExpectation
from rulefield.rules.chain.classes import ClassSpace, Remembered
from rulefield.rules.chain.translate import PatternTables, Translator, bits_of
from rulefield.rules.labels import LabelTable
from rulefield.rules.numbers import Comparison, Number
from rulefield.rules.patterns import AnyPattern, as_pattern, matches
from rulefield.rules.tokens import TokenCondition

Patterns = tuple[tuple[str | None, AnyPattern], ...]


@dataclass(frozen=True)
class Expectation:
    """A quantity kept between ``low`` and ``high`` in expectation."""

    quantity: "Share | Expected"
    low: float = -np.inf
    high: float = np.inf
    name: str | None = field(default=None, compare=False)

    def named(self, name: str) -> "Expectation":
        """Return the same expectation under a name."""
        return Expectation(self.quantity, self.low, self.high, name)

    @property
    def label(self) -> str:
        """The name, or else the expectation as written."""
        return self.name or repr(self)

    def __repr__(self) -> str:
        if self.low == -np.inf:
            return f"{self.quantity!r}.at_most({self.high:g})"
        if self.high == np.inf:
            return f"{self.quantity!r}.at_least({self.low:g})"
        return f"{self.quantity!r}.between({self.low:g}, {self.high:g})"


class _Quantity:
    """What all quantities can be asked to be."""

    def between(self, low: float, high: float) -> Expectation:
        """Keep the expectation in [low, high]."""
        if not low <= high:
            raise RuleError(f"between(low, high) needs low <= high; got {low!r} and {high!r}.")
        return Expectation(self, float(low), float(high))  # type: ignore[arg-type]

    def at_most(self, high: float) -> Expectation:
        """Keep the expectation at or below ``high``."""
        return Expectation(self, -np.inf, float(high))  # type: ignore[arg-type]

    def at_least(self, low: float) -> Expectation:
        """Keep the expectation at or above ``low``."""
        return Expectation(self, float(low), np.inf)  # type: ignore[arg-type]


@dataclass(frozen=True, repr=False)
class Share(_Quantity):
    """Share of tokens whose labels fit ``here`` (and the token before ``after``), among those that meet ``given``."""

    here: Patterns
    after: Patterns | None = None
    given: TokenCondition | None = None

    def __repr__(self) -> str:
        parts = [_written(task, pattern) for task, pattern in self.here]
        if self.after is not None:
            by_task = ", ".join(f"{task!r}: {pattern!r}" for task, pattern in self.after)
            parts.append(f"after={self.after[0][1]!r}" if self.after[0][0] is None else f"after={{{by_task}}}")
        if self.given is not None:
            parts.append(f"given={self.given!r}")
        return f"share({', '.join(parts)})"


@dataclass(frozen=True, repr=False)
class Expected(_Quantity):
    """Mean over sequences of a linear number, such as ``segments("title")``, of one task's labels."""

    number: Number
    task: str | None = None

    def __repr__(self) -> str:
        task = "" if self.task is None else f", task={self.task!r}"
        return f"expected({self.number!r}{task})"


def share(
    pattern: str | Sequence[str] | Mapping[str, Any] | None = None,
    *,
    after: str | Mapping[str, Any] | None = None,
    given: TokenCondition | None = None,
    **tasks: Any,
) -> Share:
    """Share of tokens with these labels: ``share("B-PER")``, or by task ``share(ner="B-PER", pos="NOUN")``.

    Parameters
    ----------
    pattern : label pattern, if there is one task; or dict of task to pattern
    after : label pattern, or dict of task to pattern
        What the token before must be labeled; the share is then one of neighboring pairs.
    given : token condition
        Count only tokens that meet it, and take the share of them: ``given=feature("suffix=ing")``.
    **tasks : label patterns by task
    """
    here = _patterns(pattern, tasks)
    if not here:
        raise RuleError('share needs a label pattern, such as share("B-PER") or share(ner="B-PER", pos="NOUN").')
    if given is not None and not isinstance(given, TokenCondition):
        raise RuleError(f'given= needs a condition on tokens, such as feature("suffix=ing"); got {given!r}.')
    before = None
    if after is not None:
        before = _patterns(None, after) if isinstance(after, Mapping) else _patterns(after, {})
    return Share(here, before, given)


def expected(number: Number, task: str | None = None) -> Expected:
    """Mean over sequences of a linear expression: ``expected(segments("title")).between(.9, 1)``."""
    if not isinstance(number, Number):
        raise RuleError(
            f"only linear numbers have an expectation that training can hold, such as segments('title') or "
            f"count('a') - count('b'); got {number!r}: comparisons, logic and order rules are not linear."
        )
    named = {part.task for _, term in number.terms for part in term.pattern.parts} - {None}
    if named - {task} and (task is not None or len(named) > 1):
        raise RuleError(f"an expected number is one of a single task; {number!r} names {sorted(map(str, named))}.")
    terms = tuple(
        (factor, replace(term, pattern=term.pattern.parts[0].within(None))) for factor, term in number.terms
    )
    return Expected(Number(terms, number.constant), next(iter(named), task))


def _patterns(pattern: Any, tasks: Mapping[str, Any]) -> Patterns:
    if isinstance(pattern, Mapping) and not tasks:
        return _patterns(None, pattern)
    own: Patterns = () if pattern is None else ((None, as_pattern(pattern)),)
    if own and tasks:
        raise RuleError("give one pattern, or patterns by task name, not both.")
    return own or tuple((task, as_pattern(p)) for task, p in tasks.items())


def _written(task: str | None, pattern: AnyPattern) -> str:
    return repr(pattern) if task is None else f"{task}={pattern!r}"


# --- compilation ------------------------------------------------------------------------------


class ExpectationCompiler:
    """Compiles expectations for the label sets of some tasks.

    Parameters
    ----------
    tasks : dict of task name to (labels, scheme)
        In the order in which joint states number them, the last task fastest.
    """

    def __init__(self, tasks: Mapping[Any, tuple[Sequence[str], str | None]]):
        self.names = list(tasks)
        self.tables = [LabelTable([str(c) for c in labels], scheme) for labels, scheme in tasks.values()]
        self.sizes = tuple(map(len, self.tables))
        self.labels = np.unravel_index(np.arange(int(np.prod(self.sizes))), self.sizes)

    def __call__(
        self, expectation: Expectation, corpus: Sequence[Sequence[Any]], weight: np.ndarray | None = None
    ) -> CompiledExpectation:
        """Compile for a corpus: a list of sequences of tokens, each counted ``weight`` times (n_sequences,)."""
        if not isinstance(expectation, Expectation):
            raise RuleError(
                f"an expectation is a share(...) or expected(...) with .between(low, high); got {expectation!r}."
            )
        quantity, none = expectation.quantity, np.zeros(0, np.int64)
        nothing = CompiledExpectation(
            np.zeros((1, 0)), none, (None,) * len(self.sizes), none, none, 0.0, expectation.low, expectation.high
        )
        times = np.ones(len(corpus)) if weight is None else weight
        lengths = np.array([len(tokens) for tokens in corpus], np.int64)
        if isinstance(quantity, Share):
            found = self._share(quantity, corpus, times, lengths, nothing)
        else:
            found = self._expected(quantity, corpus, times, lengths, nothing)
        if found.total == 0:
            raise RuleError(f"{quantity!r} refers to nothing in this corpus: no token (or step) is counted.")
        return found

    def _share(
        self,
        share: Share,
        corpus: Sequence[Sequence[Any]],
        weight: np.ndarray,
        lengths: np.ndarray,
        into: CompiledExpectation,
    ) -> CompiledExpectation:
        here, n_tokens = self._states(share.here), int(lengths.sum())
        if share.after is None:
            counted = np.ones(n_tokens, bool) if share.given is None else _meeting(share.given, corpus)
            node = np.vstack([np.zeros(len(here)), here.astype(np.float64)])
            total = float(np.repeat(weight, lengths) @ counted)
            return replace(into, node=node, token_class=counted.astype(np.uint16), total=total)
        if share.given is not None:
            raise RuleError(f"{share!r}: given= goes with shares of tokens, not of neighboring pairs.")
        sources, targets = np.nonzero(np.outer(self._states(share.after), here))
        total = float(weight @ np.maximum(lengths - 1, 0))
        node, token_class = np.zeros((1, len(here))), np.zeros(n_tokens, np.uint16)
        return replace(into, node=node, token_class=token_class, move_from=sources, move_to=targets, total=total)

    def _expected(
        self,
        quantity: Expected,
        corpus: Sequence[Sequence[Any]],
        weight: np.ndarray,
        lengths: np.ndarray,
        into: CompiledExpectation,
    ) -> CompiledExpectation:
        number, k = quantity.number, self._task(quantity.task, quantity)
        space = ClassSpace(bits_of(Comparison(number, "<=", Number())))
        tally = Translator(PatternTables(self.tables[k]), space).tally(number)
        token_class = 2 * space.classes(lengths.tolist(), Remembered(corpus))
        token_class[(np.cumsum(lengths) - lengths)[lengths > 0]] += 1
        own = np.empty((2 * space.n_classes, self.sizes[k]))
        own[0::2], own[1::2] = tally.node, tally.node if tally.first is None else tally.first
        edges: list[np.ndarray | None] = [None] * len(self.sizes)
        edges[k] = (
            None if tally.edge is None else tally.edge[0].astype(np.float64)
        )  # the same at tokens of all classes
        low, high = into.low - number.constant, into.high - number.constant
        node = np.ascontiguousarray(own[:, self.labels[k]])
        found = replace(into, node=node, token_class=token_class, edges=tuple(edges))
        return replace(found, total=float(weight.sum()), low=low, high=high)

    def _states(self, patterns: Patterns) -> np.ndarray:
        """Joint states that fit, bool (S,)."""
        fits = np.ones(int(np.prod(self.sizes)), dtype=bool)
        for task, pattern in patterns:
            k = self._task(task, pattern)
            pattern.check(self.tables[k])
            fits &= matches(pattern, self.tables[k])[self.labels[k]]
        return fits

    def _task(self, task: str | None, what: Any) -> int:
        if task is None and len(self.names) == 1:
            return 0
        if task in self.names:
            return self.names.index(task)
        known = ", ".join(map(str, self.names))
        raise RuleError(f"{what!r}: the task {task!r} is unknown; the tasks are {known}: write share(task=pattern).")


def _meeting(condition: TokenCondition, corpus: Sequence[Sequence[Any]]) -> np.ndarray:
    return np.array([condition(token) for tokens in corpus for token in tokens], dtype=bool)
