"""``rulefield evaluate``."""

import json
import sys
from dataclasses import dataclass
from typing import Any

from rulefield import metrics
from rulefield.cli.corpus import FileContents, counted
from rulefield.cli.opened import OpenedChain, OpenedJoint, open_model
from rulefield.cli.prediction import read_rules
from rulefield.cli.reading import Reading, as_parser, labeled_only
from rulefield.cli.tasks import labeled_rows, parse_tasks, read_tasks
from rulefield.exceptions import InputError


@dataclass(frozen=True)
class Scoring:
    """How to count, and what to print."""

    scheme: str = "auto"
    strict: bool = False
    tokens: bool = False
    as_json: bool = False


def run_evaluate(
    file: str, model: str | None, rules: str | None, tasks: str | None, scoring: Scoring, reading: Reading, jobs: int
) -> None:
    """Get gold and predicted labels, print the scores."""
    if reading.text_format(file) is not None:
        _evaluate_texts(file, model, rules, tasks, scoring, reading, jobs)
        return
    form = reading.form
    opened = open_model(model, jobs) if model else None
    if isinstance(opened, OpenedJoint):
        pairs = _joint_labels(opened, file, form, tasks, read_rules(rules))
        if scoring.as_json:
            sys.stdout.write(json.dumps({task: scores(*pair, scoring) for task, pair in pairs.items()}) + "\n")
            return
        for task, (gold, predicted) in pairs.items():
            sys.stdout.write(f"{task}\n\n")
            show(gold, predicted, scoring)
            sys.stdout.write("\n" if len(pairs) > 1 else "")
        return
    if tasks is not None:
        raise InputError("--tasks is for joint models; leave it out.")
    given = read_rules(rules, None if opened is None else opened.crf)
    gold, predicted = _labels(opened, reading.sequences(file, labeled=True), given)
    if scoring.as_json:
        sys.stdout.write(json.dumps(scores(gold, predicted, scoring)) + "\n")
    else:
        show(gold, predicted, scoring)


def _evaluate_texts(
    file: str, model: str | None, rules: str | None, tasks: str | None, scoring: Scoring, reading: Reading, jobs: int
) -> None:
    """Compare gold spans of characters with those that a model finds, as ``TextParser.score`` does."""
    from rulefield.estimators.files import load

    if model is None:
        raise InputError(f"{file!r} holds annotated texts, but no predictions: give a model, evaluate {file} MODEL.")
    if scoring.strict or scoring.tokens or tasks is not None:
        raise InputError(
            "--strict, --tokens and --tasks count labels of tokens; of texts, spans of characters are counted."
        )
    parser = as_parser(load(model), reading.tokenizer)
    parser.model_.set_params(n_jobs=jobs, on_infeasible="relax")  # as reports do
    documents = labeled_only(reading.documents(file), file)
    gold = [[tuple(span[:3]) for span in document.spans or ()] for document in documents]
    found = parser.predict([document.text for document in documents], rules=read_rules(rules, parser.model_))
    whole = sum(set(g) == set(f) for g, f in zip(gold, found)) / len(gold) if gold else 0.0
    if scoring.as_json:
        table = metrics.text_span_report(gold, found, output_dict=True)
        sys.stdout.write(json.dumps({"span": table, "text_accuracy": whole}) + "\n")
        return
    sys.stdout.write(metrics.text_span_report(gold, found) + "\n\n")
    f1 = metrics.text_span_f1(gold, found)
    sys.stdout.write(f"span F1 {100 * f1:.2f}   whole texts {100 * whole:.2f}   {counted(len(gold), 'text')}\n")


def scores(gold: list[Any], predicted: list[Any], scoring: Scoring) -> dict[str, Any]:
    """All scores, fit for JSON."""
    options: dict[str, Any] = {"scheme": scoring.scheme, "strict": scoring.strict}
    return {
        "span": metrics.span_report(gold, predicted, output_dict=True, **options),
        "token_accuracy": metrics.token_accuracy(gold, predicted),
        "sequence_accuracy": metrics.sequence_accuracy(gold, predicted),
    }


def show(gold: list[Any], predicted: list[Any], scoring: Scoring) -> None:
    """Print the scores as tables."""
    report = metrics.span_report(gold, predicted, scheme=scoring.scheme, strict=scoring.strict)
    sys.stdout.write(report + "\n\n")
    if scoring.tokens:
        sys.stdout.write(metrics.token_report(gold, predicted) + "\n\n")
    accuracy, whole = metrics.token_accuracy(gold, predicted), metrics.sequence_accuracy(gold, predicted)
    sys.stdout.write(f"token accuracy {100 * accuracy:.2f}   whole sequences {100 * whole:.2f}   ")
    sys.stdout.write(f"{counted(len(gold), 'sequence')}\n")


def _labels(opened: OpenedChain | None, corpus: FileContents, rules: Any) -> tuple[list[Any], list[Any]]:
    if opened is None:
        return written_labels(corpus)
    return corpus.labels or [], opened.predict(corpus.tokens, rules)


def _joint_labels(
    opened: OpenedJoint, file: str, form: str, tasks: str | None, rules: Any
) -> dict[str, tuple[list[Any], list[Any]]]:
    """Gold and predicted labels of each task, on the sequences whose labels are all known."""
    named = parse_tasks(tasks)
    if tasks is None and len(opened.crf.tasks_) == 1:
        named = {opened.crf.tasks_[0]: None}
    unknown = [task for task in named if task not in opened.crf.tasks_]
    if unknown:
        known = ", ".join(opened.crf.tasks_)
        raise InputError(f"this joint model has the tasks {known}; say where their labels are: --tasks ner=3,pos=1.")
    corpus = read_tasks(file, form, named)
    predicted = opened.predict(corpus.tokens, rules)
    found = {}
    for task in named:
        rows = labeled_rows(corpus, task)
        if not rows:
            raise InputError(f"{file!r} has no sequence in which every label of the task {task!r} is known.")
        found[task] = [(corpus.labels or [])[i][task] for i in rows], [predicted[i][task] for i in rows]
    return found


def written_labels(corpus: FileContents) -> tuple[list[Any], list[Any]]:
    """Gold and predicted labels of a file that holds both: the last two columns, or ``gold`` and ``labels``."""
    if corpus.form == "jsonl":
        gold = [record.get("gold") for record in corpus.records]
        if not all(isinstance(labels, list) for labels in gold):
            raise InputError('without a model every object needs "gold" and "labels"; give a model.')
        return gold, corpus.labels or []
    if corpus.labels and not {row[-2] for b in corpus.records for row in b} & {
        row[-1] for b in corpus.records for row in b
    }:
        raise InputError(
            "the last two columns have no label in common, so that they are not gold and predicted labels; give a model."
        )
    if len(corpus.records[0][0]) < 3:
        raise InputError("without a model the last two columns are the gold and the predicted label; give a model.")
    return [[row[-2] for row in block] for block in corpus.records], corpus.labels or []
