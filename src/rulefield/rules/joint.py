"""Rules over several tasks: compiled by the chain's compiler over letters, the joint labels that a rule can tell apart.

A rule about persons and verbs sees 3 x 2 kinds of joint labels under BIO (B-person, I-person, others; verbs, others),
whatever the 9 x 12 or 60 x 60 joint labels of the model. Its tables are over such letters.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.problem.chain_rules import Tally
from rulefield.rules import facts, numbers
from rulefield.rules.chain.classes import ClassSpace
from rulefield.rules.chain.compiler import RuleCompiler, RuleTemplate
from rulefield.rules.chain.tallies import arriving_tally
from rulefield.rules.chain.translate import PatternTables
from rulefield.rules.expression import Expression, ambiguous_pattern, unknown_task
from rulefield.rules.labels import LabelTable
from rulefield.rules.patterns import AnyPattern, JointPattern, Pattern, unknown_pattern
from rulefield.rules.rule import Rule, as_rules

Tasks = Mapping[str, PatternTables]


class JointRuleCompiler(RuleCompiler):
    """Compiles rules over the label sets of several tasks.

    A pattern that names no task is one of the only task that has a matching label; otherwise it is refused.

    Parameters
    ----------
    rules : iterable of Rule
    tasks : dict of task to (labels, scheme)
        In the order in which joint states number them, the last task fastest.

    Attributes
    ----------
    letters : tuple of ndarray
        For each rule int64 (S,): the letter of each joint label, by which the rule's compiled tables are indexed.
    """

    def __init__(self, rules: Iterable[Rule], tasks: Mapping[str, tuple[Sequence[str], str | None]]):
        self.rules = as_rules(rules)
        self.tasks = {
            name: PatternTables(LabelTable([str(label) for label in labels], scheme))
            for name, (labels, scheme) in tasks.items()
        }
        alphabets = [_alphabet(rule, self.tasks) for rule in self.rules]
        self.letters = tuple(alphabet.letters for alphabet in alphabets)
        self._take(RuleTemplate(rule, i, own) for i, (rule, own) in enumerate(zip(self.rules, alphabets)))


def _alphabet(rule: Rule, tasks: Tasks) -> "Alphabet":
    try:
        return Alphabet(patterns_of(rule.body), tasks)
    except RuleError as error:
        raise RuleError(f'rule "{rule.label}": {error}') from None


def patterns_of(expression: Expression) -> Iterator[AnyPattern]:
    """Every label pattern in an expression."""
    for child in expression.children:
        yield from patterns_of(child)
    if isinstance(expression, numbers.Comparison):
        yield from (count.pattern for _, count in expression.left.terms + expression.right.terms)
    elif isinstance(expression, facts.At):
        yield from (pattern for _, pattern in expression.asked)
    elif isinstance(expression, facts.Fact):
        yield from expression.patterns


class Alphabet(PatternTables):
    """Tables of patterns over the joint labels that some patterns can tell apart, its letters.

    Letters are the product of one class of labels per task: two labels of a task are in one class where no table of any
    of the patterns differs between them. It takes the place of a label set's tables in the compiler.
    """

    def __init__(self, patterns: Iterable[AnyPattern], tasks: Tasks):
        self._tasks = list(tasks.values())
        self._names = list(tasks)
        own: list[list[Pattern]] = [[] for _ in self._tasks]
        for pattern in patterns:
            for k, plain in self._parts(pattern):
                own[k].append(plain)
        classes = [_classes(table, some) for table, some in zip(self._tasks, own)]
        sizes = [len(first) for first, _ in classes]
        digits = np.unravel_index(np.arange(int(np.prod(sizes))), sizes)
        self._label = [first[digit] for (first, _), digit in zip(classes, digits)]
        grid = np.ix_(*(number for _, number in classes))
        self.letters = np.arange(int(np.prod(sizes))).reshape(sizes)[grid].ravel()
        self.labels = range(int(np.prod(sizes)))  # type: ignore[assignment]
        self.matches = cache(self._matches)
        self.starts = cache(self._starts)
        self.ends = cache(self._ends)
        self.start_tally = cache(self._start_tally)

    def _parts(self, pattern: AnyPattern) -> list[tuple[int, Pattern]]:
        """Numbers of the tasks that a pattern refers to, and what it asks of each."""
        return [(self._task(part, pattern), part.within(None)) for part in pattern.parts]

    def _task(self, part: Pattern, pattern: AnyPattern) -> int:
        if part.task is not None and part.task not in self._names:
            raise RuleError(unknown_task(part.task, pattern, self._names))
        plain = part.within(None)
        places = range(len(self._names)) if part.task is None else [self._names.index(part.task)]
        found = [k for k in places if plain.matches_some(self._tasks[k].labels)]
        if len(found) > 1:
            raise RuleError(ambiguous_pattern(pattern, [self._names[k] for k in found]))
        if not found:
            raise RuleError(unknown_pattern(plain.alternatives[0], [self._tasks[k].labels for k in places]))
        plain.check(self._tasks[found[0]].labels)
        return found[0]

    def _matches(self, pattern: AnyPattern) -> np.ndarray:
        found = [self._tasks[k].matches(plain)[self._label[k]] for k, plain in self._parts(pattern)]
        return np.logical_and.reduce(found)

    def _starts(self, pattern: AnyPattern) -> np.ndarray:
        if isinstance(pattern, JointPattern):
            match = self.matches(pattern)
            return (np.append(~match, True)[:, None] & match).astype(np.int32)
        ((k, plain),) = self._parts(pattern)
        own, label = self._tasks[k].starts(plain), self._label[k]
        return own[np.ix_(np.append(label, len(own) - 1), label)]

    def _ends(self, pattern: AnyPattern) -> np.ndarray:
        if isinstance(pattern, JointPattern):
            match = self.matches(pattern)
            return (match[:, None] & ~match).astype(np.int32)
        ((k, plain),) = self._parts(pattern)
        return self._tasks[k].ends(plain)[np.ix_(self._label[k], self._label[k])]

    def _start_tally(self, pattern: AnyPattern, space: ClassSpace) -> Tally:
        if isinstance(pattern, JointPattern):
            return arriving_tally(self.starts(pattern), space)
        ((k, plain),) = self._parts(pattern)
        return self._tasks[k].start_tally(plain, space).relabeled(self._label[k])


def _classes(tables: PatternTables, patterns: Sequence[Pattern]) -> tuple[np.ndarray, np.ndarray]:
    """Classes of labels that no table of any pattern tells apart: the first label of each, and the class of each label."""
    m = len(tables.labels)
    told: list[np.ndarray] = [np.zeros((1, m), np.int64)]
    for pattern in patterns:
        starts, ends = tables.starts(pattern), tables.ends(pattern)
        steady = tables.start_tally(pattern, ClassSpace()).node
        told += [tables.matches(pattern)[None], starts, starts[:m].T, ends, ends.T, steady]
    _, first, number = np.unique(np.vstack(told), axis=1, return_index=True, return_inverse=True)
    return first, number.reshape(-1)
