"""Labels of typed graphs as numbers: each type has its own labels; one may be unknown, or one of a set."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rulefield.data.graphs import TypedGraph
from rulefield.exceptions import InputError, LabelError

UNKNOWN = -1
_OPTIONS = (set, frozenset, list, tuple, np.ndarray)


@dataclass(frozen=True, eq=False)
class GraphLabels:
    """The labels of all types, whose places are the numbers that models use, and the way between names and numbers."""

    classes: dict[str, np.ndarray]

    @cached_property
    def _number(self) -> dict[str, dict[Any, int]]:
        """Number of each label, by type."""
        return {t: {label: k for k, label in enumerate(c.tolist())} for t, c in self.classes.items()}

    @classmethod
    def fit(
        cls, graphs: Sequence[TypedGraph], y: Sequence[Any], given: Mapping[str, Any] | None = None
    ) -> "GraphLabels":
        """Collect the labels that occur; ``given`` fixes a type's labels: a list of names, or their number."""
        types = sorted({t for g in graphs for t in g.nodes})
        classes = {}
        for t in types:
            if given is not None and t in given:
                classes[t] = _given_classes(t, given[t])
            else:
                seen = [_known(labels_of(graph, labels, t)) for graph, labels in zip(graphs, y)]
                classes[t] = _collect(t, seen)
        return cls(classes)

    @property
    def counts(self) -> dict[str, int]:
        """Number of labels of each type."""
        return {t: len(c) for t, c in self.classes.items()}

    def number(self, type_name: str, label: Any) -> int:
        """Return the number of a label."""
        try:
            return self._number[type_name][label]
        except (KeyError, TypeError):
            known = list(self._number.get(type_name, {}))[:12]
            raise LabelError(f"nodes {type_name!r} have no label {label!r}; known are {known}.") from None

    def encode(self, graph: TypedGraph, labels: Any) -> np.ndarray:
        """Label numbers of all nodes, types sorted by name one after the other.

        ``UNKNOWN`` where the label is None or one of several (a set, list or tuple); :meth:`allowed` tells these.
        """
        parts = [self._encode_type(t, labels_of(graph, labels, t)) for t in sorted(self.classes) if t in graph.nodes]
        unknown = [t for t in graph.nodes if t not in self.classes]
        if unknown:
            raise InputError(f"the model knows nodes of types {sorted(self.classes)}; got {unknown[0]!r}.")
        return np.concatenate(parts)

    def settled(self, graph: TypedGraph, labels: Any) -> np.ndarray:
        """Like :meth:`encode`, but a node that can have one label only has it: there is nothing to sum over."""
        parts = self.by_type(graph, self.encode(graph, labels), flat=False)
        return np.concatenate(
            [np.zeros_like(part) if len(self.classes[t]) == 1 else part for t, part in parts.items()]
        )

    def _encode_type(self, t: str, values: np.ndarray) -> np.ndarray:
        out = np.full(len(values), UNKNOWN, dtype=np.int64)
        known = _is_known(values)
        names = values[known]
        if names.dtype != object and names.dtype.kind in "iubU" and self.classes[t].dtype.kind in "iubU":
            order = np.argsort(self.classes[t], kind="stable")
            at = np.minimum(np.searchsorted(self.classes[t][order], names), len(order) - 1)
            numbers = order[at]
            if (self.classes[t][numbers] == names).all():
                out[known] = numbers
                return out
        out[known] = [self._only(t, name) for name in names.tolist()]
        return out

    def _only(self, t: str, label: Any) -> int:
        """Return the number of a label, or of the only member of a set; ``UNKNOWN`` where there are several."""
        numbers = self._options(t, label)
        return numbers[0] if len(numbers) == 1 else UNKNOWN

    def _options(self, t: str, label: Any) -> list[int]:
        if not isinstance(label, _OPTIONS):
            return [self.number(t, label)]
        if len(label) == 0:
            raise LabelError(f"a node {t!r} has an empty set of labels; write None if the label is unknown.")
        return sorted({self.number(t, option) for option in label})

    def allowed(self, graph: TypedGraph, labels: Any) -> np.ndarray:
        """Which labels each node may have, flat like unary scores: all of them where None, a set's members in a set."""
        numbers = self.encode(graph, labels)
        types = [t for t in sorted(self.classes) if t in graph.nodes]
        sizes = np.repeat([len(self.classes[t]) for t in types], [graph.nodes[t].shape[0] for t in types])
        begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        mask = np.repeat(numbers == UNKNOWN, sizes)
        known = numbers != UNKNOWN
        mask[begin[:-1][known] + numbers[known]] = True
        given = [(t, label) for t in types for label in labels_of(graph, labels, t).tolist()]
        for v in np.flatnonzero(~known):
            t, label = given[v]
            if label is not None:
                mask[begin[v] : begin[v + 1]] = False
                mask[begin[v] + np.array(self._options(t, label))] = True
        return mask

    def decode(self, graph: TypedGraph, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Names of all labels by type, from numbers laid out as :meth:`encode` does."""
        return {t: self.classes[t][part] for t, part in self.by_type(graph, numbers, flat=False).items()}

    def by_type(self, graph: TypedGraph, values: np.ndarray, flat: bool = True) -> dict[str, np.ndarray]:
        """Cut values of all nodes by type: (n_nodes, n_labels) each where ``flat`` (one for each label), else (n_nodes,)."""
        out, begin = {}, 0
        for t in sorted(self.classes):
            if t in graph.nodes:
                n, width = graph.nodes[t].shape[0], len(self.classes[t]) if flat else 1
                part = values[begin : begin + n * width]
                out[t] = part.reshape(n, width) if flat else part
                begin += n * width
        return out


def labels_of(graph: TypedGraph, labels: Any, t: str) -> np.ndarray:
    """Return the labels of one type's nodes as a 1-D array (object where some are None)."""
    n = graph.nodes[t].shape[0] if t in graph.nodes else 0
    if labels is None:
        return np.full(n, None, dtype=object)
    if not isinstance(labels, Mapping):
        if len(graph.nodes) > 1:
            raise LabelError(
                f"labels of a graph with types {graph.types} must be a dict by type; got {type(labels).__name__}."
            )
        values = labels
    else:
        extra = sorted(set(labels) - set(graph.nodes))
        if extra:
            raise LabelError(
                f"labels are given for {extra[0]!r}, but the graph has nodes of types {list(graph.types)}."
            )
        values = labels.get(t)
    if values is None:
        return np.full(n, None, dtype=object)
    array = _as_array(values)
    if len(array) != n:
        raise LabelError(f"nodes {t!r} need {n} labels, one for each; got {len(array)}.")
    return array


def _as_array(values: Any) -> np.ndarray:
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values
    items = list(values)
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    if any(isinstance(item, _OPTIONS) for item in items):
        return array
    names = {isinstance(item, str) for item in items}
    if len(names) == 1 and None not in items:
        plain = np.asarray(items)
        return plain if plain.ndim == 1 and plain.dtype.kind in "iubUf" else array
    return array


def _known(values: np.ndarray) -> np.ndarray:
    return values[_is_known(values)]


def _is_known(values: np.ndarray) -> np.ndarray:
    if values.dtype != object:
        return np.ones(len(values), dtype=bool)
    return np.array([value is not None for value in values.tolist()], dtype=bool)


def _collect(t: str, seen: Iterable[np.ndarray]) -> np.ndarray:
    parts = [part for part in seen if len(part)]
    if not parts:
        raise LabelError(f"no node {t!r} has a known label; say how many there are with labels={{{t!r}: 3}}.")
    items = [item for part in parts for item in _flat(part)]
    if len({isinstance(item, str) for item in items}) > 1:
        raise LabelError(f"labels of the nodes {t!r} must all be names or all be whole numbers.")
    names = np.unique(items)
    if names.dtype.kind not in "iubUf":
        raise LabelError(f"labels of the nodes {t!r} must be names or whole numbers; got {items[0]!r}.")
    return names


def _flat(labels: np.ndarray) -> set[Any]:
    """All labels that occur, also inside sets."""
    found: set[Any] = set()
    for item in labels.tolist():
        found.update(item if isinstance(item, _OPTIONS) else (item,))
    return found


def _given_classes(t: str, value: Any) -> np.ndarray:
    if isinstance(value, int | np.integer):
        if value < 1:
            raise LabelError(f"labels[{t!r}] must be at least 1; got {value}.")
        return np.arange(int(value))
    names = np.asarray(list(value))
    if len(np.unique(names)) != len(names) or names.ndim != 1 or len(names) == 0:
        raise LabelError(f"labels[{t!r}] must be different names or a number of labels; got {value!r}.")
    return names
