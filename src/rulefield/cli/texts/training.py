"""``rulefield train export.json``: a parser from annotated texts, in any format that the library reads."""

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from rulefield.cli.corpus import counted
from rulefield.cli.reading import Reading
from rulefield.cli.training import (
    LEARN,
    TrainOptions,
    chosen_penalties,
    first_rules,
    make_crf,
    open_rules,
    progress,
    refuse_options,
    say,
)
from rulefield.data.documents import Document
from rulefield.encode.formats import FORMATS
from rulefield.exceptions import InputError


def text_format(path: str, form: str, encoding: str) -> str | None:
    """Name of the format of annotated texts that a file is in, or None where it holds tokens and labels."""
    return Reading(form, encoding=encoding).text_format(path)


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
    _say_tokenizer(parser)
    chain: Any = getattr(parser.model_, "estimator_", parser.model_)
    say(
        f"{counted(len(documents), 'text')}, {counted(len(parser.labels_), 'label')}, "
        f"{counted(chain.theta_.size, 'weight')}, {chosen_penalties(chain)}"
        f"{counted(chain.n_iter_, 'iteration')}, {perf_counter() - begun:.1f} s; saved to {model}"
    )
    if chain is not parser.model_:
        say(first_rules(parser.model_, model))
    if dev:
        gold = [[(s.start, s.end, s.label) for s in document.spans or ()] for document in held_out]
        say(f"{dev}: span F1 {100 * parser.score([document.text for document in held_out], gold):.2f}")


def _say_tokenizer(parser: Any) -> None:
    """Say which tokenizer was chosen, if several were compared."""
    from rulefield.estimators.text.tokenizing import name_of

    if parser.tokenizer_scores_:
        scores = ", ".join(f"{name} {100 * score:.1f}" for name, score in parser.tokenizer_scores_.items())
        say(f"tokenizer {name_of(parser._tokenizer)}; span F1 by cross-validation: {scores}")


def _annotated(path: str, form: str, options: TrainOptions, quiet: bool) -> list[Document]:
    """Return the texts of a file that have spans, or none on purpose; says what the file was taken for."""
    how = Reading(form, options.text, options.column, options.encoding, apart=options.apart)
    found = list(how.documents(path))
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
