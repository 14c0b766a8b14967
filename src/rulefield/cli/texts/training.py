"""``rulefield train export.json``: a parser from annotated texts, in any format that the library reads."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from rulefield.cli.corpus import JSON_NAMES, counted
from rulefield.cli.training import (
    LEARN,
    TrainOptions,
    chosen_penalties,
    make_crf,
    open_rules,
    progress,
    refuse_options,
    say,
)
from rulefield.data.documents import Document
from rulefield.data.source import STANDARD, Source
from rulefield.encode.formats import FORMATS, find_format, read_documents
from rulefield.encode.formats.base import json_records
from rulefield.exceptions import InputError

SEQUENCES = ("columns", "jsonl")
"""Formats of tokens and labels, for which there is nothing to parse."""


def text_format(path: str, form: str, encoding: str) -> str | None:
    """Name of the format of annotated texts that a file is in, or None where it holds tokens and labels."""
    if form in SEQUENCES or (form == "auto" and path == STANDARD):
        return None
    if form != "auto":
        if form not in FORMATS:
            known = ", ".join(["auto", "jsonl", *FORMATS])
            raise InputError(f"--format must be one of {known}; got {form!r}.")
        return form
    source = Source(path, encoding)
    if not Path(path).is_dir() and path.lower().removesuffix(".gz").endswith(JSON_NAMES):
        return _json_format(source)
    found = find_format(source).name
    return None if found in SEQUENCES else found


def _json_format(source: Source) -> str | None:
    """Return the format that the first record shows; what none recognizes is for the reader of sequences to judge."""
    try:
        _, record = next(json_records(source), ("", None))
    except InputError:
        return None
    if isinstance(record, dict) and "labels" in record and ("tokens" in record or "features" in record):
        return None
    return next((form.name for form in FORMATS.values() if form.recognizes(record)), None)


def run_text_train(
    files: Sequence[str], form: str, model: str, dev: str | None, options: TrainOptions, quiet: bool
) -> None:
    """Read, say what the files were taken for, train a parser, save it."""
    from rulefield.estimators.text.parser import TextParser

    refuse_options(
        options,
        ("template", "unknown", "tasks", "expect", "initial_label", "corpus", "cluster"),
        "works on tokens and labels, but the files hold annotated texts; leave it out",
    )
    documents = [document for name in files for document in _annotated(name, form, options, quiet)]
    held_out = _annotated(dev, form, options, quiet) if dev else []
    begun = perf_counter()
    how = {"tokenizer": options.tokenizer, "on_cut": options.on_cut}
    parser = TextParser(model=_model(options, quiet), **how).fit(documents)
    parser.save(model)
    if quiet:
        return
    chain: Any = getattr(parser.model_, "crf_", parser.model_)
    say(
        f"{counted(len(documents), 'text')}, {counted(len(parser.labels_), 'label')}, "
        f"{counted(chain.theta_.size, 'weight')}, {chosen_penalties(chain)}"
        f"{counted(chain.n_iter_, 'iteration')}, {perf_counter() - begun:.1f} s; saved to {model}"
    )
    if chain is not parser.model_:
        say(parser.model_.report())
    if dev:
        gold = [[(s.start, s.end, s.label) for s in document.spans or ()] for document in held_out]
        say(f"{dev}: span F1 {100 * parser.score([document.text for document in held_out], gold):.2f}")


def _annotated(path: str, form: str, options: TrainOptions, quiet: bool) -> list[Document]:
    """Return the texts of a file that have spans, or none on purpose; says what the file was taken for."""
    found = list(read_documents(path, form, encoding=options.encoding))
    kept = [document for document in found if document.spans is not None]
    if not kept:
        raise InputError(f"{path!r} ({FORMATS[form].about}) holds no annotated text.")
    if not quiet:
        left = f", {len(found) - len(kept)} more without annotation" if len(kept) < len(found) else ""
        spans = counted(sum(len(d.spans or ()) for d in kept), "span")
        say(f"{path}: {FORMATS[form].about}; {counted(len(kept), 'text')}, {spans}{left}")
    return kept


def _model(options: TrainOptions, quiet: bool) -> Any:
    """Return the model inside: a chain or segments, under a scheme; with rules to be weighed, a RuledCRF."""
    scheme = "BIO" if options.scheme == "auto" else options.scheme
    if options.rules != LEARN and not open_rules(options):
        return make_crf([["text"]], [["O"]], replace(options, scheme=scheme), quiet)
    from rulefield.estimators.ruled.estimator import RuledCRF
    from rulefield.rules import text

    rules = "find" if options.rules == LEARN else text.load(str(options.rules))
    crf = make_crf([["text"]], [["O"]], replace(options, scheme=scheme, rules=LEARN), quiet)
    return RuledCRF(crf, rules=rules, random_state=options.seed, n_jobs=options.jobs, verbose=progress(quiet))
