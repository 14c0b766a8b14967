"""The estimator that the options of ``train`` ask for: features, scheme, penalties, rules."""

from collections.abc import Iterator, Sequence
from typing import Any

from rulefield.cli.corpus import progress, say
from rulefield.cli.options import TrainOptions
from rulefield.cli.tasks import UNKNOWN
from rulefield.exceptions import InputError, LabelError

LEARN = "learn"
"""``--rules learn``: rules are found, and their weights learned by cross-validation."""
MOST_REWRITTEN_SHARE = 0.01
"""Labels, of all, that may break a scheme which the others follow."""


def make_estimator(options: TrainOptions, scheme: Any, features: Any) -> Any:
    """Return a chain, a model of segments or a joint model; in a ``RuledCRF`` if rules or their weights are to be found."""
    rules = read_train_rules(options)
    shared: dict[str, Any] = {
        "random_state": options.seed,
        "n_jobs": options.jobs,
        "verbose": progress(options.quiet),
    }
    is_learned = options.tasks is None and (rules == "find" or any(rule.is_open for rule in rules or ()))
    settings = {
        **penalties(options),
        **shared,
        "scheme": scheme,
        "rules": None if is_learned else rules,
        "features": features,
        "min_count": options.min_count,
        "max_iter": options.max_iter,
    }
    estimator = _estimator(options, settings)
    if not is_learned:
        return estimator
    from rulefield.estimators.ruled.estimator import RuledCRF

    return RuledCRF(estimator, rules=rules, **shared)


def _estimator(options: TrainOptions, settings: dict[str, Any]) -> Any:
    if options.segments:
        from rulefield.estimators.segments.estimator import SegmentCRF

        names = ("expect", "initial_label", "unknown")
        refuse_options(options, names, "works with chain models; leave it or --segments out")
        return SegmentCRF(**settings)
    expectations = read_expectations(options)
    if options.tasks is not None:
        from rulefield.estimators.joint.estimator import JointCRF

        del settings["l1"]
        return JointCRF(tasks=list(settings["scheme"]), expectations=expectations, **settings)
    from rulefield.estimators.chain.estimator import ChainCRF

    return ChainCRF(expectations=expectations, initial_label=options.initial_label, **settings)


def read_train_rules(options: TrainOptions) -> Any:
    """Return the rules of a file, "find" for ``--rules learn``, or None."""
    from rulefield.rules import text

    if options.rules == LEARN:
        return "find"
    return text.load(options.rules) if options.rules else None


def read_expectations(options: TrainOptions) -> Any:
    """Return the expectations of a file, or None."""
    from rulefield.rules import expectation_text

    return expectation_text.load(options.expect) if options.expect else None


def penalties(options: TrainOptions) -> dict[str, Any]:
    """Return l1 and l2: numbers, "auto", or the usual numbers if nothing can be chosen by likelihood."""
    chosen = not (options.expect or options.segments or options.tasks)
    usual: dict[str, Any] = {"l1": "auto", "l2": "auto"} if chosen else {"l1": 0.0, "l2": 1.0}
    return {name: penalty(name, getattr(options, name), usual[name]) for name in usual}


def penalty(name: str, value: str, usual: Any) -> Any:
    """Return a penalty as a number; the usual one for ``auto``."""
    try:
        return usual if value == "auto" else float(value)
    except ValueError:
        raise InputError(f"--{name} must be a number or auto; got {value!r}.") from None


def unknown_label(options: TrainOptions) -> str | None:
    """Return the label that means "not annotated": ``_`` if expectations stand in for labels and none is named."""
    return UNKNOWN if options.unknown is None and (options.expect or options.initial_label) else options.unknown


def refuse_options(options: TrainOptions, names: Sequence[str], why: str) -> None:
    """Refuse any of these options that is not at its default."""
    usual = TrainOptions()
    for name in names:
        if getattr(options, name) != getattr(usual, name):
            raise InputError(f"--{name.replace('_', '-')} {why}.")


def choose_features(tokens: list[Any]) -> Any:
    """Return features of tokens, or None if the file holds features."""
    from rulefield.encode.tokens import TokenFeatures

    first = next((token for sequence in tokens for token in sequence), "")
    return TokenFeatures() if isinstance(first, (str, tuple)) else None


def named_scheme(scheme: str) -> str | None:
    """Return the scheme of a name other than ``auto``."""
    from rulefield.encode.schemes import Scheme, as_scheme

    return None if as_scheme(scheme) is Scheme.none else as_scheme(scheme).value


def choose_scheme(labels: list[Any], options: TrainOptions) -> str | None:
    """Return the scheme asked for; ``auto`` is the one that the labels follow.

    A few labels that break it are rewritten in place, as conlleval reads them.
    """
    from rulefield.encode.labels import LabelEncoder

    if options.scheme != "auto":
        return named_scheme(options.scheme)
    encoder = LabelEncoder()
    encoded = encoder.fit_encode(labels)
    names = [str(label) for label in encoder.classes_]
    return possible_scheme(names, encoded) or _nearest_scheme(labels, names, options.quiet)


def candidate_schemes(names: list[str]) -> list[str]:
    """Return the schemes that the prefixes of labels allow."""
    from rulefield.encode.schemes import Scheme
    from rulefield.metrics import guess_scheme

    guess = guess_scheme(names)
    return {Scheme.none: [], Scheme.bio: ["BIO", "IOB1"]}.get(guess, [guess.value])


def possible_scheme(names: list[str], labels: Any) -> str | None:
    """Return the first scheme under which all encoded labels are possible, or None."""
    from rulefield.encode.labels import check_possible
    from rulefield.encode.schemes import allowed_transitions

    for candidate in candidate_schemes(names):
        try:
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
    few = 0 < len(changes) <= MOST_REWRITTEN_SHARE * total
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
