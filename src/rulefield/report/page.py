"""``write_report``: one self-contained page about one model, or about two side by side."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

import rulefield
from rulefield.exceptions import InputError
from rulefield.outputs import check_output, write_whole
from rulefield.report.intervals import difference
from rulefield.report.marks import hues, pieces, render, word_of
from rulefield.report.study import NOTHING, Study, chain_of, study

SHOWN = 50
"""Sequences in each list."""
EXPLAINED = 6
"""Tokens of one sequence that are explained: the wrong ones, then the least certain."""
LEAST_CERTAIN = "by -log probability over the root of the length (else the longest would come first)"
MOST_WRONG = "by wrong tokens"
"""How each list is ordered, as the page says it."""
DOUBTFUL = 0.9
CONFUSIONS, DOUBTED = 2, 0.5
"""Kinds of confusion that the verdict names; a labeling less probable than this is doubted."""
BUDGET = 12_000
"""Tokens shown in one list: a page of long sequences stays under 1 MB by showing fewer of them."""


def write_report(
    model: Any,
    X: Any,
    y: Any,
    path: str | Path,
    *,
    baseline: Any = None,
    rules: Any = None,
    title: str = "Report",
    data: str = "",
    names: Sequence[str] = ("baseline", "model"),
) -> Path:
    """Write a page about a model on labeled sequences: scores, errors, calibration, rules, hard cases.

    Parameters
    ----------
    model : ChainCRF, RuledCRF, SegmentCRF or TextParser, fitted
    X, y : labeled data, as for ``score``
        Of a TextParser: texts and lists of (start, end, label).
    path : path
        The file to write: one page without scripts and references to anything outside, under 1 MB.
    baseline : estimator, optional
        Another model to compare with, on the same data, paired.
    rules : list of rules, optional
        In place of the model's own.
    title, data : str
        Title of the page; what the data are called.
    names : (str, str)
        What baseline and model are called.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import rulefield as rf
    >>> X, y = rf.datasets.make_citations(60, seed=0)
    >>> crf = rf.ChainCRF(scheme="BIO").fit(X[:40], y[:40])
    >>> rf.write_report(crf, X[40:], y[40:], "report.html").name
    'report.html'
    """
    check_output(path)
    new = study(model, list(X), list(y), rules=rules, name=names[1])
    old = None if baseline is None else study(baseline, list(X), list(y), name=names[0])
    if old is not None and len(old.gold) != len(new.gold):
        raise InputError("two models are compared on the same sequences; got different ones.")
    write_whole(path, report_page(new, old, title=title, data=data))
    return Path(path)


def report_page(new: Study, old: Study | None = None, *, title: str = "Report", data: str = "") -> str:
    """Fill the page."""
    types = sorted({*new.types, *(old.types if old else ())})
    doubt = new.certainty.doubt
    uncertain = _first(np.argsort(-doubt, kind="stable"), new, doubt > 0.02)
    worst = _first(np.argsort(-new.wrong, kind="stable"), new, new.wrong > 0)
    lists = [
        ("uncertain", "Least certain", LEAST_CERTAIN, [_shown(new, i, False) for i in uncertain]),
        ("worst", "Most wrong", MOST_WRONG, [_shown(new, i, i in uncertain) for i in worst]),
    ]
    return render(
        "report.html",
        title=title,
        data=data,
        study=new,
        old=old,
        changes=compared(old, new) if old else [],
        hues=hues(types),
        lists=lists,
        effects=[(effect, [_example(new, *example) for example in effect.examples]) for effect in new.effects],
        verdict=verdict(new),
        confusion=_confusion(new),
        facts=facts(new),
        written=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        version=rulefield.__version__,
    )


def _first(order: np.ndarray, of: Study, worth: np.ndarray) -> list[int]:
    """Return the first sequences of an order that are worth a look, as many as the budget of tokens allows."""
    kept: list[int] = []
    spent = 0
    for i in order[:SHOWN].tolist():
        spent += len(of.gold[i])
        if not worth[i] or (kept and spent > BUDGET):
            break
        kept.append(i)
    return kept


def _shown(of: Study, i: int, again: bool) -> dict[str, Any]:
    """Return what the template needs of a sequence; one that stands in an earlier list, too, is explained there."""
    gold, predicted = of.gold[i], of.predicted[i]
    return {
        "number": i,
        "again": again,
        "wrong": int(of.wrong[i]),
        "probability": float(of.certainty.whole[i]),
        "broken": of.labelings[i].broken,
        "found": pieces(of.X[i], predicted, of.scheme, gold),
        "gold": pieces(of.X[i], gold, of.scheme) if predicted != gold else None,
        "why": [] if again or not hasattr(of.model, "explain") else _explained(of, i),
    }


def _explained(of: Study, i: int) -> list[Any]:
    """Explain the wrong and the doubtful tokens of one sequence."""
    wrong = np.array([a != b for a, b in zip(of.predicted[i], of.gold[i])])
    sure = of.certainty.tokens[i]
    tokens = of.model.explain(of.X[i], rules=of.rules, top=3).tokens
    return [
        {"word": word_of(tokens[t].token), "gold": of.gold[i][t], "wrong": bool(wrong[t]), "why": tokens[t]}
        for t in sorted(np.lexsort((sure, ~wrong))[:EXPLAINED].tolist())
        if wrong[t] or sure[t] < DOUBTFUL
    ]


def _example(of: Study, kind: str, change: Any) -> dict[str, Any]:
    i = change.sequence
    return {
        "kind": kind,
        "number": i,
        "gain": change.gain,
        "without": pieces(of.X[i], change.without, of.scheme, of.gold[i]),
        "with": pieces(of.X[i], of.predicted[i], of.scheme, of.gold[i]),
    }


def compared(old: Study, new: Study) -> list[tuple[str, Any, Any, Any]]:
    """One row per score: the old one, the new one, their paired difference."""
    return [
        (name, old.scores[name], new.scores[name], difference(old.counts[name][0], counts, score))
        for name, (counts, score) in new.counts.items()
    ]


def verdict(of: Study) -> list[str]:
    """Say in sentences how many sequences are right, what is confused most, and whether doubt shows where errors are."""
    n, wrong = len(of.gold), int((~of.whole).sum())
    if not wrong:
        return [f"All {n:,} sequences are right."]
    sentences = [f"{n - wrong:,} of {n:,} sequences are right from end to end."]
    names, table = of.confusion
    errors = np.where(np.eye(len(names), dtype=bool), 0, table)
    for place in np.argsort(-errors, axis=None, kind="stable")[:CONFUSIONS]:
        row, column = divmod(int(place), len(names))
        if errors[row, column]:
            sentences.append(_confused(names[row], names[column], int(errors[row, column]), int(table[row].sum())))
    return [*sentences, _doubtful(of, wrong)]


def _confused(gold: str, found: str, count: int, total: int) -> str:
    if gold == NOTHING:
        return f"{count:,} times {found} was found where nothing is."
    missed = "were missed" if found == NOTHING else f"were taken for {found}"
    return f"{count:,} of {total:,} {gold} segments {missed}."


def _doubtful(of: Study, wrong: int) -> str:
    """Say which share of the wrong sequences is among those that the model holds to be right with less than one half."""
    doubted = of.certainty.whole < DOUBTED
    share, held = doubted.mean(), (doubted & ~of.whole).sum() / wrong
    return f"The {share:.0%} of sequences with a probability below {DOUBTED} hold {held:.0%} of the wrong ones."


def _confusion(of: Study) -> dict[str, Any]:
    """Rows of the table of confusions: (name, [(count, shade)]); shades are shares of the row."""
    names, table = of.confusion
    totals = table.sum(axis=1, keepdims=True)
    shades = np.divide(table, totals, out=np.zeros(table.shape), where=totals > 0)
    cells = [list(zip(row.tolist(), shade.round(2).tolist())) for row, shade in zip(table, shades)]
    return {"names": names, "rows": list(zip(names, cells))}


def facts(of: Study) -> list[tuple[str, str]]:
    """Say what the model is, in rows of (name, value)."""
    model = of.model
    chain = chain_of(model) or model
    known = model.get_params(deep=False).items()
    parameters = {name: value for name, value in known if name not in ("rules", "on_infeasible")}
    return [
        ("kind", type(model).__name__),
        ("labels", f"{len(chain.classes_):,}"),
        ("features", f"{chain.n_features_in_:,}"),
        ("weights", f"{chain.theta_.size:,}"),
        ("rules", f"{len(of.rules)}"),
        ("iterations", f"{chain.n_iter_} ({'converged' if chain.converged_ else 'stopped early'})"),
        ("SHA-256 of its file", of.digest),
        ("parameters", f"{type(model)(**parameters)!r:.1000}"),
    ]
