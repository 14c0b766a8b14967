"""``rulefield train``."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from rulefield.cli.corpus import FileContents, counted, protect_inputs, read_corpus
from rulefield.cli.tasks import UNKNOWN
from rulefield.exceptions import InputError, LabelError
from rulefield.parallel import connected


@dataclass(frozen=True)
class TrainOptions:
    """The options of the command, in its order."""

    template: str | None = None
    scheme: str = "auto"
    solver: str = "lbfgs"
    l1: str = "auto"
    l2: str = "auto"
    max_iter: int | None = None
    min_count: int = 1
    early_stopping: int | None = None
    rules: str | None = None
    unknown: str | None = None
    seed: int = 0
    form: str = "auto"
    jobs: int = -1
    tasks: str | None = None
    expect: str | None = None
    initial_label: str | None = None
    segments: bool = False
    corpus: str | None = None
    cluster: str | None = None
    encoding: str = "utf-8-sig"
    tokenizer: str = "auto"
    on_cut: str = "split"
    hash_bits: int | None = None
    text: str | None = None
    column: str | None = None
    apart: bool = False

    @property
    def unknown_label(self) -> str | None:
        """What means "not annotated": as given, or ``_`` where expectations stand in for labels."""
        return UNKNOWN if self.unknown is None and (self.expect or self.initial_label) else self.unknown

    @property
    def penalties(self) -> dict[str, Any]:
        """``l1`` and ``l2``: numbers, "auto", or the usual numbers where nothing can be chosen by likelihood."""
        chosen = not (self.expect or self.segments or self.tasks or self.corpus)
        usual = {"l1": "auto", "l2": "auto"} if chosen else {"l1": 0.0, "l2": 1.0}
        return {name: _penalty(name, getattr(self, name), usual[name]) for name in usual}


def _penalty(name: str, given: str, usual: Any) -> Any:
    if given == "auto":
        return usual
    try:
        return float(given)
    except ValueError:
        raise InputError(f"--{name} must be a number or auto; got {given!r}.") from None


LEARN = "learn"
"""``--rules learn``: candidates by template, weights learned by cross-validation."""
LEAST_SEQUENCES = 5


def run_train(files: Sequence[str], model: str, dev: str | None, options: TrainOptions, quiet: bool) -> None:
    """Read, train, save, say what came out."""
    from rulefield.cli.texts.training import run_text_train, text_format

    rules = None if options.rules == LEARN else options.rules
    protect_inputs(model, [*files, *(name for name in (dev, options.template, rules, options.expect) if name)])
    if not files and not options.corpus:
        raise InputError("train needs labeled files, or --corpus with a folder of encoded parts.")
    form = text_format(files[0], options.form, options.encoding) if files else None
    if form is not None:
        run_text_train(files, form, model, dev, options, quiet)
        return
    if options.corpus or options.cluster:
        _train_on_corpus(files, model, dev, options, quiet)
        return
    tokens, labels = read_all(files, options)
    held_out = read_labeled(dev, options) if dev else None
    begun = perf_counter()
    if options.rules == LEARN or open_rules(options):
        crf = fit_ruled(tokens, labels, options, quiet)
        chain = crf.estimator_
    else:
        crf = chain = make_crf(tokens, labels, options, quiet)
        given = {"X_dev": held_out.tokens, "y_dev": held_out.labels} if held_out and options.early_stopping else {}
        crf.fit(tokens, labels, **given)
    crf.save(model)
    if quiet:
        return
    say(
        f"{counted(len(tokens), 'sequence')}, {counted(len(chain.classes_), 'label')}, "
        f"{counted(chain.theta_.size, 'weight')}, "
        f"{chosen_penalties(chain)}{counted(chain.n_iter_, 'iteration')}, {perf_counter() - begun:.1f} s; saved to {model}"
    )
    for report in getattr(chain, "expectations_", []):
        say(expectation_line(report))
    if crf is not chain:
        say(first_rules(crf, model))
    if held_out:
        say(f"{dev}: {_dev_line(crf, chain.scheme, held_out)}")


def _train_on_corpus(files: Sequence[str], model: str, dev: str | None, options: TrainOptions, quiet: bool) -> None:
    """Write the files to a corpus where there are some, learn from it, save."""
    from rulefield.estimators.chain.estimator import ChainCRF
    from rulefield.rules import text as rules_text

    refuse_options(
        options, ("expect", "initial_label", "segments", "tasks"), "needs the data in memory; leave --corpus out"
    )
    if not options.corpus or options.rules == LEARN:
        raise InputError("--cluster needs --corpus, a folder that all workers see, and no --rules learn.")
    begun = perf_counter()
    corpus = _corpus_of(files, options)
    held_out = read_labeled(dev, options) if dev else None
    crf = ChainCRF(
        solver=options.solver,
        **options.penalties,
        scheme=_corpus_scheme(corpus, options.scheme, quiet),
        rules=rules_text.load(options.rules) if options.rules else None,
        min_count=options.min_count,
        max_iter=options.max_iter,
        early_stopping=options.early_stopping,
        random_state=options.seed,
        n_jobs=options.jobs,
        verbose=progress(quiet),
    )
    given = {"X_dev": held_out.tokens, "y_dev": held_out.labels} if held_out and options.early_stopping else {}
    with connected(options.cluster) if options.cluster else nullcontext() as client:
        crf.fit(corpus, client=client, **given)
    crf.save(model)
    if quiet:
        return
    say(
        f"{counted(len(corpus), 'sequence')}, {counted(len(crf.classes_), 'label')}, "
        f"{counted(crf.theta_.size, 'weight')}, {counted(crf.n_iter_, 'iteration')}, "
        f"{perf_counter() - begun:.1f} s; saved to {model}"
    )
    if held_out:
        say(f"{dev}: {_dev_line(crf, crf.scheme, held_out)}")


def _corpus_of(files: Sequence[str], options: TrainOptions) -> Any:
    from rulefield.estimators.corpora import open_corpus, write_corpus

    if not files:
        if options.template or options.hash_bits:
            given = "--template" if options.template else "--hash-bits"
            raise InputError(f"{given} goes with files to encode; the corpus has its features.")
        return open_corpus(str(options.corpus))
    first = read_corpus(
        files[0], options.form, labeled=True, unknown=options.unknown_label, encoding=options.encoding
    )
    features = choose_features(first.tokens, options.template, options.hash_bits)
    del first

    def source() -> Iterator[tuple[Any, Any]]:
        for name in files:
            contents = read_corpus(
                name, options.form, labeled=True, unknown=options.unknown_label, encoding=options.encoding
            )
            yield from zip(contents.tokens, contents.labels or [])

    return write_corpus(source(), str(options.corpus), features=features)


def _corpus_scheme(corpus: Any, scheme: str, quiet: bool) -> str | None:
    """Return the scheme asked for; "auto" is the one under which all labels of all parts are possible."""
    from rulefield.encode.schemes import Scheme, as_scheme

    if scheme != "auto":
        return None if as_scheme(scheme) is Scheme.none else as_scheme(scheme).value
    names = [str(label) for label in corpus.classes]
    found = possible_scheme(names, lambda: (part.labels for part in corpus))
    if found is None and candidate_schemes(names) and not quiet:
        say(f"labels look like {candidate_schemes(names)[0]}, but some break it; training without a scheme")
    return found


def open_rules(options: TrainOptions) -> bool:
    """Whether a rules file leaves weights to be found; a model of segments refuses them by itself."""
    from rulefield.rules import text

    return (
        bool(options.rules) and not options.segments and any(rule.is_open for rule in text.load(str(options.rules)))
    )


def fit_ruled(tokens: list[Any], labels: list[Any], options: TrainOptions, quiet: bool) -> Any:
    """Train a chain, and find out on folds which rules it should follow: candidates by template, or those of a file."""
    from rulefield.estimators.ruled.estimator import RuledCRF
    from rulefield.rules import text
    from rulefield.rules.finding.observed import fully_labeled

    if len(tokens) < LEAST_SEQUENCES or not all(map(fully_labeled, labels)):
        raise InputError(
            f"--rules learn, and rules files with weights to be found, need at least {LEAST_SEQUENCES} sequences, every "
            "label known; train on fewer or partial labels without rules, then use rulefield rules learn with a fully "
            "labeled file."
        )
    rules = "find" if options.rules == LEARN else text.load(str(options.rules))
    crf = make_crf(tokens, labels, replace(options, rules=LEARN), quiet)
    ruled = RuledCRF(crf, rules=rules, random_state=options.seed, n_jobs=options.jobs, verbose=progress(quiet))
    return ruled.fit(tokens, labels)


def chosen_penalties(chain: Any) -> str:
    """Say which penalties were chosen, if any were."""
    if "auto" not in (getattr(chain, "l1", 0.0), chain.l2):
        return ""
    return f"l1 {chain.l1_:g} and l2 {chain.l2_:g} chosen, "


def read_labeled(path: str, options: TrainOptions) -> FileContents:
    """Read a labeled file as the options say."""
    return read_corpus(path, options.form, labeled=True, unknown=options.unknown_label, encoding=options.encoding)


def read_all(files: Sequence[str], options: TrainOptions) -> tuple[list[Any], list[Any]]:
    """Tokens and labels of all files, one after the other."""
    tokens: list[Any] = []
    labels: list[Any] = []
    for name in files:
        corpus = read_corpus(
            name, options.form, labeled=True, unknown=options.unknown_label, encoding=options.encoding
        )
        tokens += corpus.tokens
        labels += corpus.labels or []
    return tokens, labels


def make_crf(tokens: list[Any], labels: list[Any], options: TrainOptions, quiet: bool) -> Any:
    """Make the estimator that the options ask for."""
    from rulefield.estimators.chain.estimator import ChainCRF
    from rulefield.estimators.segments.estimator import SegmentCRF
    from rulefield.rules import expectation_text
    from rulefield.rules import text as rules_text

    shared: dict[str, Any] = {
        **options.penalties,
        "scheme": choose_scheme(labels, options.scheme, quiet),
        "rules": rules_text.load(options.rules) if options.rules and options.rules != LEARN else None,
        "features": choose_features(tokens, options.template, options.hash_bits),
        "min_count": options.min_count,
        "max_iter": options.max_iter,
        "random_state": options.seed,
        "n_jobs": options.jobs,
        "verbose": progress(quiet),
    }
    if options.segments:
        _refuse_chain_options(options)
        return SegmentCRF(**shared)
    return ChainCRF(
        solver=options.solver,
        expectations=expectation_text.load(options.expect) if options.expect else None,
        initial_label=options.initial_label,
        early_stopping=options.early_stopping,
        **shared,
    )


def _refuse_chain_options(options: TrainOptions) -> None:
    """Refuse what a segment model does not have."""
    names = ("solver", "early_stopping", "expect", "initial_label", "unknown")
    refuse_options(options, names, "works with chain models; leave it or --segments out")
    if options.rules == LEARN:
        raise InputError("--rules learn works with chain models; give --segments a rules file.")


def refuse_options(options: TrainOptions, names: Sequence[str], why: str) -> None:
    """Refuse what was given of these options."""
    usual = TrainOptions()
    for name in names:
        if getattr(options, name) != getattr(usual, name):
            raise InputError(f"--{name.replace('_', '-')} {why}.")


def choose_features(tokens: list[Any], template: str | None, hash_bits: int | None = None) -> Any:
    """Template, built-in features for tokens, or None where the file already holds features; hashed where asked for."""
    from rulefield.encode.keyed.hashed import HashedFeatures

    made = _chosen_features(tokens, template)
    return made if hash_bits is None else HashedFeatures(made, hash_bits=hash_bits)


def _chosen_features(tokens: list[Any], template: str | None) -> Any:
    from rulefield.encode.templates import Template
    from rulefield.encode.tokens import TokenFeatures

    first = next((token for sequence in tokens for token in sequence), "")
    plain = isinstance(first, (str, tuple))
    if template is None:
        return TokenFeatures() if plain else None
    if not plain:
        raise InputError("--template works on tokens, but the file holds features; leave one of them out.")
    return Template.from_file(template)


MAX_REWRITTEN_SHARE = 0.01
"""Labels, of all, that may break a scheme which the others follow."""


def choose_scheme(labels: list[Any], scheme: str, quiet: bool) -> str | None:
    """Return the scheme asked for; "auto" is the one that the labels follow.

    A few labels that break it are rewritten in place, as conlleval reads them.
    """
    from rulefield.encode.labels import LabelEncoder
    from rulefield.encode.schemes import Scheme, as_scheme

    if scheme != "auto":
        return None if as_scheme(scheme) is Scheme.none else as_scheme(scheme).value
    encoder = LabelEncoder()
    encoded = encoder.fit_encode(labels)
    names = [str(label) for label in encoder.classes_]
    return possible_scheme(names, lambda: iter([encoded])) or _nearest_scheme(labels, names, quiet)


def candidate_schemes(names: list[str]) -> list[str]:
    """Return the schemes that the prefixes of labels allow."""
    from rulefield.encode.schemes import Scheme
    from rulefield.metrics import guess_scheme

    guess = guess_scheme(names)
    return {Scheme.none: [], Scheme.bio: ["BIO", "IOB1"]}.get(guess, [guess.value])


def possible_scheme(names: list[str], parts: Callable[[], Iterator[Any]]) -> str | None:
    """Return the first scheme under which all encoded labels of all parts are possible, or None."""
    from rulefield.encode.schemes import allowed_transitions
    from rulefield.encode.spans import check_possible

    for candidate in candidate_schemes(names):
        try:
            for labels in parts():
                check_possible(labels, names, candidate, allowed_transitions(names, candidate))
        except LabelError:
            continue
        return candidate
    return None


def _nearest_scheme(labels: list[Any], names: list[str], quiet: bool) -> str | None:
    """Return the scheme that the fewest labels break, with these rewritten; None if they are too many."""
    broken = {scheme: list(_rewritten(labels, scheme)) for scheme in candidate_schemes(names)}
    if not broken:
        return None
    scheme = min(broken, key=lambda name: len(broken[name]))
    total, changes = sum(map(len, labels)), broken[scheme]
    few = 0 < len(changes) <= MAX_REWRITTEN_SHARE * total
    if changes and not quiet:
        i, t, label = changes[0]
        result = "these are rewritten, as conlleval reads them" if few else "training without a scheme"
        say(
            f"labels look like {scheme}, but {len(changes)} of {total} break it (sequence {i + 1}, token {t + 1}: "
            f"{labels[i][t]!r} in place of {label!r}); {result}"
        )
    if not few:
        return None
    for i, t, label in changes:
        labels[i][t] = label
    return scheme


def _rewritten(labels: list[Any], scheme: str) -> Iterator[tuple[int, int, str]]:
    """Yield the labels that a scheme would write differently: sequence, token, and its label."""
    from rulefield.encode.spans import convert

    for i, row in enumerate(labels):
        if all(isinstance(label, str) for label in row):
            yield from (
                (i, t, new) for t, (old, new) in enumerate(zip(row, convert(row, scheme, scheme))) if new != old
            )


def expectation_line(report: Any) -> str:
    """Say how an expectation fared, in one line."""
    effect = "holds by itself" if not report.binds else f"binds, multiplier {report.multiplier:+.3g}"
    return (
        f"{report.expectation}: {report.under_q:.4g} in training, {report.under_model:.4g} under the model, "
        f"{report.predicted:.4g} in its predictions (wanted {report.low:g} to {report.high:g}; {effect})"
    )


def _dev_line(crf: Any, scheme: str | None, held_out: FileContents) -> str:
    from rulefield.metrics import span_f1, token_accuracy

    predicted = crf.predict(held_out.tokens)
    f1 = span_f1(held_out.labels, predicted, scheme=scheme or "auto")
    return f"span F1 {100 * f1:.2f}, token accuracy {100 * token_accuracy(held_out.labels, predicted):.2f}"


def progress(quiet: bool) -> int:
    """Return the ``verbose`` of an estimator: a progress bar where somebody watches."""
    return int(not quiet and sys.stderr.isatty())


SHOWN_RULES = 10


def first_rules(ruled: Any, path: str) -> str:
    """Return the head and the most expensive rules of a report, and where the others are."""
    head, *rows = ruled.report().splitlines()
    more = len(rows) - SHOWN_RULES
    last = [f"... and {more} more: rulefield inspect {path}"] if more > 0 else []
    return "\n".join([head, *rows[:SHOWN_RULES], *last])


def say(sentence: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(sentence + "\n")
