"""``rulefield predict``."""

from typing import Any

from rulefield.cli.corpus import FileContents, protect_inputs, read_corpus, with_labels, write_lines
from rulefield.cli.opened import OpenedChain, open_model
from rulefield.exceptions import InputError

NONE = "none"
"""``--rules none``: predict without any rules."""


def read_rules(path: str | None) -> list[Any] | None:
    """Rules of a file; none at all for ``none``; None (the model's own) where nothing is said."""
    from rulefield.rules import text

    if path == NONE:
        return []
    return text.load(path) if path else None


def run_predict(
    model: str, file: str, output: str, rules: str | None, probabilities: bool, kbest: int, form: str, jobs: int
) -> None:
    """Read, label, write."""
    if output != "-":
        protect_inputs(output, [model, file, *([rules] if rules and rules != NONE else [])])
    opened = open_model(model, jobs)
    corpus = read_corpus(file, form, labelled=False)
    if kbest and corpus.form != "jsonl":
        raise InputError("--kbest needs JSON lines; give a .jsonl file or --format jsonl.")
    given = read_rules(rules)
    predicted = opened.predict(corpus.tokens, given)
    extra = _extra(opened, corpus, predicted, given, probabilities, kbest)
    write_lines(output, with_labels(corpus, predicted, extra))


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
