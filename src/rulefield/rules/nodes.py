"""Rules on graphs: which nodes have which labels, related nodes, every node of a type.

``node("page", 3).is_("cover")`` is a statement about one node. ``nodes("cell").is_(3)`` and
``related("blocks").is_("title")`` stand for many nodes, one statement for each, and go inside ``at_most``,
``at_least``, ``exactly``, ``any_of``, ``all_of`` or ``how_many``. Inside ``for_each("page", ...)`` the words ``this()``
and ``related(...)`` refer to the page at hand.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from rulefield.data.graphs import TypedGraph
from rulefield.exceptions import RuleError
from rulefield.rules import logic, numbers, parse
from rulefield.rules.expression import Expression, LabeledTokens
from rulefield.rules.rule import Rule, body_of


@dataclass(frozen=True)
class LabelSet:
    """One label, or any of several (``listed``)."""

    labels: tuple[Any, ...]
    listed: bool = False

    def __repr__(self) -> str:
        return repr(list(self.labels)) if self.listed else repr(self.labels[0])


@dataclass(frozen=True)
class NodeLabels:
    """A graph's labels by type: the world that rules on graphs refer to."""

    graph: TypedGraph
    labels: Mapping[str, Any]


class Subject:
    """What :meth:`is_` says something of: one node, or one statement for each of several nodes."""

    def is_(self, label: Any) -> Rule:
        """State that it has the label (or one of a list of labels); of several nodes, one statement for each."""
        return Rule(Is(self, _label_set(label)))


@dataclass(frozen=True)
class Node(Subject):
    """A node by type and number; say what it is with :meth:`is_`."""

    type_name: str
    number: int

    def __repr__(self) -> str:
        return f"node({self.type_name!r}, {self.number})"


@dataclass(frozen=True)
class This(Subject):
    """The node at hand in a ``for_each``."""

    def __repr__(self) -> str:
        return "this()"


@dataclass(frozen=True)
class Nodes(Subject):
    """All nodes of a type."""

    type_name: str

    def __repr__(self) -> str:
        return f"nodes({self.type_name!r})"


@dataclass(frozen=True)
class Related(Subject):
    """The nodes that a relation joins to a node (``of``, or the one at hand)."""

    relation: str
    of: Node | None = None

    def __repr__(self) -> str:
        return f"related({self.relation!r}{'' if self.of is None else f', of={self.of!r}'})"


@dataclass(frozen=True)
class Is(Expression):
    """The subject has one of these labels."""

    subject: Subject
    wanted: LabelSet

    @property
    def is_many(self) -> bool:
        """Whether it stands for several statements."""
        return isinstance(self.subject, Nodes | Related)

    def amount(self, world: NodeLabels) -> int:
        """0 if the node has one of the labels, else 1; refused while the node is not known."""
        if not isinstance(self.subject, Node):
            raise _needs_graph(self)
        return int(world.labels[self.subject.type_name][self.subject.number] not in self.wanted.labels)

    def __repr__(self) -> str:
        return f"{self.subject!r}.is_({self.wanted!r})"


def _needs_graph(expression: Expression) -> RuleError:
    return RuleError(
        f"{expression!r} refers to nodes that only a graph fixes; judge the whole rule with violation_on_graph."
    )


@dataclass(frozen=True)
class _Open(Expression):
    """A statement whose nodes are known only once there is a graph; it names a type or a relation."""

    name: str
    body: Expression

    word: ClassVar[str]

    def amount(self, world: NodeLabels) -> int:
        """Refuse: the statement must be grounded first."""
        raise _needs_graph(self)

    @property
    def children(self) -> tuple[Expression, ...]:
        """The statement inside."""
        return (self.body,)

    def __repr__(self) -> str:
        return f"{self.word}({self.name!r}, {self.body!r})"


class ForEach(_Open):
    """The statement holds for every node of a type; it fails by the sum over these nodes."""

    word = "for_each"


class Along(_Open):
    """A rule of sequences holds down every path of a relation; it fails by the sum over the paths."""

    word = "along"


@dataclass(frozen=True)
class OnPath(Expression):
    """A rule of sequences holds for the labels of these nodes, in this order."""

    type_name: str
    numbers: tuple[int, ...]
    body: Expression

    def amount(self, world: NodeLabels) -> int:
        """By how much the labels of the path break the rule."""
        labels = world.labels[self.type_name]
        return int(self.body.amount(LabeledTokens(self.numbers, [str(labels[k]) for k in self.numbers])))


@dataclass(frozen=True)
class HowMany:
    """How many of the statements hold; a term of a number."""

    part: Expression

    def value(self, world: NodeLabels) -> int:
        """Count in a labeling, after grounding."""
        members = self.part.children if isinstance(self.part, logic.Combination) else (self.part,)
        return sum(member.holds(world) for member in members)

    def __repr__(self) -> str:
        return f"how_many({self.part!r})"


