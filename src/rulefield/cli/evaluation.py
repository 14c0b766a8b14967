"""``rulefield evaluate``."""

import json
from functools import partial
from typing import Annotated, Any

import typer

from rulefield import metrics
from rulefield.cli.corpus import FileContents, counted
from rulefield.cli.options import Jobs, ReadOptions, Rules, Scheme, command
from rulefield.cli.prediction import read_rules
from rulefield.cli.reading import (
    as_parser,
    open_model,
    read_labeled_texts,
    read_sequences,
    sequence_model,
    text_format,
)
from rulefield.exceptions import InputError

NAMES = {
    "span_f1": "span F1",
    "text_accuracy": "whole texts",
    "token_accuracy": "token accuracy",
    "sequence_accuracy": "whole sequences",
}
"""Scores, as they are printed."""
Pair = tuple[list[Any], list[Any]]
"""Gold and predicted labels."""


@command(
    "evaluate",
    "rulefield evaluate test.conll chunks.rf",
    "rulefield evaluate labeled.conll   (gold and predicted labels in the last two columns)",
)
def evaluate(
    file: Annotated[
        str, typer.Argument(help="Columns, JSON lines or annotated texts; may be .gz; - for standard input.")
    ],
    reading: ReadOptions,
    model: Annotated[
        str | None, typer.Argument(help="Model that predicts; without it, predictions are read.")
    ] = None,
    rules: Rules = None,
    scheme: Scheme = "auto",
    tokens: Annotated[bool, typer.Option(help="Also report token labels.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
    jobs: Jobs = -1,
) -> None:
    """Score predictions: spans of texts; segments as conlleval counts them, tokens, whole sequences."""
    opened = open_model(model, jobs) if model else None
    if opened is not None and opened._kind == "joint":
        raise InputError(
            "a joint model is scored when it is trained (rulefield train --dev FILE), or from Python (score)."
        )
    is_text = text_format(file, reading) is not None
    if is_text and tokens:
        raise InputError("--tokens counts labels of tokens; of texts, spans of characters are counted.")
    gold, predicted = (_spans if is_text else _labels)(file, opened, rules, reading)
    report = metrics.text_span_report if is_text else partial(metrics.span_report, scheme=scheme)
    scores = _text_scores(gold, predicted) if is_text else _label_scores(gold, predicted)
    if as_json:
        typer.echo(json.dumps({"span": report(gold, predicted, output_dict=True), **scores}))
        return
    typer.echo(f"{report(gold, predicted)}\n")
    if tokens:
        typer.echo(f"{metrics.token_report(gold, predicted)}\n")
    shown = [f"{NAMES[name]} {100 * score:.2f}" for name, score in scores.items()]
    typer.echo("   ".join([*shown, counted(len(gold), "text" if is_text else "sequence")]))


def _text_scores(gold: list[Any], predicted: list[Any]) -> dict[str, float]:
    whole = sum(set(g) == set(p) for g, p in zip(gold, predicted)) / len(gold) if gold else 0.0
    return {"span_f1": metrics.text_span_f1(gold, predicted), "text_accuracy": whole}


def _label_scores(gold: list[Any], predicted: list[Any]) -> dict[str, float]:
    accuracy, whole = metrics.token_accuracy(gold, predicted), metrics.sequence_accuracy(gold, predicted)
    return {"token_accuracy": accuracy, "sequence_accuracy": whole}


def _spans(file: str, model: Any, rules: str | None, reading: ReadOptions) -> Pair:
    """Return gold spans of characters and those that a model finds, as ``TextParser.score`` does."""
    if model is None:
        raise InputError(f"{file!r} holds annotated texts, but no predictions: give a model, evaluate {file} MODEL.")
    parser = as_parser(model, reading.tokenizer)
    parser.model_.set_params(on_infeasible="relax")  # as reports do
    documents, gold = read_labeled_texts(file, reading)
    texts = [document.text for document in documents]
    return gold, list(parser.predict(texts, rules=read_rules(rules, parser.model_)))


def _labels(file: str, model: Any, rules: str | None, reading: ReadOptions) -> Pair:
    """Return gold labels and those that a model gives, or that the file holds, too."""
    corpus = read_sequences(file, reading, labeled=True)
    if model is None:
        return written_labels(corpus)
    labeler = sequence_model(model)
    return corpus.labels or [], list(labeler.predict(corpus.tokens, rules=read_rules(rules, labeler)))


def written_labels(corpus: FileContents) -> Pair:
    """Gold and predicted labels of a file that holds both: the last two columns, or ``gold`` and ``labels``."""
    if corpus.form == "jsonl":
        gold = [record.get("gold") for record in corpus.records]
        if not all(isinstance(labels, list) for labels in gold):
            raise InputError('without a model every object needs "gold" and "labels"; give a model.')
        return gold, corpus.labels or []
    if len(corpus.records[0][0]) < 3:
        raise InputError("without a model the last two columns are the gold and the predicted label; give a model.")
    gold = [[row[-2] for row in block] for block in corpus.records]
    predicted = corpus.labels or []
    if not {label for row in gold for label in row} & {label for row in predicted for label in row}:
        raise InputError(
            "the last two columns have no label in common, so that they are not gold and predicted labels; give a model."
        )
    return gold, predicted
