"""``rulefield predict``."""

from typing import Any

from rulefield.cli.corpus import Corpus, protect_inputs, read_corpus, with_labels, write_lines
from rulefield.exceptions import InputError


def open_model(path: str, jobs: int) -> Any:
    """Read the model file of a chain; threads as asked for."""
    from rulefield.estimators.chain import ChainCRF
    from rulefield.estimators.files import load

    model = load(path)
    if not isinstance(model, ChainCRF):
        kind = type(model).__name__
        raise InputError(f"{path!r} holds a {kind}; the command line works with ChainCRF models: use it from Python.")
    return model.set_params(n_jobs=jobs)


def read_rules(path: str | None) -> list[Any] | None:
    """Rules of a file, or None."""
    from rulefield.rules import text

    return text.load(path) if path else None


def run_predict(
    model: str, file: str, output: str, rules: str | None, probabilities: bool, kbest: int, form: str, jobs: int
) -> None:
    """Read, label, write."""
    inputs = [model, file, *([rules] if rules else [])]
    if output != "-":
        protect_inputs(output, inputs)
    crf = open_model(model, jobs)
    corpus = read_corpus(file, form, labelled=False)
    if kbest and corpus.form != "jsonl":
        raise InputError("--kbest needs JSON lines; give a .jsonl file or --format jsonl.")
    given = read_rules(rules)
    predicted = crf.predict(corpus.tokens, rules=given)
    extra = _extra(crf, corpus, predicted, probabilities, kbest)
    write_lines(output, with_labels(corpus, predicted, extra), inputs)


def _extra(crf: Any, corpus: Corpus, predicted: Any, probabilities: bool, kbest: int) -> list[dict[str, Any]] | None:
    """Probabilities of the predicted labels, and the k best labellings, where asked for."""
    if not probabilities and not kbest:
        return None
    extra: list[dict[str, Any]] = [{} for _ in corpus.tokens]
    if probabilities:
        place = {label: i for i, label in enumerate(crf.classes_)}
        for more, table, labels in zip(extra, crf.predict_marginals(corpus.tokens, output="array"), predicted):
            more["probabilities"] = [round(float(row[place[label]]), 6) for row, label in zip(table, labels)]
    if kbest:
        for more, best in zip(extra, crf.predict_kbest(corpus.tokens, kbest)):
            more["kbest"] = [{"labels": list(labels), "probability": float(p)} for labels, p in best]
    return extra
