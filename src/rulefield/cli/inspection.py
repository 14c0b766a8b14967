"""``rulefield inspect``."""

from typing import Any

from rich.table import Table

from rulefield.cli.opened import OpenedChain, OpenedJoint, OpenedRuled, open_model
from rulefield.cli.show import console
from rulefield.encode.labels import nearest
from rulefield.exceptions import LabelError


def run_inspect(model: str, top: int, labels: list[str], explain: str | None) -> None:
    """Show a model's parts, or explain one labeling."""
    opened = open_model(model)
    out = console()
    if explain is not None:
        out.print(explained(opened, explain.split(), top), markup=False)
        return
    known = _labels(opened)
    for label in labels:
        if label not in known:
            raise LabelError(f"label {label!r} is unknown{nearest(label, known)}.")
    out.print(_table({**_parser_summary(model), **_summary(opened)}))
    if isinstance(opened, OpenedRuled):
        out.print(opened.crf.report(), markup=False)
    for title, weights in _weights(opened, top):
        out.print(_transitions(weights.transitions, title))
        for label, features in weights.features.items():
            if not labels or label in labels:
                out.print(_features(title + str(label), features))
    if isinstance(opened, OpenedJoint):
        for table in _cross(opened.crf, top):
            out.print(table)
    reports = getattr(opened.chain or opened.crf, "expectations_", [])
    if reports:
        out.print(_expectations(reports))


def explained(opened: OpenedChain, tokens: list[str], top: int) -> str:
    """Say why a model labels tokens as it does, and what its rules change."""
    found = opened.crf.explain(tokens, top=top)
    text = "\n".join(f"{task}\n{one}" for task, one in found.items()) if isinstance(found, dict) else str(found)
    rules = opened.crf.rules_ if isinstance(opened, OpenedRuled) else opened.crf.rules
    if not rules:
        return text
    return f"{text}\nwith {len(rules)} rules: {opened.crf.decode([tokens])[0]}"


def _labels(opened: OpenedChain) -> list[Any]:
    classes = opened.crf.classes_
    return [label for own in classes.values() for label in own] if isinstance(classes, dict) else list(classes)


def _parser_summary(path: str) -> dict[str, str]:
    """Return what a parser of texts adds to the model inside it."""
    from rulefield.estimators.files import load
    from rulefield.estimators.text.tokenizing import name_of

    found = load(path)
    if found._kind != "text":
        return {}
    return {"parser": f"of {', '.join(found.labels_)}", "tokenizer": name_of(found._tokenizer)}


def _summary(opened: OpenedChain) -> dict[str, str]:
    crf, chain = opened.crf, opened.chain
    if chain is None:
        return {"model": opened.kind, **_common(crf, len(crf._encoder.names))}
    rows = {"model": opened.kind, "solver": chain.solver, **_common(chain, chain.model_.n_features)}
    n_rules = len(crf.rules_ if isinstance(opened, OpenedRuled) else chain.rules or [])
    return {**rows, "rules": str(n_rules)}


def _common(crf: Any, n_features: int) -> dict[str, str]:
    penalties = f"l2 {crf.l2:g}" if not hasattr(crf, "l1_") else f"l1 {crf.l1_:g}, l2 {crf.l2_:g}"
    classes = crf.classes_ if isinstance(crf.classes_, dict) else {"": crf.classes_}
    schemes = crf.scheme if isinstance(crf.scheme, dict) else {"": crf.scheme}
    return {
        "penalties": penalties,
        "scheme": ", ".join(f"{task} {scheme or 'none'}".strip() for task, scheme in schemes.items()),
        **{f"labels {task}".strip(): _shown(own) for task, own in classes.items()},
        "features": str(n_features),
        "weights": str(crf.theta_.size),
        "iterations": f"{crf.n_iter_}{'' if crf.converged_ else ' (not converged)'}",
    }


def _shown(labels: list[Any]) -> str:
    return f"{len(labels)}: {', '.join(map(str, labels[:12]))}{' ...' if len(labels) > 12 else ''}"


def _weights(opened: OpenedChain, top: int) -> list[tuple[str, Any]]:
    """Largest weights of the model, or of the chains that it is made of, with the name of each."""
    if not isinstance(opened, OpenedJoint):
        return [("", (opened.chain or opened.crf).explain(top=top))]
    from rulefield.estimators.chain.explanations import explain_model

    crf, names = opened.crf, opened.crf._encoder.names
    return [
        (f"{task}: ", explain_model(model, crf.model_.task_theta(crf.theta_, k), crf.classes_[task], names, top))
        for k, (task, model) in enumerate(zip(crf.tasks_, crf.model_.tasks))
    ]


def _cross(crf: Any, top: int) -> list[Table]:
    """Label pairs of two tasks with the largest weights."""
    tables = []
    for j, (k, l) in enumerate(crf.model_.cross):
        first, second = crf.tasks_[k], crf.tasks_[l]
        weights = crf.model_.cross_table(crf.theta_, j)
        table = Table(first, second, "weight", title="strongest pairs", title_justify="left")
        for place in abs(weights).ravel().argsort()[::-1][: 2 * top]:
            a, b = divmod(int(place), weights.shape[1])
            table.add_row(str(crf.classes_[first][a]), str(crf.classes_[second][b]), f"{weights[a, b]:+.3f}")
        tables.append(table)
    return tables


def _expectations(reports: list[Any]) -> Table:
    columns = ["expectation", "low", "high", "in training", "under the model", "predicted", "multiplier"]
    table = Table(*columns, title="expectations", title_justify="left")
    for e in reports:
        numbers = (e.low, e.high, e.under_q, e.under_model, e.predicted, e.multiplier)
        table.add_row(e.expectation, *(f"{number:.4g}" for number in numbers))
    return table


def _table(rows: dict[str, str]) -> Table:
    table = Table(show_header=False, box=None)
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _transitions(transitions: Any, title: str) -> Table:
    table = Table("from", "to", "weight", title=f"{title}strongest transitions", title_justify="left")
    for before, after, weight in transitions:
        table.add_row(str(before), str(after), f"{weight:+.3f}")
    return table


def _features(title: str, features: Any) -> Table:
    table = Table("weight", "feature", title=title, title_justify="left")
    for name, weight in features:
        table.add_row(f"{weight:+.3f}", name)
    return table
