"""The entry point of compilation: rules, a label set and a scheme in; compiled rules for inputs out."""

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.exceptions import RuleError
from rulefield.parallel import Threads
from rulefield.problem.chain_rules import CompiledRule, Counter, Forms
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
        self._fields = {"rule": number, "weight": _weight(rule), "once": rule.per == "once"}

    def forms(self, n: int) -> Forms:
        """Tables for inputs of n tokens; the same object wherever they do not differ."""
        key = rounded_up(n) if self.grows else 0
        if key not in self._forms:
            self._forms[key] = self.statement.forms(key, f'"{self.rule.label}"')
        return self._forms[key]

    def n_states(self, n: int) -> int:
        """Return in how many states the rule remembers what it has read of n tokens; 1 for a sum, which remembers nothing."""
        forms = self.forms(n)
        if forms.tally is not None:
            return 1
        if forms.automaton is not None:
            return len(forms.automaton.initial)
        return prod(_states_of_counter(counter, n) for counter in forms.counters)

    def compile(self, n: int, meets: Meets) -> CompiledRule:
        """Return the rule for one input, with its own weight (``nan`` while that is to be learned)."""
        token_class, forms = self.space.classes([n], meets), self.forms(n)
        fields = {**self._fields, **vars(forms), "form": forms, "token_class": token_class}
        fields["joinable"] = self.statement.joinable
        fields["find_max"] = partial(self.statement.max_amount, token_class)
        fields["make_rows"] = partial(rows_of, self.statement, token_class, self.n_labels)
        if forms.is_empty:
            fields["find_amount"] = partial(amount_by_truth, self.statement, token_class)
        return _by_hand(fields)


class RuleCompiler:
    """Compiles rules for many inputs of one label set.

    Tables are made once for the label set, which is in the order of the potentials' columns (a table brings its own scheme).
    Rules that do not read tokens are compiled once for each length of input and shared; the others only get new token
    classes. Amounts are right for labelings that the scheme allows. A rule that names an unknown label, or is too large, is
    an error.
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
        self.weights = np.array([_weight(rule) for rule in self.rules], dtype=np.float64)
        self._open = [rule for rule in self.rules if rule.is_open]
        self._of_length: dict[int, list[CompiledRule | None]] = {}

    def __call__(self, tokens: Sequence[Any] | int) -> tuple[CompiledRule, ...]:
        """Compile all rules for one input; the number of tokens is enough where no rule reads them."""
        self.refuse_unlearned()
        n = tokens if isinstance(tokens, int) else len(tokens)
        if n not in self._of_length:
            self._of_length[n] = [None if t.space.reads_tokens else t.compile(n, no_tokens) for t in self.templates]
        compiled = self._of_length[n]
        if any(rule is None for rule in compiled):
            meets = no_tokens if isinstance(tokens, int) else Remembered([tokens])
            compiled = [
                template.compile(n, meets) if rule is None else rule
                for template, rule in zip(self.templates, compiled)
            ]
        return tuple(compiled)  # type: ignore[arg-type]

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

        Labeling j is one of input ``owner[j]``, by default of input j.
        """
        return self.reader(inputs, labelings, owner, threads)

    @property
    def grows(self) -> bool:
        """Whether tables of some rule depend on the number of tokens."""
        return any(template.grows for template in self.templates)

    @cached_property
    def reader(self) -> AmountReader:
        """Reads the amounts of all rules for many inputs at once, whatever their weights."""
        rules = [(template.space, template.grows, template.forms) for template in self.templates]
        return AmountReader(rules, len(self.labels))

    @property
    def reads_tokens(self) -> bool:
        """Whether a rule asks more of an input than its number of tokens."""
        return any(template.space.reads_tokens for template in self.templates)

    def refuse_unlearned(self) -> None:
        """Raise if the weight of a rule is still to be learned."""
        for rule in self._open:
            raise RuleError(f"{rule.still_open()}; fit a RuledCRF, or give a number.")


def _states_of_counter(counter: Counter, n: int) -> int:
    """Return how many values of a count matter within n tokens: those up to its bound, if it goes one way only."""
    low, high = counter.tally.range
    return n + 1 if low < 0 < high else abs(counter.bound) + 2


def _weight(rule: Rule) -> float:
    """Return the rule's weight, nan while it is to be found."""
    return float("nan") if rule.is_open else float(rule.weight)


def _by_hand(fields: dict[str, Any]) -> CompiledRule:
    """Make a compiled rule without its constructor, which takes four times as long: inputs are many."""
    rule = object.__new__(CompiledRule)
    rule.__dict__.update(fields)
    return rule


def compile_rules(
    rules: Iterable[Rule], labels: Sequence[str], scheme: str | None, tokens: Sequence[Any] | int
) -> tuple[CompiledRule, ...]:
    """Compile rules for one input (see :class:`RuleCompiler`, which shares work between inputs)."""
    return RuleCompiler(rules, labels, scheme)(tokens)
