"""The entry point of compilation: rules, a label set and a scheme in; compiled rules for inputs out."""

from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.exceptions import RuleError
from rulefield.parallel import Threads
from rulefield.problem.chain_rules import CompiledRule, Forms
from rulefield.rules.chain.amounts import AmountReader
from rulefield.rules.chain.classes import ClassSpace, Meets, Remembered, no_tokens
from rulefield.rules.chain.comparisons import rounded_up
from rulefield.rules.chain.nested import Nested
from rulefield.rules.chain.statement import Statement, amount_by_truth, rows_of
from rulefield.rules.chain.translate import PatternTables, Translator, bits_of
from rulefield.rules.labels import LabelTable
from rulefield.rules.rule import Rule, as_rules


class RuleTemplate:
    """One rule over one label set: everything that does not depend on the input, made once."""

    def __init__(self, rule: Rule, number: int, tables: PatternTables):
        self.rule, self.number = rule, number
        self.n_labels = len(tables.labels)
        try:
            self.space = ClassSpace(bits_of(rule.body))
            self.statement: Statement = Translator(tables, self.space).statement(rule.body)
        except RuleError as error:
            raise RuleError(f'rule "{rule.label}": {error}') from None
        self.grows = isinstance(self.statement, Nested) and self.statement.depends_on_length
        self._forms: dict[int, Forms] = {}
        self._marks: dict[int, object] = {}
        self._made: dict[int, dict[str, Any]] = {}

    def forms(self, n: int) -> Forms:
        """Tables for inputs of n tokens; the same object wherever they do not differ."""
        key = rounded_up(n) if self.grows else 0
        if key not in self._forms:
            self._forms[key] = self.statement.forms(key, f'"{self.rule.label}"')
            self._marks[key] = object()
        return self._forms[key]

    def compile(self, n: int, meets: Meets) -> CompiledRule:
        """Return the rule for one input, with its own weight (``nan`` while that is to be learned)."""
        token_class = self.space.classes([n], meets)
        known = self._known(n)
        made = object.__new__(
            CompiledRule
        )  # by hand: inputs are many, and most of a rule is the same for all of them
        made.__dict__.update(known)
        made.__dict__["token_class"] = token_class
        made.__dict__["find_max"] = partial(self.statement.max_amount, token_class)
        if made.tally is None and not made.counters and made.automaton is None:
            made.__dict__["find_amount"] = partial(amount_by_truth, self.statement, token_class)
        made.__dict__["make_rows"] = partial(rows_of, self.statement, token_class, self.n_labels)
        return made

    def _known(self, n: int) -> dict[str, Any]:
        """Fields of the compiled rule that are the same for all inputs of n tokens."""
        key = rounded_up(n) if self.grows else 0
        if key not in self._made:
            forms = self.forms(n)
            self._made[key] = {
                "rule": self.number,
                "weight": _weight(self.rule),
                "once": self.rule.per == "once",
                "tally": forms.tally,
                "counters": forms.counters,
                "automaton": forms.automaton,
                "presences": forms.presences,
                "form": self._marks[key],
                "joinable": self.statement.joinable,
            }
        return self._made[key]


