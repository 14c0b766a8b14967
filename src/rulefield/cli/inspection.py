"""``rulefield inspect``."""

from typing import Any

from rich.table import Table

from rulefield.cli.prediction import open_model
from rulefield.cli.show import console
from rulefield.encode.labels import nearest
from rulefield.exceptions import LabelError


def run_inspect(model: str, top: int, labels: list[str], explain: str | None) -> None:
    """Show a model's parts, or explain one labelling."""
    crf = open_model(model, 1)
    out = console()
    if explain is not None:
        out.print(str(crf.explain(_tokens(explain), top=top)), markup=False)
        return
    for label in labels:
        if label not in crf.classes_:
            raise LabelError(f"label {label!r} is unknown{nearest(label, crf.classes_)}.")
    out.print(_summary(crf))
    weights = crf.explain(top=top)
    out.print(_transitions(weights.transitions))
    for label in labels or crf.classes_:
        out.print(_features(label, weights.features.get(label, ())))


def _tokens(text: str) -> list[Any]:
    """Tokens of the text; ``word/TAG`` is not taken apart: columns are for files."""
    return text.split()


def _summary(crf: Any) -> Table:
    table = Table(show_header=False, box=None)
    shown = ", ".join(map(str, crf.classes_[:12])) + (" ..." if len(crf.classes_) > 12 else "")
    rows = {
        "algorithm": crf.algorithm,
        "penalties": f"l1 {crf.l1:g}, l2 {crf.l2:g}",
        "scheme": crf.scheme or "none",
        "labels": f"{len(crf.classes_)}: {shown}",
        "features": f"{crf.model_.n_features}",
        "weights": f"{crf.theta_.size}",
        "iterations": f"{crf.n_iter_}{'' if crf.converged_ else ' (not converged)'}",
        "rules": f"{len(crf.rules or [])}",
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    return table


def _transitions(transitions: Any) -> Table:
    table = Table("from", "to", "weight", title="strongest transitions", title_justify="left")
    for before, after, weight in transitions:
        table.add_row(str(before), str(after), f"{weight:+.3f}")
    return table


def _features(label: Any, features: Any) -> Table:
    table = Table("weight", "feature", title=str(label), title_justify="left")
    for name, weight in features:
        table.add_row(f"{weight:+.3f}", name)
    return table
