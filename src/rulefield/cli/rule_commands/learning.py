"""``rulefield rules learn``: which rules a trained model should follow, and at what price."""

import sys
from typing import Any

from rulefield.cli.corpus import progress, protect_inputs, say
from rulefield.cli.options import LearnOptions
from rulefield.cli.reading import open_model, read_sequences, sequence_model
from rulefield.cli.training import first_rules
from rulefield.exceptions import InputError

BUILT_IN = ("find", "propose", "mine")


def run_learn(path: str, file: str, output: str, options: LearnOptions) -> None:
    """Read a model and held-out data, learn weights, save both as one model, print the report."""
    from rulefield.estimators.ruled.estimator import RuledCRF
    from rulefield.estimators.text.parser import TextParser

    protect_inputs(output, [path, file, *([] if options.rules in BUILT_IN else [options.rules])])
    model = open_model(path, options.jobs)
    parser = model if model._kind == "text" else None
    tokens, labels = _read_labeled(file, options, parser)
    ruled = RuledCRF(
        _inner(sequence_model(model)),
        cv="prefit",
        rules=_candidates(options.rules),
        method=options.method,
        random_state=options.seed,
        n_jobs=options.jobs,
        verbose=progress(options.quiet),
    )
    ruled.fit(tokens, labels)
    made: Any = ruled
    if parser is not None:
        made = TextParser.of(ruled, parser.tokenizer)
        made._tokenizer = parser._tokenizer  # the one that "auto" chose
    made.save(output)
    if not options.quiet:
        sys.stdout.write(first_rules(ruled, output) + "\n")
        say(f"{len(tokens)} held-out sequences; saved to {output}")


def _inner(model: Any) -> Any:
    """Return the chain or the segments of a model; rules that were learned for it before are forgotten."""
    if model._kind == "joint":
        raise InputError("rules are learned for chains and segments; this file holds a joint model.")
    return getattr(model, "estimator_", model)


def _read_labeled(file: str, options: LearnOptions, parser: Any) -> tuple[list[Any], list[Any]]:
    """Return tokens and labels of the sequences in which every label is known."""
    from rulefield.rules.finding.observed import fully_labeled

    corpus = read_sequences(file, options.reading, labeled=True, unknown=options.unknown, parser=parser)
    pairs = [(x, y) for x, y in zip(corpus.tokens, corpus.labels or []) if fully_labeled(y)]
    if not pairs:
        raise InputError(f"{file!r} has no sequence in which every label is known.")
    if len(pairs) < len(corpus.tokens) and not options.quiet:
        say(f"{len(corpus.tokens) - len(pairs)} sequences with unknown labels are left out")
    return [x for x, _ in pairs], [y for _, y in pairs]


def _candidates(rules: str) -> Any:
    from rulefield.rules import text

    return rules if rules in BUILT_IN else text.load(rules)
