"""How sure a model is of its labels, under its rules, in the time of a few decodings."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rulefield.encode.schemes import OUTSIDE
from rulefield.exceptions import InputError, RulefieldError
from rulefield.rules.finding.check import amounts_table

K = 30
LEAST, MOST_EXACT = 0.05, 4
"""Where the rules leave less than this share of the k best, and are no more than this many, sums are exact."""


class Certainty(NamedTuple):
    """Probability of each predicted label, (n,) for each sequence, and of each whole labeling, (n_sequences,)."""

    tokens: list[np.ndarray]
    whole: np.ndarray

    @property
    def doubt(self) -> np.ndarray:
        """How uncertain each labeling is: -log p over the root of its length (long ones are not all that is uncertain)."""
        length = np.array([max(len(row), 1) for row in self.tokens])
        return -np.log(np.maximum(self.whole, 1e-300)) / np.sqrt(length)


def certainty(
    model: Any, X: Sequence[Any], predicted: Sequence[Sequence[Any]], rules: Sequence[Any] = (), *, k: int = K
) -> Certainty:
    r"""Probabilities of predictions among labelings that obey the hard rules, soft ones paid for.

    With p the model's own distribution and c(y) what the rules cost, the mass of a set of labelings S under the rules is
    :math:`p(S) - \sum_{y \in S \cap K} p(y) (1 - e^{-c(y)})` over the same of all labelings, where K are the k best: exact
    where the others break no rule. Exact sums over rules (:meth:`ChainCRF.predict_marginals`) cost a hundred times more.

    Parameters
    ----------
    model : ChainCRF, RuledCRF or SegmentCRF, fitted
    X : list of sequences
    predicted : list of label sequences
    rules : list of rules
    k : int
        Labelings of each sequence whose rules are counted.
    """
    plain = getattr(model, "estimator_", model)
    tables = plain.predict_marginals(X, rules=[], output="array")
    best = plain.predict_kbest(X, rules=[], k=k)
    kept = _kept(X, best, list(rules), plain)
    places = _places(plain, predicted)
    tokens, whole = [], np.zeros(len(best))
    for i, (table, row, own) in enumerate(zip(tables, best, predicted)):
        share = np.array([p for _, p in row])
        if rules and share @ kept[i] < LEAST * share.sum() and (exact := _exact(model, X[i], own, rules, places)):
            tokens.append(exact[0])
            whole[i] = exact[1]
            continue
        lost = share * (1 - kept[i])
        left = max(1 - lost.sum(), 1e-12)
        mass = np.array([line[places[str(label)]] for line, label in zip(table, own)])
        for (labels, _), gone in zip(row, lost):
            if gone:
                mass = mass - gone * np.array([a == b for a, b in zip(labels, own)])
        tokens.append(np.clip(mass / left, 0.0, 1.0))
        found = next((p * share for (labels, p), share in zip(row, kept[i]) if labels == own), None)
        whole[i] = min(found / left, 1.0) if found is not None else float(np.prod(tokens[-1]))
    return Certainty(tokens, whole)


def _exact(
    model: Any, x: Any, own: Sequence[Any], rules: Sequence[Any], places: dict[str, int]
) -> tuple[np.ndarray, float] | None:
    """Exact sums for one sequence, if rules are few: the k best say nothing of labelings that obey them."""
    if len(rules) > MOST_EXACT:
        return None
    try:
        table = model.predict_marginals([x], rules=rules, output="array")[0]
        (best, p), *_ = model.predict_kbest([x], rules=rules, k=1)[0]
    except RulefieldError:  # too many after all, no labeling obeys them, or two stages
        return None
    mass = np.array([line[places[str(label)]] for line, label in zip(table, own)])
    return mass, float(p) if list(best) == list(own) else float(np.prod(mass))


def _kept(X: Sequence[Any], best: list[Any], rules: list[Any], model: Any) -> list[np.ndarray]:
    """Return what each of the k best keeps of its probability: exp(-cost)."""
    if not rules:
        return [np.ones(len(row)) for row in best]
    labelings = [labels for row in best for labels, _ in row]
    tokens = [x for x, row in zip(X, best) for _ in row]
    amounts = amounts_table(rules, tokens, labelings, model.scheme or "auto", sorted(label_set(model)))
    cost = np.array([[rule.cost(float(a)) if a else 0.0 for a in row] for rule, row in zip(rules, amounts)]).sum(
        axis=0
    )
    return np.split(np.exp(-cost), np.cumsum([len(row) for row in best])[:-1])


def label_set(model: Any) -> set[str]:
    """Token labels that the model can give."""
    inner = getattr(model, "estimator_", model)
    return {str(label) for label in (inner._coder.words if inner._kind == "segments" else inner.classes_)}


def _places(model: Any, predicted: Sequence[Sequence[Any]]) -> dict[str, int]:
    """Column of each label in the model's marginals; those of segments are by type."""
    place = {str(label): k for k, label in enumerate(model.classes_)}
    if model._kind != "segments" or model.scheme is None:
        return place
    names = {str(label) for row in predicted for label in row}
    return {name: place[name if name == OUTSIDE else name.split("-", 1)[1]] for name in names}


def check_sequence_model(model: Any) -> None:
    """Refuse what does not label sequences."""
    if getattr(model, "_kind", None) not in ("chain", "ruled", "segments"):
        raise InputError(
            f"this needs a ChainCRF, RuledCRF or SegmentCRF (of a TextParser: its model_); got a {type(model).__name__}."
        )
