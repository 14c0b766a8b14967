"""Rules compiled for one graph: logic factors where they say it all, rows with auxiliary variables elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rulefield.data.graphs import TypedGraph
from rulefield.exceptions import RuleError
from rulefield.problem.logic import GraphRows, Logic, LogicFactors
from rulefield.rules import logic
from rulefield.rules.expression import Expression
from rulefield.rules.graph.factors import FactorBuilder, GraphRowBuilder
from rulefield.rules.graph.nested import GroundCompiler
from rulefield.rules.graph.paths import PathRules
from rulefield.rules.labels import hint
from rulefield.rules.nodes import (
    Along,
    ForEach,
    Is,
    LabelSet,
    Node,
    Related,
    This,
    count_nodes,
    ground,
    members_of,
    paths_of,
    relation_of,
)
from rulefield.rules.rule import Rule, as_rules


class GraphRuleCompiler:
    """Compiles a list of rules for graph after graph; ``classes`` are the labels of each type.

    With ``countable``, hard rules are compiled so that what is broken of them counts as the rule's own amount (for relaxing);
    otherwise a hard statement becomes as many clauses as serve engines best.
    """

    def __init__(self, rules: Sequence[Any], classes: Mapping[str, Any], countable: bool = False):
        self.rules, self.countable = as_rules(rules), countable
        self._paths: dict[tuple[int, str], PathRules] = {}
        self._numbers = {t: {x: k for k, x in enumerate(np.asarray(c).tolist())} for t, c in classes.items()}
        for rule in self.rules:
            if rule.is_open:
                raise RuleError(f"{rule.still_open()}; give it a number with .soft(2.5).")

    def compile(self, graph: TypedGraph) -> tuple[LogicFactors, GraphRows]:
        """Compile all rules for one graph; nodes are numbered types sorted by name, one after the other."""
        job = _Job(graph, self._numbers, self.countable)
        for number, rule in enumerate(self.rules):
            if isinstance(rule.body, Along):
                self._add_paths(job, rule, number)
            else:
                job.add(rule, number)
        return job.factors.build(), job.rows.build()

    def _add_paths(self, job: "_Job", rule: Rule, number: int) -> None:
        """Compile a rule of sequences down the paths of a relation; its tables are made once for all graphs."""
        assert isinstance(rule.body, Along)
        type_name, paths = paths_of(job.graph, rule.body.name)
        if (number, type_name) not in self._paths:
            if type_name not in self._numbers:
                raise RuleError(f"the model has no nodes {type_name!r}; it has {sorted(self._numbers)}.")
            inner = Rule(rule.body.body, rule.weight, rule.per, rule.name)
            self._paths[number, type_name] = PathRules(inner, [str(x) for x in self._numbers[type_name]])
        self._paths[number, type_name].add(paths, job.first[type_name], job.factors, job.rows, number)


class _Job:
    """The compilation of rules for one graph."""

    def __init__(self, graph: TypedGraph, label_numbers: Mapping[str, dict[Any, int]], countable: bool):
        self.graph, self.label_numbers, self.countable = graph, label_numbers, countable
        counts = graph.n_nodes
        begin, self.first = 0, {}
        for t in sorted(counts):
            self.first[t] = begin
            begin += counts[t]
        self.factors, self.rows = FactorBuilder(), GraphRowBuilder(begin)

    def add(self, rule: Rule, number: int) -> None:
        """Compile one rule."""
        body = rule.body
        group_type = body.name if isinstance(body, ForEach) else None
        inner = body.body if isinstance(body, ForEach) else body
        once = rule.per == "once" and not rule.is_hard
        weight = float(rule.weight)
        if _is_flat_count(inner) and not (once and group_type is not None):
            self._add_counts(inner, group_type, weight, number)
            return
        statements = list(ground(body, self.graph))
        if once:
            statements = [logic.all_hold(statements)]  # pays once, however many instances fail
        compiler = GroundCompiler(self.literal, self.factors, self.rows, weight, number, self.countable)
        for statement in statements:
            compiler.add(statement)

    def labels_of(self, type_name: str, wanted: LabelSet) -> tuple[list[int], int]:
        """Numbers of the wanted labels, and how many labels the type has."""
        known = self.label_numbers.get(type_name)
        if known is None:
            raise RuleError(f"the model has no nodes {type_name!r}; it has {sorted(self.label_numbers)}.")
        for label in wanted.labels:
            if label not in known:
                near = hint(str(label), map(str, known), f"known are {list(known)[:12]}.")
                raise RuleError(f"nodes {type_name!r} have no label {label!r}; {near}")
        return sorted({known[label] for label in wanted.labels}), len(known)

    def literal(self, statement: Is) -> tuple[int, frozenset[int], int]:
        """Node number, wanted label numbers and number of labels of a ground statement."""
        node = statement.subject
        assert isinstance(node, Node)
        chosen, n = self.labels_of(node.type_name, statement.wanted)
        return self.first[node.type_name] + node.number, frozenset(chosen), n

    # --- counts over whole sets of nodes, without a loop over nodes ---------------------------

    def _add_counts(self, statement: Expression, group_type: str | None, weight: float, rule: int) -> None:
        """at_most, at_least, exactly, any_of or all_of over nodes; one factor for each node of ``group_type``."""
        n_groups = 1 if group_type is None else count_nodes(self.graph, group_type)
        parts = [self._members(part, group_type, n_groups) for part in statement.children]
        size = np.sum([np.bincount(group, minlength=n_groups) for group, *_ in parts], axis=0)
        assert isinstance(statement, logic.Combination)
        low, high = statement.bounds(size)
        one = statement.name in logic.NUMBERED and statement.number == 1
        if one and statement.name == "exactly":
            self._emit(Logic.xor, parts, np.ones(n_groups, dtype=bool), False, 0, weight, rule)
            return
        tight, wanted = np.greater(size, high), np.broadcast_to(np.greater(low, 0), size.shape)
        if tight.any():
            self._emit(Logic.budget, parts, tight, False, high, weight, rule)
        if wanted.any() and (one or statement.name == "any_of"):
            self._emit(Logic.any_of, parts, wanted, False, 0, weight, rule)
        elif wanted.any():
            self._emit(Logic.budget, parts, wanted, True, size - low, weight, rule)

    def _members(
        self, part: Expression, group_type: str | None, n_groups: int
    ) -> tuple[np.ndarray, np.ndarray, list[int], int]:
        """Group and union number of each node that a part refers to, its label numbers, and its number of labels."""
        assert isinstance(part, Is)
        groups, subject = np.arange(n_groups), part.subject
        if isinstance(subject, This):
            if group_type is None:
                raise RuleError("this() has a meaning only inside for_each(type, ...).")
            group, member, type_name = groups, groups, group_type
        elif isinstance(subject, Related) and subject.of is None and group_type is not None:
            source, type_name, pairs = relation_of(self.graph, subject.relation)
            if source != group_type:
                raise RuleError(
                    f"the relation {subject.relation!r} goes from {source!r}; it says nothing of a {group_type!r}."
                )
            group, member = pairs[:, 0], pairs[:, 1]
        else:
            if isinstance(subject, Node):
                next(ground(part, self.graph))  # checks that the node exists
                type_name, once = subject.type_name, np.array([subject.number])
            else:
                type_name, once = members_of(subject, self.graph, None)
            group, member = np.repeat(groups, len(once)), np.tile(once, n_groups)
        chosen, n_labels = self.labels_of(type_name, part.wanted)
        return group, self.first[type_name] + member, chosen, n_labels

    def _emit(
        self, kind: Logic, parts: list[Any], keep: np.ndarray, negate: bool, limit: Any, weight: float, rule: int
    ) -> None:
        """Add one factor for each kept group over the atoms of all parts (of their opposites, with ``negate``)."""
        group, node, label, negated = [], [], [], []
        for members, numbers_, chosen, n_labels in parts:
            flag = negate and len(chosen) == 1
            labels = np.setdiff1d(np.arange(n_labels), chosen) if negate and not flag else np.array(chosen)
            group.append(np.repeat(members, len(labels)))
            node.append(np.repeat(numbers_, len(labels)))
            label.append(np.tile(labels, len(numbers_)))
            negated.append(np.full(len(numbers_) * len(labels), flag))
        of_group = np.concatenate(group)
        order = np.argsort(of_group, kind="stable")
        order = order[keep[of_group[order]]]
        size = np.bincount(of_group, minlength=len(keep))[keep]
        bounds = np.broadcast_to(limit, keep.shape)[keep]
        joined = [np.concatenate(x)[order] for x in (node, label, negated)]
        self.factors.add(kind, size, joined[0], joined[1], joined[2], bounds, weight, rule)


def _is_flat_count(statement: Expression) -> bool:
    counted = isinstance(statement, logic.Combination) and statement.counts
    return counted and all(isinstance(part, Is) for part in statement.children)