class RuleCompiler:
    """Compiles rules for many inputs of one label set.

    Tables are made once for the label set. Rules that do not read tokens are compiled once for each length of
    input and shared; the others only get new token classes.

    Parameters
    ----------
    rules : iterable of Rule
    labels : sequence of str, length m, or LabelTable
        The label set, in the order of the potentials' columns; a table brings its own scheme.
    scheme : str or None
        Amounts are right for labelings that the scheme allows.

    Raises
    ------
    RuleError
        Where a rule names an unknown label, or is too large.
    """

    def __init__(self, rules: Iterable[Rule] | Rule, labels: Sequence[str] | LabelTable, scheme: str | None = None):
        self.rules = as_rules(rules)
        if not isinstance(labels, LabelTable):
            labels = LabelTable([str(label) for label in labels], scheme)
        self.labels = labels
        tables = PatternTables(self.labels)
        self._take(RuleTemplate(rule, i, tables) for i, rule in enumerate(self.rules))

    def _take(self, templates: Iterable[RuleTemplate]) -> None:
        """Begin with the templates of all rules, nothing compiled yet."""
        self.templates = tuple(templates)
        self._reading = [template.space.reads_tokens for template in self.templates]
        self._base: dict[int, list[CompiledRule | None]] = {}
        self._last: dict[int, list[CompiledRule | None]] = {}
        self._set_weights(np.array([_weight(rule) for rule in self.rules], dtype=np.float64))

    def _set_weights(self, weights: np.ndarray, drop_zero: bool = False) -> None:
        self.weights = weights
        self._unlearned = np.flatnonzero(np.isnan(weights)).tolist()
        self._active = np.flatnonzero(weights != 0).tolist() if drop_zero else list(range(len(weights)))
        self._places = [(place, i) for place, i in enumerate(self._active) if self._reading[i]]
        self._priced: dict[int, list[CompiledRule | None]] = {}

    def with_weights(self, weights: Sequence[float] | np.ndarray) -> "RuleCompiler":
        """Return a compiler that shares all tables with this one and gives its rules these weights.

        Rules of weight 0 are left out of what it compiles (rules keep their numbers). This is what a learner of
        weights calls at each step: about half a microsecond a rule and input.
        """
        if len(weights) != len(self.rules):
            raise RuleError(f"there are {len(self.rules)} rules and {len(weights)} weights.")
        other = copy(self)
        other._set_weights(np.asarray(weights, dtype=np.float64), drop_zero=True)
        return other

    def __call__(self, tokens: Sequence[Any] | int) -> tuple[CompiledRule, ...]:
        """Compile all rules for one input.

        Parameters
        ----------
        tokens : sequence, or int
            The tokens; their number is enough where no rule reads them.
        """
        self.refuse_unlearned()
        n = tokens if isinstance(tokens, int) else len(tokens)
        if n not in self._priced:
            self._priced[n] = self._at_prices(n)
        compiled = self._priced[n]
        if self._places:
            compiled = list(compiled)
            meets = no_tokens if isinstance(tokens, int) else Remembered([tokens])
            for place, i in self._places:
                compiled[place] = _at_price(self.templates[i].compile(n, meets), self.weights[i])
        return tuple(compiled)  # type: ignore[arg-type]

    def _at_prices(self, n: int) -> list[CompiledRule | None]:
        """Rules that do not read tokens, for n tokens at their weights; from one call to the next few weights change."""
        base = self._shared(n, self._active)
        last = self._last.setdefault(n, [None] * len(self.templates))
        found = []
        for i, weight in zip(self._active, self.weights[self._active].tolist()):
            rule = last[i]
            if rule is None or rule.weight != weight:
                rule = last[i] = _at_price(base[i], weight)
            found.append(rule)
        return found

    def amounts(self, tokens: Sequence[Any] | int, labels: np.ndarray) -> np.ndarray:
        """By how much a labeling (n,), given as numbers, breaks each rule; weights play no part."""
        return self.amounts_of_all([tokens], [labels]).toarray()[0]

    def amounts_of_all(
        self,
        inputs: Sequence[Sequence[Any] | int],
        labelings: Sequence[np.ndarray],
        owner: np.ndarray | None = None,
        threads: Threads | None = None,
    ) -> csr_matrix:
        """By how much each of many labelings breaks each rule, (n_labelings, n_rules), in compiled passes.

        LabeledTokens j is one of input ``owner[j]``, by default of input j.
        """
        return self.reader(inputs, labelings, owner, threads)

    @property
    def grows(self) -> bool:
        """Whether tables of some rule depend on the number of tokens."""
        return any(template.grows for template in self.templates)

    @cached_property
    def reader(self) -> AmountReader:
        """Reads the amounts of all rules for many inputs at once, whatever their weights."""
        spaces, grows, forms = (
            zip(*((t.space, t.grows, t.forms) for t in self.templates)) if self.templates else [()] * 3
        )
        return AmountReader(spaces, grows, forms, len(self.labels))

    def _shared(self, n: int, numbers: Sequence[int]) -> list[CompiledRule | None]:
        """Rules compiled for n tokens at their own price: those of ``numbers`` that do not read tokens; else None."""
        base = self._base.setdefault(n, [None] * len(self.templates))
        for i in numbers:
            if base[i] is None and not self._reading[i]:
                base[i] = self.templates[i].compile(n, no_tokens)
        return base

    @property
    def reads_tokens(self) -> bool:
        """Whether a rule asks more of an input than its number of tokens."""
        return any(self._reading)

    def refuse_unlearned(self) -> None:
        """Raise if the weight of a rule is still to be learned."""
        for i in self._unlearned:
            raise RuleError(f"{self.rules[i].still_open()}; fit a RuledCRF, or give a number.")


def _weight(rule: Rule) -> float:
    """Return the rule's weight, nan while it is to be found."""
    return float("nan") if rule.is_open else float(rule.weight)


def _at_price(rule: CompiledRule | None, weight: float) -> CompiledRule | None:
    """Copy a compiled rule at another weight, by hand because ``replace`` takes four times as long."""
    if rule is None or rule.weight == weight:
        return rule
    priced = object.__new__(CompiledRule)
    priced.__dict__.update(rule.__dict__)
    priced.__dict__["weight"] = float(weight)
    return priced


def compile_rules(
    rules: Iterable[Rule], labels: Sequence[str], scheme: str | None, tokens: Sequence[Any] | int
) -> tuple[CompiledRule, ...]:
    """Compile rules for one input (see :class:`RuleCompiler`, which shares work between inputs)."""
    return RuleCompiler(rules, labels, scheme)(tokens)
