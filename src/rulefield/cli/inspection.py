"""``rulefield inspect``."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from rulefield.cli.options import ModelFile, command
from rulefield.cli.reading import open_model, sequence_model
from rulefield.cli.show import console
from rulefield.cli.training import expectation_line
from rulefield.encode.labels import nearest
from rulefield.exceptions import LabelError

KINDS = {"ruled": "with learned rules", "chain": "chain", "segments": "segments", "joint": "joint"}


@command(
    "inspect",
    "rulefield inspect m.rf --top 5 --label B-title",
    'rulefield inspect m.rf --explain "Ada Lovelace 1843"',
)
def inspect(
    model: ModelFile,
    top: Annotated[int, typer.Option(help="How many weights to show for each label.")] = 8,
    label: Annotated[list[str] | None, typer.Option(help="Only these labels.")] = None,
    explain: Annotated[str | None, typer.Option(help="Tokens, separated by spaces: why these labels?")] = None,
) -> None:
    """Show what a model holds, or why it labels something as it does."""
    opened = open_model(model)
    labeler = sequence_model(opened)
    out = console()
    if explain is not None:
        out.print(explained(labeler, explain.split(), top), markup=False)
        return
    known = _labels(labeler)
    for name in label or ():
        if name not in known:
            raise LabelError(f"label {name!r} is unknown{nearest(name, known)}.")
    for title, value in {**_parser_summary(opened), **_summary(labeler)}.items():
        out.print(f"{title:<12}{value}", markup=False)
    if labeler._kind == "ruled":
        out.print(labeler.report(), markup=False)
    for title, weights in _weights(labeler, top):
        steps = [(before, after, f"{weight:+.3f}") for before, after, weight in weights.transitions]
        out.print(_table(f"{title}strongest transitions", ["from", "to", "weight"], steps))
        for name, features in weights.features.items():
            if not label or name in label:
                rows = [(f"{weight:+.3f}", feature) for feature, weight in features]
                out.print(_table(f"{title}{name}", ["weight", "feature"], rows))
    if labeler._kind == "joint":
        for table in _cross(labeler, top):
            out.print(table)
    for report in getattr(_inner(labeler), "expectations_", []):
        out.print(expectation_line(report), markup=False)


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
        places = [divmod(int(k), weights.shape[1]) for k in abs(weights).ravel().argsort()[::-1][: 2 * top]]
        rows = [(crf.classes_[first][a], crf.classes_[second][b], f"{weights[a, b]:+.3f}") for a, b in places]
        tables.append(_table("strongest pairs", [first, second, "weight"], rows))
    return tables


def _table(title: str, columns: list[str], rows: Iterable[Sequence[Any]]) -> Table:
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*map(str, row))
    return table
