"""``rulefield rules propose``, ``mine``, ``check`` and ``learn``: rules files and labeled data."""

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer
from rich.table import Table

from rulefield import rules as r
from rulefield.cli.corpus import STANDARD, FileContents, progress, protect_inputs, say, write_lines
from rulefield.cli.options import COMMANDS, LearnOptions, ModelFile, Output, ReadOptions, Scheme, Unknown, command
from rulefield.cli.prediction import check_rules
from rulefield.cli.reading import open_model, read_sequences, sequence_model
from rulefield.cli.show import console
from rulefield.cli.training import first_rules
from rulefield.exceptions import InputError
from rulefield.rules import text

BUILT_IN = ("find", "propose", "mine")

group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Find, learn and check rules.")
Labeled = Annotated[str, typer.Argument(help="Labeled file: columns (label last), JSON lines, or annotated texts.")]


@group.callback()
def _about() -> None:
    """Work with rules files."""


@command("check", "rulefield rules check rules.yaml --labels train.conll", group=group)
def check(
    rules: Annotated[str, typer.Argument(help="Rules file (YAML).")],
    reading: ReadOptions,
    labels: Annotated[str, typer.Option(help="Labeled file: count the sequences that break each rule.")] = "",
) -> None:
    """Read a rules file and say what is in it; with labeled data, how often each rule is broken."""
    from rulefield.metrics import guess_scheme

    checked = text.load(rules)
    columns = ["rule", "weight", *(["broken in", "by"] if labels else [])]
    table = Table(*columns, title=f"{len(checked)} rules", title_justify="left")
    corpus = read_sequences(labels, reading, labeled=True) if labels else None
    if corpus is not None:
        names = sorted({str(label) for row in corpus.labels or [] for label in row})
        check_rules(rules, checked, names, guess_scheme(names).value)
    counts = r.check(checked, corpus.tokens, corpus.labels or []) if corpus else []
    cells = [[f"{c.broken} of {c.sequences} sequences", str(c.amount)] for c in counts] or [[] for _ in checked]
    for rule, more in zip(checked, cells):
        table.add_row(rule.label, "hard" if rule.is_hard else f"{rule.weight}", *more)
    console().print(table)


@command("propose", "rulefield rules propose train.conll -o candidates.yaml", group=group)
def propose(
    file: Labeled,
    reading: ReadOptions,
    output: Output = STANDARD,
    scheme: Scheme = "auto",
    min_share: Annotated[float, typer.Option(help="Least share of the sequences in which a rule holds.")] = 0.6,
    unknown: Unknown = None,
) -> None:
    """Write candidate rules by template: how many segments of each type a sequence has. Weights are to be learned."""
    corpus, segment_scheme = _read(file, output, reading, unknown, scheme)
    rules = r.propose(corpus.labels or [], segment_scheme, min_share=min_share)
    counts = r.check(rules, None, corpus.labels or [], segment_scheme)
    head = (
        f"{len(rules)} candidates; learn their weights with: rulefield rules learn MODEL DEV --rules THIS -o MODEL2"
    )
    entries = ((c.rule, f"holds in {c.holds:.1%} of {c.sequences} sequences") for c in counts)
    write_lines(output, rules_file(head, entries))


@command("mine", "rulefield rules mine train.conll -o rules.yaml --min-confidence 0.95", group=group)
def mine(
    file: Labeled,
    reading: ReadOptions,
    output: Output = STANDARD,
    scheme: Scheme = "auto",
    min_support: Annotated[int, typer.Option(help="Least number of instances that speak for a rule.")] = 5,
    min_confidence: Annotated[float, typer.Option(help="Least share of its instances for which a rule holds.")] = 0.9,
    unknown: Unknown = None,
) -> None:
    """Write rules about order, neighbors and delimiters that hold in labeled data, with support and confidence."""
    corpus, segment_scheme = _read(file, output, reading, unknown, scheme)
    mined = r.mine_table(
        corpus.tokens,
        corpus.labels or [],
        segment_scheme,
        min_support=min_support,
        min_confidence=min_confidence,
    )
    entries = (
        (
            m.rule,
            f"{m.family}: support {m.satisfied}, confidence {m.confidence:.1%} of {m.satisfied + m.violated}",
        )
        for m in mined
    )
    head = f"{len(mined)} rules, the most expensive first; weights are the cost of a violation, -log of how often it occurs"
    write_lines(output, rules_file(head, entries))


