"""``rulefield train``: read, fit, save, say what came out; for sequences, texts, several tasks, a corpus on disk."""

from collections.abc import Sequence
from time import perf_counter
from typing import Annotated, Any

import typer

from rulefield.cli.corpus import FileContents, counted, protect_inputs, read_corpus, say
from rulefield.cli.documents import are_pages, run_page_train
from rulefield.cli.models import (
    LEARN,
    choose_features,
    choose_scheme,
    make_estimator,
    named_scheme,
    read_train_rules,
    refuse_options,
    unknown_label,
)
from rulefield.cli.options import TrainOptions, command
from rulefield.cli.prediction import check_rules
from rulefield.cli.reading import read_texts, text_format
from rulefield.cli.tasks import labeled_rows, parse_tasks, read_tasks
from rulefield.data.documents import Document
from rulefield.exceptions import InputError

LEAST_SEQUENCES = 5
MOST_SHOWN_RULES = 10


@command(
    "train",
    "rulefield train train.conll -o chunks.rf --scheme BIO",
    "rulefield train data.jsonl -o m.rf --l1 0.1 --dev dev.jsonl",
    "rulefield train scattered.conll -o joint.rf --tasks ner=3,pos=1 --expect expectations.yaml",
    "rulefield train pages/*.xml -o table.rf",
    "rulefield train export.json -o notes.rf",
    "rulefield train marked.conll -o names.rf --initial-label O --expect expectations.yaml",
)
def train(
    model: Annotated[str, typer.Option("--output", "-o", help="Model file to write.")],
    options: TrainOptions,
    files: Annotated[
        list[str],
        typer.Argument(
            help="Labeled files: columns (label last), JSON lines, texts as annotation tools export them, or pages."
        ),
    ],
    dev: Annotated[str | None, typer.Option(help="Held-out file, scored at the end.")] = None,
) -> None:
    """Learn a model from labeled sequences, or a parser from annotated texts."""
    rules = None if options.rules == LEARN else options.rules
    protect_inputs(model, [*files, *(name for name in (dev, rules, options.expect) if name)])
    if options.form == "auto" and are_pages(files):
        run_page_train(files, model, options)
    elif options.tasks is None and text_format(files[0], options) is not None:
        _train_on_texts(files, model, dev, options)
    else:
        _train_on_sequences(files, model, dev, options)


def _train_on_sequences(files: Sequence[str], model: str, dev: str | None, options: TrainOptions) -> None:
    contents = [_labeled(name, options) for name in files]
    tokens = [sequence for one in contents for sequence in one.tokens]
    labels = [row for one in contents for row in one.labels or []]
    held_out = _labeled(dev, options) if dev else None
    begin = perf_counter()
    scheme: Any = choose_scheme(labels, options) if options.tasks is None else _schemes(labels, options)
    if options.tasks is None:
        _check_rules(options, {str(label) for row in labels for label in row if label is not None}, scheme)
    crf = make_estimator(options, scheme, choose_features(tokens))
    if crf._kind == "ruled":
        _refuse_few(tokens, labels)
    crf.fit(tokens, labels)
    crf.save(model)
    classes = crf.classes_ if isinstance(crf.classes_, dict) else {"": crf.classes_}
    sizes = [f"{task} {counted(len(names), 'label')}".strip() for task, names in classes.items()]
    _report(options, [counted(len(tokens), "sequence"), *sizes], crf, begin, model)
    _report_dev(options, dev, crf, held_out)


def _schemes(labels: list[dict[str, Any]], options: TrainOptions) -> dict[str, str | None]:
    """Return the scheme of each task of a joint model."""
    if options.rules == LEARN:
        raise InputError("--rules learn is for chains, but --tasks trains a joint model; give a rules file.")
    names = ("l1", "initial_label", "segments")
    refuse_options(options, names, "is for chains, but --tasks trains a joint model; leave one of them out")
    schemes = {}
    for task in parse_tasks(options.tasks or ""):
        known = [row[task] for row in labels if row[task] is not None]
        if not known:
            raise InputError(f"no sequence has labels of the task {task!r}; see --tasks and --unknown.")
        schemes[task] = choose_scheme(known, options)
    return schemes


def _check_rules(options: TrainOptions, labels: set[str], scheme: str | None) -> None:
    """Refuse a rule about a label that the data do not have, with its line."""
    rules = read_train_rules(options)
    if options.rules and rules != "find":
        check_rules(options.rules, rules, sorted(labels), scheme)


def _labeled(path: str, options: TrainOptions) -> FileContents:
    if options.tasks is not None:
        return read_tasks(path, options, parse_tasks(options.tasks), options.unknown)
    return read_corpus(path, options.form, labeled=True, unknown=unknown_label(options), encoding=options.encoding)


def _refuse_few(tokens: list[Any], labels: list[Any]) -> None:
    """Refuse data on which rules cannot be weighed."""
    from rulefield.rules.finding.observed import fully_labeled

    if len(tokens) < LEAST_SEQUENCES or not all(map(fully_labeled, labels)):
        raise InputError(
            f"--rules learn, and rules files with weights to be found, need at least {LEAST_SEQUENCES} sequences, every "
            "label known; train on fewer or partial labels without rules, then use rulefield rules learn with a fully "
            "labeled file."
        )


