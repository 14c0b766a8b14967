"""``rulefield inspect``."""

from typing import Any

from rich.table import Table

from rulefield.cli.reading import open_model, sequence_model
from rulefield.cli.show import console
from rulefield.encode.labels import nearest
from rulefield.exceptions import LabelError

KINDS = {"ruled": "with learned rules", "chain": "chain", "segments": "segments", "joint": "joint"}


def run_inspect(path: str, top: int, labels: list[str], explain: str | None) -> None:
    """Show a model's parts, or explain one labeling."""
    opened = open_model(path)
    model = sequence_model(opened)
    out = console()
    if explain is not None:
        out.print(explained(model, explain.split(), top), markup=False)
        return
    known = _labels(model)
    for label in labels:
        if label not in known:
            raise LabelError(f"label {label!r} is unknown{nearest(label, known)}.")
    out.print(_table({**_parser_summary(opened), **_summary(model)}))
    if model._kind == "ruled":
        out.print(model.report(), markup=False)
    for title, weights in _weights(model, top):
        out.print(_transitions(weights.transitions, title))
        for label, features in weights.features.items():
            if not labels or label in labels:
                out.print(_features(title + str(label), features))
    if model._kind == "joint":
        for table in _cross(model, top):
            out.print(table)
    reports = getattr(_inner(model), "expectations_", [])
    if reports:
        out.print(_expectations(reports))


def _inner(model: Any) -> Any:
    """Return the model without the rules that were learned for it."""
    return getattr(model, "estimator_", model)


def explained(model: Any, tokens: list[str], top: int) -> str:
    """Say why a model labels tokens as it does, and what its rules change."""
    reasons = model.explain(tokens, top=top)
    text = "\n".join(f"{task}\n{one}" for task, one in reasons.items()) if isinstance(reasons, dict) else str(reasons)
    rules = getattr(model, "rules_", model.rules)
    if not rules:
        return text
    return f"{text}\nwith {len(rules)} rules: {model.decode([tokens])[0]}"


def _labels(model: Any) -> list[Any]:
    classes = model.classes_
    return [label for own in classes.values() for label in own] if isinstance(classes, dict) else list(classes)


def _parser_summary(model: Any) -> dict[str, str]:
    """Return what a parser of texts adds to the model inside it."""
    from rulefield.estimators.text.tokenizing import name_of

    if model._kind != "text":
        return {}
    return {"parser": f"of {', '.join(model.labels_)}", "tokenizer": name_of(model._tokenizer)}


def _summary(model: Any) -> dict[str, str]:
    inner = _inner(model)
    kind = KINDS[inner._kind] + (f" {KINDS['ruled']}" if model is not inner else "")
    rules = getattr(model, "rules_", inner.rules)
    return {"model": kind, **_common(inner), "rules": str(len(rules or []))}


def _common(crf: Any) -> dict[str, str]:
    penalties = f"l2 {crf.l2:g}" if not hasattr(crf, "l1_") else f"l1 {crf.l1_:g}, l2 {crf.l2_:g}"
    classes = crf.classes_ if isinstance(crf.classes_, dict) else {"": crf.classes_}
    schemes = crf.scheme if isinstance(crf.scheme, dict) else {"": crf.scheme}
    return {
        "penalties": penalties,
        "scheme": ", ".join(f"{task} {scheme or 'none'}".strip() for task, scheme in schemes.items()),
        **{f"labels {task}".strip(): _shown(own) for task, own in classes.items()},
        "features": str(crf.n_features_in_),
        "weights": str(crf.theta_.size),
        "iterations": f"{crf.n_iter_}{'' if crf.converged_ else ' (not converged)'}",
    }


def _shown(labels: list[Any]) -> str:
    return f"{len(labels)}: {', '.join(map(str, labels[:12]))}{' ...' if len(labels) > 12 else ''}"


def _weights(model: Any, top: int) -> list[tuple[str, Any]]:
    """Largest weights of the model, or of the chains that it is made of, with the name of each."""
    if model._kind != "joint":
        return [("", _inner(model).explain(top=top))]
    from rulefield.estimators.chain.explanations import explain_model

    names = model._encoder.names
    return [
        (f"{task}: ", explain_model(own, model.model_.task_theta(model.theta_, k), model.classes_[task], names, top))
        for k, (task, own) in enumerate(zip(model.tasks_, model.model_.tasks))
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
