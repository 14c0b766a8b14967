"""``rulefield predict``."""

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from rulefield.cli.corpus import FileContents, protect_inputs, read_corpus, with_labels, write_lines
from rulefield.cli.opened import OpenedChain, open_model
from rulefield.exceptions import InputError
from rulefield.parallel import Workers, connected

PORTION = 2000
"""Sequences that a worker labels at a time."""
NONE = "none"
"""``--rules none``: predict without any rules."""


def read_rules(path: str | None) -> list[Any] | None:
    """Rules of a file; none at all for ``none``; None (the model's own) where nothing is said."""
    if path == NONE or not path:
        return [] if path == NONE else None
    from rulefield.rules import text

    return text.load(path)


def run_predict(
    model: str,
    file: str,
    output: str,
    rules: str | None,
    probabilities: bool,
    kbest: int,
    form: str,
    jobs: int,
    cluster: str | None = None,
) -> None:
    """Read, label, write."""
    if cluster and (probabilities or kbest):
        raise InputError("--cluster predicts labels; leave --probabilities and --kbest out.")
    if output != "-":
        protect_inputs(output, [model, file, *([rules] if rules and rules != NONE else [])])
    opened = open_model(model, jobs)
    corpus = read_corpus(file, form, labelled=False)
    if kbest and corpus.form != "jsonl":
        raise InputError("--kbest needs JSON lines; give a .jsonl file or --format jsonl.")
    given = read_rules(rules)
    predicted = (
        opened.predict(corpus.tokens, given) if cluster is None else _on_workers(model, corpus.tokens, given, cluster)
    )
    extra = _extra(opened, corpus, predicted, given, probabilities, kbest)
    write_lines(output, with_labels(corpus, predicted, extra))


class _PredictTask(NamedTuple):
    """Have a model file, which the worker must see, label a portion of a file."""

    model: str
    tokens: list[Any]
    rules: list[Any] | None


def _predicted(task: _PredictTask) -> list[Any]:
    return list(_opened(task.model).predict(task.tokens, task.rules))


@lru_cache(maxsize=1)
def _opened(model: str) -> OpenedChain:
    return open_model(model, 1)


def _on_workers(model: str, tokens: list[Any], rules: list[Any] | None, cluster: str) -> list[Any]:
    """Labels of a file's sequences, worked out in portions by the workers of a cluster."""
    path = str(Path(model).resolve())
    tasks = (_PredictTask(path, tokens[i : i + PORTION], rules) for i in range(0, len(tokens), PORTION))
    with connected(cluster) as client:
        return [labels for portion in Workers(client).stream(_predicted, tasks) for labels in portion]


def _extra(
    opened: OpenedChain, corpus: FileContents, predicted: list[Any], rules: Any, probabilities: bool, kbest: int
) -> list[dict[str, Any]] | None:
    """Probabilities of the predicted labels, and the k best labellings, where asked for."""
    if not probabilities and not kbest:
        return None
    extra: list[dict[str, Any]] = [{} for _ in corpus.tokens]
    if probabilities:
        for more, chances in zip(extra, opened.probabilities(corpus.tokens, predicted, rules)):
            more["probabilities"] = chances
    if kbest:
        for more, best in zip(extra, opened.kbest(corpus.tokens, kbest, rules)):
            more["kbest"] = [{"labels": labels, "probability": float(p)} for labels, p in best]
    return extra