def _train_on_texts(files: Sequence[str], model: str, dev: str | None, options: TrainOptions) -> None:
    from rulefield.encode.schemes import OUTSIDE
    from rulefield.encode.spans import convert
    from rulefield.encode.tokens import TokenFeatures
    from rulefield.estimators.text.parser import TextParser

    refuse_options(
        options,
        ("unknown", "tasks", "expect", "initial_label"),
        "works on tokens and labels, but the files hold annotated texts; leave it out",
    )
    documents = [document for name in files for document in _annotated(name, options)]
    held_out = _annotated(dev, options) if dev else []
    begin = perf_counter()
    scheme = "BIO" if options.scheme == "auto" else named_scheme(options.scheme)
    fields = {span.label for document in documents for span in document.spans or ()}
    written = convert([f"{prefix}-{field}" for field in fields for prefix in "BIIB"], "BIO", scheme)
    _check_rules(options, {OUTSIDE, *written}, scheme)
    parser = TextParser(
        model=make_estimator(options, scheme, TokenFeatures()),
        tokenizer=options.tokenizer,
        on_cut=options.on_cut,
    ).fit(documents)
    parser.save(model)
    _report_tokenizer(options, parser)
    sizes = [counted(len(documents), "text"), counted(len(parser.labels_), "label")]
    _report(options, sizes, parser.model_, begin, model)
    if dev and not options.quiet:
        gold = [[tuple(span[:3]) for span in document.spans or ()] for document in held_out]
        say(f"{dev}: span F1 {100 * parser.score([document.text for document in held_out], gold):.2f}")


def _annotated(path: str, options: TrainOptions) -> list[Document]:
    """Return the texts of a file that have spans, or none on purpose; says what the file was taken for."""
    from rulefield.encode.formats import FORMATS

    about = FORMATS[str(text_format(path, options))].about
    documents = read_texts(path, options)
    kept = [document for document in documents if document.spans is not None]
    if not kept:
        raise InputError(f"{path!r} ({about}) holds no annotated text.")
    if not options.quiet:
        left = f", {len(documents) - len(kept)} more without annotation" if len(kept) < len(documents) else ""
        spans = counted(sum(len(d.spans or ()) for d in kept), "span")
        say(f"{path}: {about}; {counted(len(kept), 'text')}, {spans}{left}")
    return kept


def _report_tokenizer(options: TrainOptions, parser: Any) -> None:
    """Say which tokenizer was chosen, if several were compared."""
    from rulefield.estimators.text.tokenizing import name_of

    if parser.tokenizer_scores_ and not options.quiet:
        scores = ", ".join(f"{name} {100 * score:.1f}" for name, score in parser.tokenizer_scores_.items())
        say(f"tokenizer {name_of(parser._tokenizer)}; span F1 by cross-validation: {scores}")


# --- what is said at the end ------------------------------------------------------------------------


def _report(options: TrainOptions, sizes: list[str], crf: Any, begin: float, path: str) -> None:
    """Say what was learned, how expectations came out, and which rules were kept."""
    if options.quiet:
        return
    inner = getattr(crf, "estimator_", crf)
    seconds = f"{perf_counter() - begin:.1f} s; saved to {path}"
    sizes = [*sizes, counted(inner.theta_.size, "weight"), *_penalties(inner), counted(inner.n_iter_, "iteration")]
    say(", ".join([*sizes, seconds]))
    for report in getattr(inner, "expectations_", []):
        say(expectation_line(report))
    if crf is not inner:
        say(first_rules(crf, path))


def _penalties(crf: Any) -> list[str]:
    """Say which penalties were chosen, if any were."""
    chosen = "auto" in (getattr(crf, "l1", 0.0), crf.l2)
    return [f"l1 {crf.l1_:g} and l2 {crf.l2_:g} chosen"] if chosen else []


def expectation_line(report: Any) -> str:
    """Say how an expectation fared, in one line."""
    effect = "holds by itself" if not report.binds else f"binds, multiplier {report.multiplier:+.3g}"
    return (
        f"{report.expectation}: {report.under_q:.4g} in training, {report.under_model:.4g} under the model, "
        f"{report.predicted:.4g} in its predictions (wanted {report.low:g} to {report.high:g}; {effect})"
    )


def first_rules(ruled: Any, path: str) -> str:
    """Return the head and the most expensive rules of a report, and where the others are."""
    head, *rows = ruled.report().splitlines()
    more = len(rows) - MOST_SHOWN_RULES
    last = [f"... and {more} more: rulefield inspect {path}"] if more > 0 else []
    return "\n".join([head, *rows[:MOST_SHOWN_RULES], *last])


def _report_dev(options: TrainOptions, dev: str | None, crf: Any, held_out: FileContents | None) -> None:
    """Say the scores on held-out data, of each task if there are several."""
    if options.quiet or held_out is None:
        return
    gold, predicted = held_out.labels or [], list(crf.predict(held_out.tokens))
    inner = getattr(crf, "estimator_", crf)
    if inner._kind != "joint":
        say(f"{dev}: {_scores(gold, predicted, inner.scheme)}")
        return
    parts = []
    for task in crf.tasks_:
        rows = labeled_rows(held_out, task)
        expected, labeled = ([labels[i][task] for i in rows] for labels in (gold, predicted))
        parts += [f"{task} {_scores(expected, labeled, crf.scheme[task])}"] if rows else []
    say(f"{dev}: {'; '.join(parts) or 'no sequence is fully labeled'}")


def _scores(gold: Any, predicted: Any, scheme: str | None) -> str:
    from rulefield.metrics import span_f1, token_accuracy

    f1 = span_f1(gold, predicted, scheme=scheme or "auto")
    return f"span F1 {100 * f1:.2f}, token accuracy {100 * token_accuracy(gold, predicted):.2f}"
