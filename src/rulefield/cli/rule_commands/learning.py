"""``rulefield rules learn``: which rules a trained chain should follow, and at what price."""

import sys
from dataclasses import dataclass, field
from typing import Any

from rulefield.cli.corpus import protect_inputs
from rulefield.cli.opened import OpenedChain, open_model
from rulefield.cli.reading import Reading
from rulefield.cli.training import first_rules, progress, say
from rulefield.exceptions import InputError

BUILT_IN = ("find", "propose", "mine")


@dataclass(frozen=True)
class LearnOptions:
    """The options of the command."""

    rules: str = "find"
    method: str = "soft"
    seed: int = 0
    unknown: str | None = None
    reading: Reading = field(default_factory=Reading)
    jobs: int = -1


def run_learn(model: str, file: str, output: str, options: LearnOptions, quiet: bool) -> None:
    """Read a chain and held-out data, learn weights, save both as one model, print the report."""
    from rulefield.estimators.files import load
    from rulefield.estimators.ruled.estimator import RuledCRF
    from rulefield.estimators.text.parser import TextParser

    own = [] if options.rules in BUILT_IN else [options.rules]
    protect_inputs(output, [model, file, *own])
    opened = load(model)
    parser = opened if opened._kind == "text" else None
    chain = chain_of(open_model(model, options.jobs))
    tokens, labels = read_labeled(file, options, quiet, parser)
    ruled = RuledCRF(
        chain,
        cv="prefit",
        rules=_candidates(options.rules),
        method=options.method,
        random_state=options.seed,
        n_jobs=options.jobs,
        verbose=progress(quiet),
    )
    ruled.fit(tokens, labels)
    made: Any = ruled
    if parser is not None:
        made = TextParser.of(ruled, parser.tokenizer)
        made._tokenizer = parser._tokenizer  # the one that "auto" chose
    made.save(output)
    if not quiet:
        sys.stdout.write(first_rules(ruled, output) + "\n")
        say(f"{len(tokens)} held-out sequences; saved to {output}")


def chain_of(opened: OpenedChain) -> Any:
    """Return the chain of a model; rules that were learned for it before are forgotten."""
    if opened.chain is None:
        raise InputError(f"rules are learned for chains; this file holds a {opened.kind} model.")
    return opened.chain


def read_labeled(file: str, options: LearnOptions, quiet: bool, parser: Any = None) -> tuple[list[Any], list[Any]]:
    """Tokens and labels of the sequences in which every label is known."""
    from rulefield.rules.finding.observed import fully_labeled

    corpus = options.reading.sequences(file, labeled=True, unknown=options.unknown, parser=parser)
    pairs = [(x, y) for x, y in zip(corpus.tokens, corpus.labels or []) if fully_labeled(y)]
    if not pairs:
        raise InputError(f"{file!r} has no sequence in which every label is known.")
    if len(pairs) < len(corpus.tokens) and not quiet:
        say(f"{len(corpus.tokens) - len(pairs)} sequences with unknown labels are left out")
    return [x for x, _ in pairs], [y for _, y in pairs]


def _candidates(rules: str) -> Any:
    from rulefield.rules import text

    return rules if rules in BUILT_IN else text.load(rules)