def _read(
    file: str, output: str, reading: ReadOptions, unknown: str | None, scheme: str
) -> tuple[FileContents, str | None]:
    if output != STANDARD:
        protect_inputs(output, [file])
    return read_sequences(file, reading, labeled=True, unknown=unknown), None if scheme == "none" else scheme


def rules_file(head: str, entries: Iterable[tuple[Any, str]]) -> Iterator[str]:
    """Lines of a rules file with a comment above each rule."""
    yield f"# {head}"
    for rule, comment in entries:
        yield f"# {comment}"
        yield from text.dumps([rule]).splitlines()


@command(
    "learn",
    "rulefield rules learn model.rf dev.conll -o ruled.rf",
    "rulefield rules learn model.rf dev.conll --rules rules.yaml --method two-stage -o ruled.rf",
    group=group,
)
def learn(
    model: ModelFile,
    file: Annotated[str, typer.Argument(help="Labeled file that the model was not trained on.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Model file to write: the model with its rules.")],
    options: LearnOptions,
) -> None:
    """Learn on held-out data which rules a model should follow and what breaking them costs; print the report."""
    from rulefield.estimators.ruled.estimator import RuledCRF
    from rulefield.estimators.text.parser import TextParser

    built_in = options.rules in BUILT_IN
    protect_inputs(output, [model, file, *([] if built_in else [options.rules])])
    opened = open_model(model, options.jobs)
    parser = opened if opened._kind == "text" else None
    tokens, labels = _read_labeled(file, options, parser)
    ruled = RuledCRF(
        _without_rules(sequence_model(opened)),
        cv="prefit",
        rules=options.rules if built_in else text.load(options.rules),
        method=options.method,
        random_state=options.seed,
        n_jobs=options.jobs,
        verbose=progress(options.quiet),
    )
    ruled.fit(tokens, labels)
    saved: Any = ruled
    if parser is not None:
        saved = TextParser.of(ruled, parser.tokenizer)
        saved._tokenizer = parser._tokenizer  # the one that "auto" chose
    saved.save(output)
    if not options.quiet:
        sys.stdout.write(first_rules(ruled, output) + "\n")
        say(f"{len(tokens)} held-out sequences; saved to {output}")


def _without_rules(model: Any) -> Any:
    """Return the chain or the segments of a model; rules that were learned for it before are forgotten."""
    if model._kind == "joint":
        raise InputError("rules are learned for chains and segments; this file holds a joint model.")
    return getattr(model, "estimator_", model)


def _read_labeled(file: str, options: LearnOptions, parser: Any) -> tuple[list[Any], list[Any]]:
    """Return tokens and labels of the sequences in which every label is known."""
    from rulefield.rules.finding.observed import fully_labeled

    corpus = read_sequences(file, options, labeled=True, unknown=options.unknown, parser=parser)
    pairs = [(x, y) for x, y in zip(corpus.tokens, corpus.labels or []) if fully_labeled(y)]
    if not pairs:
        raise InputError(f"{file!r} has no sequence in which every label is known.")
    if len(pairs) < len(corpus.tokens) and not options.quiet:
        say(f"{len(corpus.tokens) - len(pairs)} sequences with unknown labels are left out")
    return [x for x, _ in pairs], [y for _, y in pairs]


COMMANDS["rules"] = typer.main.get_command(group)
