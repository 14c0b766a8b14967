"""``rulefield evaluate``."""

import json
import sys
from typing import Annotated, Any

import typer

from rulefield import metrics
from rulefield.cli.corpus import FileContents, counted
from rulefield.cli.options import File, Jobs, ReadOptions, Rules, Scoring, command
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

Pair = tuple[list[Any], list[Any]]
"""Gold and predicted labels."""


@command(
    "evaluate",
    "rulefield evaluate test.conll chunks.rf",
    "rulefield evaluate labeled.conll   (gold and predicted labels in the last two columns)",
)
def evaluate(
    file: File,
    scoring: Scoring,
    reading: ReadOptions,
    model: Annotated[
        str | None, typer.Argument(help="Model that predicts; without it, predictions are read.")
    ] = None,
    rules: Rules = None,
    jobs: Jobs = -1,
) -> None:
    """Score predictions: spans of texts; segments as conlleval counts them, tokens, whole sequences."""
    opened = open_model(model, jobs) if model else None
    if opened is not None and opened._kind == "joint":
        raise InputError(
            "a joint model is scored when it is trained (rulefield train --dev FILE), or from Python (score)."
        )
    if text_format(file, reading) is not None:
        _evaluate_texts(file, opened, rules, scoring, reading)
        return
    corpus = read_sequences(file, reading, labeled=True)
    if opened is None:
        pair = written_labels(corpus)
    else:
        labeler = sequence_model(opened)
        pair = corpus.labels or [], list(labeler.predict(corpus.tokens, rules=read_rules(rules, labeler)))
    if scoring.as_json:
        sys.stdout.write(json.dumps(scores(*pair, scoring)) + "\n")
    else:
        show(*pair, scoring)


def _evaluate_texts(file: str, model: Any, rules: str | None, scoring: Scoring, reading: ReadOptions) -> None:
    """Compare gold spans of characters with those that a model finds, as ``TextParser.score`` does."""
    if model is None:
        raise InputError(f"{file!r} holds annotated texts, but no predictions: give a model, evaluate {file} MODEL.")
    if scoring.tokens:
        raise InputError("--tokens counts labels of tokens; of texts, spans of characters are counted.")
    parser = as_parser(model, reading.tokenizer)
    parser.model_.set_params(on_infeasible="relax")  # as reports do
    documents, gold = read_labeled_texts(file, reading)
    predicted = parser.predict([document.text for document in documents], rules=read_rules(rules, parser.model_))
    whole = sum(set(g) == set(p) for g, p in zip(gold, predicted)) / len(gold) if gold else 0.0
    if scoring.as_json:
        table = metrics.text_span_report(gold, predicted, output_dict=True)
        sys.stdout.write(json.dumps({"span": table, "text_accuracy": whole}) + "\n")
        return
    sys.stdout.write(metrics.text_span_report(gold, predicted) + "\n\n")
    f1 = metrics.text_span_f1(gold, predicted)
    sys.stdout.write(f"span F1 {100 * f1:.2f}   whole texts {100 * whole:.2f}   {counted(len(gold), 'text')}\n")


def scores(gold: list[Any], predicted: list[Any], scoring: Scoring) -> dict[str, Any]:
    """Return all scores, fit for JSON."""
    return {
        "span": metrics.span_report(gold, predicted, output_dict=True, scheme=scoring.scheme),
        "token_accuracy": metrics.token_accuracy(gold, predicted),
        "sequence_accuracy": metrics.sequence_accuracy(gold, predicted),
    }


def show(gold: list[Any], predicted: list[Any], scoring: Scoring) -> None:
    """Print the scores as tables."""
    report = metrics.span_report(gold, predicted, scheme=scoring.scheme)
    sys.stdout.write(report + "\n\n")
    if scoring.tokens:
        sys.stdout.write(metrics.token_report(gold, predicted) + "\n\n")
    accuracy, whole = metrics.token_accuracy(gold, predicted), metrics.sequence_accuracy(gold, predicted)
    sys.stdout.write(f"token accuracy {100 * accuracy:.2f}   whole sequences {100 * whole:.2f}   ")
    sys.stdout.write(f"{counted(len(gold), 'sequence')}\n")


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
