"""``rulefield predict``."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rulefield.cli.corpus import FileContents, protect_inputs, with_labels, write_lines
from rulefield.cli.infeasible import INFEASIBLE, Infeasible
from rulefield.cli.opened import OpenedChain, open_model, words
from rulefield.cli.reading import LINES, Reading, as_parser, with_spans
from rulefield.data.documents import Document
from rulefield.data.source import STANDARD
from rulefield.exceptions import InputError, RuleError
from rulefield.parallel import Workers, connected

PORTION = 2000
"""Sequences that a worker labels at a time."""
TEXTS = 512
"""Texts that are parsed at a time: memory stays flat."""
NONE = "none"
"""``--rules none``: predict without any rules."""


def read_rules(path: str | None, model: Any = None) -> list[Any] | None:
    """Return the rules of a file, [] for ``none``, None (the model's own) without a path; a model checks their labels."""
    if path == NONE or not path:
        return [] if path == NONE else None
    from rulefield.rules import text

    rules = text.load(path)
    _check_labels(path, rules, model)
    return rules


def _check_labels(path: str, rules: list[Any], model: Any) -> None:
    """Refuse a rule about a label that the model does not know, with the rule's line."""
    from rulefield.report.certainty import label_set
    from rulefield.report.study import scheme_of

    if getattr(model, "_kind", None) in ("chain", "ruled", "segments"):
        check_rules(path, rules, sorted(label_set(model)), scheme_of(model))


def check_rules(path: str, rules: list[Any], labels: list[str], scheme: str | None) -> None:
    """Refuse a rule of a file that cannot be compiled for these labels, with its line."""
    from rulefield.rules import RuleCompiler, text

    for line, rule in zip(text.lines_of(path), rules):
        try:
            RuleCompiler([rule.soft(1.0) if rule.is_open else rule], labels, scheme)
        except RuleError as error:
            raise RuleError(f"{Path(path).name}, line {line}: {error}") from None


@dataclass(frozen=True)
class PredictOptions:
    """The options of the command."""

    rules: str | None = None
    probabilities: bool = False
    kbest: int = 0
    reading: Reading = field(default_factory=Reading)
    jobs: int = -1
    cluster: str | None = None
    on_infeasible: str = "mark"


def run_predict(model: str, file: str, output: str, options: PredictOptions) -> None:
    """Read, label, write; texts go back in the format that they came in."""
    rules = options.rules
    if options.cluster and (options.probabilities or options.kbest):
        raise InputError("--cluster predicts labels; leave --probabilities and --kbest out.")
    if output != "-":
        protect_inputs(output, [model, file, *([rules] if rules and rules != NONE else [])])
    opened = open_model(model, options.jobs)
    form = options.reading.text_format(file)
    if form is not None and opened.kind != "joint":
        _refuse_sequences(options)
        predict_texts(model, file, form, output, options)
        return
    infeasible = Infeasible(options.on_infeasible)
    infeasible.prepare(opened.crf)
    corpus = options.reading.sequences(file, labeled=False)
    if options.kbest and corpus.form != "jsonl":
        raise InputError("--kbest needs JSON lines; give a .jsonl file or --format jsonl.")
    given = read_rules(rules, opened.crf)
    if options.cluster is None:
        predicted = opened.predict(corpus.tokens, given)
    else:
        predicted = _on_workers(model, corpus.tokens, given, options.cluster)
    extra = _extra(opened, corpus, predicted, given, options.probabilities, options.kbest)
    extra = _marked(opened, corpus, given, infeasible, extra)
    write_lines(output, with_labels(corpus, predicted, extra))
    infeasible.tell()


def _marked(
    opened: OpenedChain, corpus: FileContents, rules: Any, infeasible: Infeasible, extra: list[dict[str, Any]] | None
) -> list[dict[str, Any]] | None:
    """Mark the sequences that cannot obey the hard rules, if there are any, in what is written beside the labels."""
    acting = opened.crf.rules if rules is None else rules
    acting = getattr(opened.crf, "rules_", acting) if rules is None else acting
    if not any(rule.is_hard for rule in acting or ()) or infeasible.choice == "relax":
        return extra
    made = extra or [{} for _ in corpus.tokens]
    for i, labeling in enumerate(opened.crf.decode(_words_of(opened, corpus.tokens), rules=rules)):
        words = " ".join(str(token) for token in corpus.tokens[i])
        if infeasible.judge(f"sequence {i + 1}", words, labeling.broken):
            made[i]["status"] = INFEASIBLE
    return made


def _words_of(opened: OpenedChain, tokens: list[Any]) -> list[Any]:
    return words(tokens) if opened.kind == "joint" else tokens


def _refuse_sequences(options: PredictOptions) -> None:
    for name in ("kbest", "cluster"):
        if getattr(options, name):
            raise InputError(f"--{name} works on tokens and labels, but the file holds texts; leave it out.")


def predict_texts(model: str, file: str, form: str, output: str, options: PredictOptions) -> None:
    """Label texts and write each in its record: all but the labels stays as it was, in the order of the file."""
    from rulefield.encode.formats import FORMATS
    from rulefield.estimators.files import load

    parser = as_parser(load(model), options.reading.tokenizer)
    parser.model_.set_params(n_jobs=options.jobs)
    infeasible = Infeasible(options.on_infeasible)
    infeasible.prepare(parser.model_)
    given = read_rules(options.rules, parser.model_)

    def labeled() -> Iterator[Document]:
        documents = iter(options.reading.documents(file))
        number = 0
        while portion := list(islice(documents, TEXTS)):
            parses = parser.parse_all([d.text for d in portion], rules=given, probabilities=options.probabilities)
            for document, parse in zip(portion, parses):
                number += 1
                marked = infeasible.judge(f"{file!r}, text {number}", document.text, parse.broken)
                yield replace(document, spans=None) if marked else with_spans(document, parse)

    written = FORMATS["doccano" if form == LINES else form]
    if output != STANDARD:
        written.write(labeled(), output)
    else:
        _write_standard(written, labeled())
    infeasible.tell()


def _write_standard(form: Any, documents: Iterator[Document]) -> None:
    if form.name == "brat":
        raise InputError("brat keeps texts and labels in a folder of files; name one with --output.")
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"labeled{form.suffixes[0]}"
        form.write(documents, str(path))
        sys.stdout.write(path.read_text(encoding="utf-8"))


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
    """Probabilities of the predicted labels, and the k best labelings, where asked for."""
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
