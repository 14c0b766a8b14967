"""``rulefield predict``."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import isinf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer

from rulefield.cli.corpus import protect_inputs, with_labels, words, write_lines
from rulefield.cli.documents import are_pages, run_page_predict
from rulefield.cli.options import ModelFile, PredictOptions, command
from rulefield.cli.reading import (
    LINES,
    as_parser,
    iterate_texts,
    open_model,
    read_sequences,
    sequence_model,
    text_format,
    with_spans,
)
from rulefield.data.documents import Document
from rulefield.data.source import STANDARD
from rulefield.exceptions import InputError, RuleError

TEXTS = 512
"""Texts that are parsed at a time: memory stays flat."""
CHOICES = ("mark", "raise", "relax")
INFEASIBLE = "infeasible"
NONE = "none"
"""``--rules none``: predict without any rules."""


class Infeasible:
    """What to do with rows that cannot obey the hard rules, and how many there were.

    "raise" stops at the first one, with its place and text; "relax" labels it with the least violation; "mark" leaves it
    without labels, with the status "infeasible".
    """

    def __init__(self, choice: str):
        if choice not in CHOICES:
            raise InputError(f"--on-infeasible must be one of {', '.join(CHOICES)}; got {choice!r}.")
        self.choice, self.count = choice, 0

    def prepare(self, model: Any) -> None:
        """Have a model break hard rules where it must; what that means is judged row by row."""
        model.set_params(on_infeasible="relax")

    def judge(self, place: str, text: str, broken: Any) -> bool:
        """Return whether a row is to be marked; say so for the first ones, or stop."""
        hard = [b.rule for b in broken if isinf(b.cost)]
        if not hard or self.choice == "relax":
            return False
        reason = f"{place}: no labeling of {text[:80]!r} obeys the hard rules; broken would be: {'; '.join(hard)}"
        if self.choice == "raise":
            raise InputError(f"{reason}. Make one soft, or choose --on-infeasible relax or mark.")
        self.count += 1
        if self.count == 1:
            sys.stderr.write(f"rulefield: {reason}. It is marked {INFEASIBLE!r}.\n")
        return True

    def tell(self) -> None:
        """Say at the end how many rows were marked."""
        if self.count > 1:
            sys.stderr.write(f"rulefield: {self.count} rows are marked {INFEASIBLE!r} (see --on-infeasible).\n")


def read_rules(path: str | None, model: Any = None) -> list[Any] | None:
    """Return the rules of a file, [] for ``none``, None (the model's own) without a path; a model checks their labels."""
    if path == NONE or not path:
        return [] if path == NONE else None
    from rulefield.report.certainty import label_set
    from rulefield.report.study import scheme_of
    from rulefield.rules import text

    rules = text.load(path)
    if getattr(model, "_kind", None) in ("chain", "ruled", "segments"):
        check_rules(path, rules, sorted(label_set(model)), scheme_of(model))
    return rules


def rule_files(path: str | None) -> list[str]:
    """Return the rules file that is read, if any."""
    return [path] if path and path != NONE else []


def check_rules(path: str, rules: list[Any], labels: list[str], scheme: str | None) -> None:
    """Refuse a rule of a file that cannot be compiled for these labels, with its line."""
    from rulefield.rules import RuleCompiler, text

    for line, rule in zip(text.lines_of(path), rules):
        try:
            RuleCompiler([rule.soft(1.0) if rule.is_open else rule], labels, scheme)
        except RuleError as error:
            raise RuleError(f"{Path(path).name}, line {line}: {error}") from None


@command(
    "predict",
    "rulefield predict chunks.rf new.conll > labeled.conll",
    "rulefield predict m.rf new.jsonl -o out.jsonl --kbest 3 --rules rules.yaml",
    "rulefield predict table.rf new/*.xml -o labeled/",
)
def predict(
    model: ModelFile,
    options: PredictOptions,
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Columns, JSON lines or texts of any format, - for standard input; or files of pages."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="File to write (pages: a folder); standard output by default.")
    ] = STANDARD,
) -> None:
    """Label new sequences (adds a last column, or the key "labels") or texts, and write them back as they came."""
    files = files or [STANDARD]
    if options.form == "auto" and are_pages(files):
        run_page_predict(model, files, output, options.rules, options.jobs)
        return
    if len(files) > 1:
        raise InputError("predict takes one file of sequences at a time, or several files of pages.")
    file = files[0]
    if output.endswith("/") or Path(output).is_dir():
        raise InputError(
            f"only pages are written to a folder ({output!r}), but {file!r} is none of PAGE XML, JSON "
            "of boxes and PDF; give the name of a file for labeled sequences."
        )
    if output != STANDARD:
        protect_inputs(output, [model, file, *rule_files(options.rules)])
    opened = open_model(model, options.jobs)
    form = text_format(file, options)
    if form is not None and opened._kind != "joint":
        _predict_texts(opened, file, form, output, options)
    else:
        _predict_sequences(sequence_model(opened), file, output, options)