# --- what users write ------------------------------------------------------------------------


def node(type_name: str, number: int) -> Node:
    """Return the node of a type with that number (its row in the type's features)."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise RuleError(f"node needs a type and a whole number >= 0; got {number!r}.")
    return Node(_name(type_name, "node"), int(number))


def nodes(type_name: str) -> Nodes:
    """All nodes of a type: goes inside at_most, at_least, exactly, any_of, all_of or how_many."""
    return Nodes(_name(type_name, "nodes"))


def this() -> This:
    """Return the node that ``for_each`` is at."""
    return This()


def related(relation: str, of: Node | None = None) -> Related:
    """Nodes that a relation of the graph joins to the node at hand (or to ``of``), in the relation's direction."""
    if of is not None and not isinstance(of, Node):
        raise RuleError(f"of must be a node, such as node('page', 0); got {of!r}.")
    return Related(_name(relation, "related"), of)


def for_each(type_name: str, rule: Rule) -> Rule:
    """State that the rule holds for every node of a type; fails by the sum over the nodes."""
    return Rule(ForEach(_name(type_name, "for_each"), body_of(rule, "for_each")))


def along(relation: str, rule: Rule) -> Rule:
    """State that a rule of sequences holds down every path of a relation: ``along("below", followed_by("B", ["I", "E"]))``.

    A path goes from node to node as long as each is the only one that the relation leads to, and is led to from the one
    before alone; every node lies on one path. Labels are read without a scheme. Fails by the sum over the paths.
    """
    body = body_of(rule, "along")
    if any(isinstance(part, Is | _Open) for part in _parts(body)):
        raise RuleError(f"along needs a rule of sequences, such as followed_by('B', 'I'); got {body!r}.")
    return Rule(Along(_name(relation, "along"), body))


