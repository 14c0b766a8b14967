"""The door of compilation: rules, a label set and a scheme in; compiled rules for inputs out."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.problem.compiled import CompiledRule, Rows
from rulefield.rules.compile.classes import ClassSpace, Conditions, Meets
from rulefield.rules.compile.rows import RowBuilder
from rulefield.rules.compile.statement import Forms, Statement
from rulefield.rules.compile.translate import PatternTables, Translator, bits_of
from rulefield.rules.labels import LabelTable
from rulefield.rules.rule import LEARN, Rule


class RuleTemplate:
    """One rule over one label set: everything that does not depend on the input, made once."""

    def __init__(self, rule: Rule, number: int, tables: PatternTables):
        self.rule, self.number = rule, number
        self.n_labels = len(tables.labels)
        try:
            self.space = ClassSpace(bits_of(rule.body))
            self.statement: Statement = Translator(tables, self.space).statement(rule.body)
        except RuleError as error:
            raise RuleError(f'rule "{rule.label}": {error}') from error
        self._forms: dict[int, Forms] = {}
        self._classes: dict[int, np.ndarray] = {}

    def forms(self, n: int) -> Forms:
        """Tables for inputs of n tokens; the same object wherever they do not differ."""
        key = -(-max(n, 1) // 16) if self.statement.depends_on_length else 0
        if key not in self._forms:
            self._forms[key] = self.statement.forms(16 * key, f'"{self.rule.label}"')
        return self._forms[key]

    def compile(self, n: int, meets: Meets) -> CompiledRule:
        """Return the rule for one input, with its own weight (``nan`` while that is to be learned)."""
        token_class = self.space.classes(n, meets)
        token_class.flags.writeable = False
        forms = self.forms(n)
        return CompiledRule(
            rule=self.number,
            weight=float("nan") if self.rule.weight == LEARN else float(self.rule.weight),
            once=self.rule.per == "once",
            token_class=token_class,
            tally=forms.tally,
            counters=forms.counters,
            automaton=forms.automaton,
            max_amount=self.statement.max_amount(token_class),
            make_rows=partial(_rows, self.statement, token_class, self.n_labels),
        )


def _rows(statement: Statement, token_class: np.ndarray, n_labels: int) -> Rows:
    builder = RowBuilder(token_class, n_labels)
    statement.amount_rows(builder)
    return builder.rows()


class RuleCompiler:
    """Compiles rules for many inputs of one label set.

    Tables are made once for the label set. Rules that do not read tokens are compiled once for each length of
    input and shared; the others only get new token classes.

    Parameters
    ----------
    rules : iterable of Rule
    labels : sequence of str, length m
        The label set, in the order of the potentials' columns.
    scheme : str or None
        Amounts are right for labellings that the scheme allows.

    Raises
    ------
    RuleError
        Where a rule names an unknown label, or is too large.
    """

    def __init__(self, rules: Iterable[Rule], labels: Sequence[str], scheme: str | None = None):
        self.rules = as_rules(rules)
        self.labels = LabelTable([str(label) for label in labels], scheme)
        tables = PatternTables(self.labels)
        self.templates = tuple(RuleTemplate(rule, i, tables) for i, rule in enumerate(self.rules))
        self.weights: np.ndarray | None = None
        self._start_caches()

    def _start_caches(self) -> None:
        self._conditions = Conditions()
        self._by_length: dict[int, list[CompiledRule | None]] = {}
        self._reading = [i for i, template in enumerate(self.templates) if template.space.reads_tokens]

    def with_weights(self, weights: Sequence[float]) -> "RuleCompiler":
        """Return a compiler that shares all tables with this one and gives its rules these weights.

        Rules of weight 0 are left out of what it compiles (rules keep their numbers). This is what a learner of
        weights calls at each step.
        """
        if len(weights) != len(self.rules):
            raise RuleError(f"there are {len(self.rules)} rules and {len(weights)} weights.")
        other = object.__new__(RuleCompiler)
        other.rules, other.labels, other.templates = self.rules, self.labels, self.templates
        other.weights = np.asarray(weights, dtype=np.float64)
        other._start_caches()
        return other

    def __call__(self, tokens: Sequence[Any] | int) -> tuple[CompiledRule, ...]:
        """Compile all rules for one input.

        Parameters
        ----------
        tokens : sequence, or int
            The tokens; their number is enough where no rule reads them.
        """
        n = tokens if isinstance(tokens, int) else len(tokens)
        shared = self._shared(n)
        if not self._reading:
            return tuple(shared)  # type: ignore[arg-type]
        meets = self._meets(tokens)
        compiled = list(shared)
        for place, i in self._places:
            compiled[place] = self._priced(self.templates[i].compile(n, meets))
        return tuple(compiled)  # type: ignore[arg-type]

    @property
    def _active(self) -> list[int]:
        return [i for i in range(len(self.rules)) if self.weights is None or self.weights[i] != 0]

    @property
    def _places(self) -> list[tuple[int, int]]:
        place = {i: p for p, i in enumerate(self._active)}
        return [(place[i], i) for i in self._reading if i in place]

    def _shared(self, n: int) -> list[CompiledRule | None]:
        if n not in self._by_length:
            reading = set(self._reading)
            self._by_length[n] = [
                None if i in reading else self._priced(self.templates[i].compile(n, _no_tokens)) for i in self._active
            ]
        return self._by_length[n]

    def _meets(self, tokens: Sequence[Any] | int) -> Meets:
        return _no_tokens if isinstance(tokens, int) else self._conditions.over(tokens)

    def _priced(self, compiled: CompiledRule) -> CompiledRule:
        if self.weights is not None:
            return replace(compiled, weight=float(self.weights[compiled.rule]))
        if np.isnan(compiled.weight):
            label = self.rules[compiled.rule].label
            raise RuleError(f'the weight of "{label}" is still to be learned; fit a RuledCRF, or give a number.')
        return compiled


def _no_tokens(condition: Any) -> np.ndarray:
    raise RuleError(f"{condition!r} asks about tokens, but only the number of tokens is known here.")


def as_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Check that these are rules."""
    if isinstance(rules, Rule):
        return (rules,)
    rules = tuple(rules)
    for rule in rules:
        if not isinstance(rule, Rule):
            raise RuleError(f"rules must be written with the functions of rulefield.rules; got {rule!r}.")
    return rules


def compile_rules(
    rules: Iterable[Rule], labels: Sequence[str], scheme: str | None, tokens: Sequence[Any] | int
) -> tuple[CompiledRule, ...]:
    """Compile rules for one input (see :class:`RuleCompiler`, which shares work between inputs)."""
    return RuleCompiler(rules, labels, scheme)(tokens)
