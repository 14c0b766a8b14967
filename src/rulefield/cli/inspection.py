"""``rulefield inspect``."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from rulefield.cli.options import ModelFile, command
from rulefield.cli.reading import open_model, sequence_model
from rulefield.cli.training import expectation_line
from rulefield.encode.labels import nearest
from rulefield.exceptions import LabelError


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
    if explain is not None:
        typer.echo(explained(labeler, explain.split(), top))
        return
    inner = getattr(labeler, "estimator_", labeler)
    known = [name for names in _by_task(inner.classes_).values() for name in names]
    for name in label or ():
        if name not in known:
            raise LabelError(f"label {name!r} is unknown{nearest(name, known)}.")
    for title, value in {**_parser_summary(opened), **_summary(labeler, inner)}.items():
        typer.echo(f"{title:<12}{value}")
    if labeler is not inner:
        typer.echo(labeler.report())
    if inner._kind != "joint":  # whose weights are explained for a sequence
        weights = inner.explain(top=top)
        chosen = {name: rows for name, rows in weights.features.items() if not label or name in label}
        typer.echo(str(replace(weights, features=chosen)))
    for report in getattr(inner, "expectations_", []):
        typer.echo(expectation_line(report))


def explained(model: Any, tokens: list[str], top: int) -> str:
    """Say why a model labels tokens as it does, and what its rules change."""
    reasons = model.explain(tokens, top=top)
    text = "\n".join(f"{task}\n{one}" for task, one in reasons.items()) if isinstance(reasons, dict) else str(reasons)
    rules = getattr(model, "rules_", model.rules)
    if not rules:
        return text
    return f"{text}\nwith {len(rules)} rules: {model.decode([tokens])[0]}"


def _by_task(values: Any) -> dict[str, Any]:
    return values if isinstance(values, dict) else {"": values}


def _parser_summary(model: Any) -> dict[str, str]:
    """Return what a parser of texts adds to the model inside it."""
    from rulefield.estimators.text.tokenizing import name_of

    if model._kind != "text":
        return {}
    return {"parser": f"of {', '.join(model.labels_)}", "tokenizer": name_of(model._tokenizer)}


def _summary(model: Any, inner: Any) -> dict[str, str]:
    schemes = _by_task(inner.scheme).items()
    return {
        "model": inner._kind + ("" if model is inner else " with learned rules"),
        "penalties": f"l1 {inner.l1_:g}, l2 {inner.l2_:g}" if hasattr(inner, "l1_") else f"l2 {inner.l2:g}",
        "scheme": ", ".join(f"{task} {scheme or 'none'}".strip() for task, scheme in schemes),
        **{f"labels {task}".strip(): _shown(names) for task, names in _by_task(inner.classes_).items()},
        "features": str(inner.n_features_in_),
        "weights": str(inner.theta_.size),
        "iterations": f"{inner.n_iter_}{'' if inner.converged_ else ' (not converged)'}",
        "rules": str(len(getattr(model, "rules_", inner.rules) or [])),
    }


def _shown(labels: list[Any]) -> str:
    return f"{len(labels)}: {', '.join(map(str, labels[:12]))}{' ...' if len(labels) > 12 else ''}"