def _predict_sequences(model: Any, file: str, output: str, options: PredictOptions) -> None:
    infeasible = Infeasible(options.on_infeasible)
    infeasible.prepare(model)
    corpus = read_sequences(file, options, labeled=False)
    if options.kbest and corpus.form != "jsonl":
        raise InputError("--kbest needs JSON lines; give a .jsonl file or --format jsonl.")
    rules = read_rules(options.rules, model)
    tokens = model_tokens(model, corpus.tokens)
    predicted = list(model.predict(tokens, rules=rules))
    extra: list[dict[str, Any]] = [{} for _ in tokens]
    if options.probabilities:
        for more, chances in zip(extra, _probabilities(model, tokens, predicted, rules)):
            more["probabilities"] = chances
    if options.kbest:
        for more, best in zip(extra, model.predict_kbest(tokens, k=options.kbest, rules=rules)):
            more["kbest"] = [{"labels": labels, "probability": float(p)} for labels, p in best]
    _mark(model, tokens, rules, infeasible, extra)
    write_lines(output, with_labels(corpus, predicted, extra))
    infeasible.tell()


def model_tokens(model: Any, tokens: list[Any]) -> list[Any]:
    """Return tokens as a model takes them: a joint model reads the word of a row, and nothing else."""
    return words(tokens) if model._kind == "joint" else tokens


def _probabilities(model: Any, tokens: list[Any], predicted: list[Any], rules: Any) -> list[Any]:
    """Return the probability of each predicted label (by task if there are several), under the rules that chose it."""
    from rulefield.report.certainty import label_columns

    tables = model.predict_marginals(tokens, rules=rules, output="array")
    if model._kind != "joint":
        return _picked(tables, predicted, label_columns(model, predicted))
    by_task = {}
    for task, labels in model.classes_.items():
        columns = {str(label): i for i, label in enumerate(labels)}
        by_task[task] = _picked([table[task] for table in tables], [row[task] for row in predicted], columns)
    return [{task: rows[i] for task, rows in by_task.items()} for i in range(len(predicted))]


def _picked(tables: Sequence[np.ndarray], labels: Sequence[Any], columns: dict[str, int]) -> list[list[float]]:
    """Return the probability of each label in rows of probabilities."""
    return [
        [round(float(row[columns[str(label)]]), 6) for row, label in zip(table, sequence)]
        for table, sequence in zip(tables, labels)
    ]


def _mark(model: Any, tokens: list[Any], rules: Any, infeasible: Infeasible, extra: list[dict[str, Any]]) -> None:
    """Mark the sequences that cannot obey the hard rules, if there are any, in what is written beside the labels."""
    acting = getattr(model, "rules_", model.rules) if rules is None else rules
    if not any(rule.is_hard for rule in acting or ()) or infeasible.choice == "relax":
        return
    for i, labeling in enumerate(model.decode(tokens, rules=rules)):
        text = " ".join(str(token) for token in tokens[i])
        if infeasible.judge(f"sequence {i + 1}", text, labeling.broken):
            extra[i]["status"] = INFEASIBLE


def _predict_texts(model: Any, file: str, form: str, output: str, options: PredictOptions) -> None:
    """Label texts and write each in its record: all but the labels stays as it was, in the order of the file."""
    from rulefield.encode.formats import FORMATS

    if options.kbest:
        raise InputError("--kbest works on tokens and labels, but the file holds texts; leave it out.")
    parser = as_parser(model, options.tokenizer)
    infeasible = Infeasible(options.on_infeasible)
    infeasible.prepare(parser.model_)
    rules = read_rules(options.rules, parser.model_)

    def labeled() -> Iterator[Document]:
        documents = iterate_texts(file, options)
        number = 0
        while portion := list(islice(documents, TEXTS)):
            parses = parser.parse_all([d.text for d in portion], rules=rules, probabilities=options.probabilities)
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
