"""``rulefield evaluate``."""

import json
import sys
from typing import Any

from rulefield import metrics
from rulefield.cli.corpus import Corpus, read_corpus
from rulefield.cli.prediction import open_model, read_rules
from rulefield.exceptions import InputError


def run_evaluate(
    file: str,
    model: str | None,
    rules: str | None,
    scheme: str,
    strict: bool,
    tokens: bool,
    as_json: bool,
    form: str,
    jobs: int,
) -> None:
    """Get gold and predicted labels, print the scores."""
    corpus = read_corpus(file, form, labelled=True)
    if model is None:
        gold, predicted = written_labels(corpus)
    else:
        gold = corpus.labels or []
        predicted = list(open_model(model, jobs).predict(corpus.tokens, rules=read_rules(rules)))
    options: dict[str, Any] = {"scheme": scheme, "strict": strict}
    report = metrics.span_report(gold, predicted, output_dict=True, **options)
    accuracy = metrics.token_accuracy(gold, predicted)
    whole = metrics.sequence_accuracy(gold, predicted)
    if as_json:
        line = {"span": report, "token_accuracy": accuracy, "sequence_accuracy": whole}
        sys.stdout.write(json.dumps(line) + "\n")
        return
    sys.stdout.write(metrics.span_report(gold, predicted, **options) + "\n\n")
    if tokens:
        sys.stdout.write(metrics.token_report(gold, predicted) + "\n\n")
    sys.stdout.write(f"token accuracy {100 * accuracy:.2f}   whole sequences {100 * whole:.2f}   ")
    sys.stdout.write(f"{len(corpus.tokens)} sequences\n")


def written_labels(corpus: Corpus) -> tuple[list[Any], list[Any]]:
    """Gold and predicted labels of a file that holds both: the last two columns, or ``gold`` and ``labels``."""
    if corpus.form == "jsonl":
        gold = [record.get("gold") for record in corpus.records]
        if not all(isinstance(labels, list) for labels in gold):
            raise InputError('without a model every object needs "gold" and "labels"; give a model.')
        return gold, corpus.labels or []
    if len(corpus.records[0][0]) < 3:
        raise InputError("without a model the last two columns are the gold and the predicted label; give a model.")
    return [[row[-2] for row in block] for block in corpus.records], corpus.labels or []