def _parts(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in expression.children:
        yield from _parts(child)


def how_many(rule: Rule) -> numbers.Number:
    """Count the nodes for which the statement holds, to compare: ``how_many(nodes("cell").is_(3)) <= 1``."""
    part = body_of(rule, "how_many")
    if not isinstance(part, Is):
        raise RuleError(f"how_many counts nodes, as in how_many(nodes('cell').is_('x')); got {part!r}.")
    term: Any = HowMany(part)
    return numbers.Number(((1, term),))


def _label_set(label: Any) -> LabelSet:
    listed = isinstance(label, Iterable) and not isinstance(label, str)
    labels = tuple(label) if listed else (label,)
    labels = tuple(x.item() if isinstance(x, np.generic) else x for x in labels)
    if not labels or not all(isinstance(x, str | int) and x != "" for x in labels):
        raise RuleError(f"is_ needs a label (a name or a whole number) or a list of labels; got {label!r}.")
    return LabelSet(labels, listed)


def _name(name: Any, function: str) -> str:
    if not isinstance(name, str) or not name:
        raise RuleError(f"{function} needs a name first; got {name!r}.")
    return name


parse.FUNCTIONS.update({f.__name__: f for f in (node, nodes, this, related, for_each, along, how_many)})
parse.METHODS.add("is_")


# --- meaning: from open statements to statements about numbered nodes -------------------------

At = tuple[str, int] | None


def ground(expression: Expression, graph: TypedGraph) -> Iterator[Expression]:
    """Yield the ground statements of a rule, made of :class:`Is` about nodes only; the rule's amount is the sum of theirs."""
    if isinstance(expression, ForEach):
        yield from _at_each_node(expression, graph)
    elif isinstance(expression, Along):
        type_name, paths = paths_of(graph, expression.name)
        yield from (OnPath(type_name, path, expression.body) for path in paths)
    else:
        yield _grounded(expression, graph, None)


def _at_each_node(expression: ForEach, graph: TypedGraph) -> Iterator[Expression]:
    for number in range(count_nodes(graph, expression.name)):
        yield _grounded(expression.body, graph, (expression.name, number))


def _grounded(expression: Expression, graph: TypedGraph, at: At) -> Expression:
    if isinstance(expression, Is):
        if expression.is_many:
            how = "any_of(...), all_of(...), at_most(1, ...)"
            raise RuleError(f"{expression!r} stands for many nodes; say how many: {how}.")
        return next(_spread((expression,), graph, at))
    if isinstance(expression, Along):
        raise RuleError(f"{expression!r} stands by itself; it cannot be a part of another rule.")
    if isinstance(expression, ForEach):
        return logic.all_hold(_at_each_node(expression, graph))
    if isinstance(expression, numbers.Comparison):
        left, right = (_number(side, graph, at) for side in (expression.left, expression.right))
        return replace(expression, left=left, right=right)
    if isinstance(expression, logic.Combination):
        spread = _spread(expression.parts, graph, at)
        parts = spread if expression.counts else (_grounded(part, graph, at) for part in expression.parts)
        return replace(expression, parts=tuple(parts))
    raise RuleError(
        f"{expression!r} refers to sequences; on a graph write node, nodes, this, related, for_each, how_many, "
        "or along(relation, ...) around it."
    )


def _spread(parts: Iterable[Expression], graph: TypedGraph, at: At) -> Iterator[Expression]:
    for part in parts:
        if isinstance(part, Is):
            type_name, members = members_of(part.subject, graph, at)
            yield from (Is(Node(type_name, int(k)), part.wanted) for k in members)
        else:
            yield _grounded(part, graph, at)


def _number(number: numbers.Number, graph: TypedGraph, at: At) -> numbers.Number:
    terms: list[Any] = []
    for factor, term in number.terms:
        if not isinstance(term, HowMany):
            raise RuleError(
                f"{term!r} counts tokens of a sequence; on a graph write how_many(nodes('cell').is_('x'))."
            )
        terms.append((factor, HowMany(logic.all_hold(_spread((term.part,), graph, at)))))
    return numbers.Number(tuple(terms), number.constant)


def members_of(subject: Subject, graph: TypedGraph, at: At) -> tuple[str, np.ndarray]:
    """Type and numbers of the nodes that a subject stands for."""
    if isinstance(subject, Nodes):
        return subject.type_name, np.arange(count_nodes(graph, subject.type_name))
    if isinstance(subject, Node):
        _check_number(graph, subject)
        return subject.type_name, np.array([subject.number])
    if not isinstance(subject, Related):
        if at is None:
            raise RuleError("this() has a meaning only inside for_each(type, ...).")
        return at[0], np.array([at[1]])
    source, target, pairs = relation_of(graph, subject.relation)
    begin = subject.of or (None if at is None else Node(*at))
    if begin is None:
        raise RuleError(
            f"related({subject.relation!r}) needs a node: use it inside for_each, or give of=node({source!r}, 0)."
        )
    if begin.type_name != source:
        raise RuleError(
            f"the relation {subject.relation!r} goes from {source!r}; it says nothing of a {begin.type_name!r}."
        )
    _check_number(graph, begin)
    return target, pairs[pairs[:, 0] == begin.number, 1]


def relation_of(graph: TypedGraph, name: str) -> tuple[str, str, np.ndarray]:
    """Return a relation of the graph."""
    if name not in graph.relations:
        raise RuleError(f"the graph has no relation {name!r}; it has {sorted(graph.relations) or 'none'}.")
    return graph.relations[name]


def paths_of(graph: TypedGraph, relation: str) -> tuple[str, list[tuple[int, ...]]]:
    """Type and paths of a relation: maximal runs of nodes in which each has one successor, and that has one predecessor."""
    source, target, pairs = relation_of(graph, relation)
    if source != target:
        raise RuleError(f"along needs a relation inside one type; {relation!r} goes from {source!r} to {target!r}.")
    n = count_nodes(graph, source)
    pairs = np.unique(pairs, axis=0)
    single = [np.bincount(ends, minlength=n)[ends] == 1 for ends in pairs.T]
    after = dict(pairs[single[0] & single[1]].tolist())
    inner = set(after.values())
    paths = []
    for head in range(n):
        if head not in inner:
            path = [head]
            while path[-1] in after:
                path.append(after[path[-1]])
            paths.append(tuple(path))
    if sum(map(len, paths)) < n:
        raise RuleError(f"along needs a relation without circles; {relation!r} leads back to where it began.")
    return source, paths


def count_nodes(graph: TypedGraph, type_name: str) -> int:
    """Count the nodes of a type; a type that the graph has not is an error."""
    if type_name not in graph.nodes:
        raise RuleError(f"the graph has no nodes {type_name!r}; it has {list(graph.types)}.")
    return int(graph.nodes[type_name].shape[0])


def _check_number(graph: TypedGraph, node: Node) -> None:
    n = count_nodes(graph, node.type_name)
    if node.number >= n:
        raise RuleError(f"{node!r} does not exist: the graph has {n} of that type, numbered from 0.")


def violation_on_graph(rule: Rule, graph: TypedGraph, labels: Mapping[str, Any]) -> int:
    """By how much a labeling (labels by type) breaks a rule, from the definition."""
    world = NodeLabels(graph, labels)
    return sum(int(statement.amount(world)) for statement in ground(rule.body, graph))
