"""``rulefield rules propose``, ``mine`` and ``check``: rules files and labeled data."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich.table import Table

from rulefield.cli.corpus import STANDARD, FileContents, protect_inputs, write_lines
from rulefield.cli.options import ReadOptions
from rulefield.cli.reading import read_sequences
from rulefield.cli.show import console


def run_propose(
    file: str,
    output: str,
    scheme: str,
    families: list[str],
    min_share: float,
    unknown: str | None,
    reading: ReadOptions,
) -> None:
    """Write candidates by template, each with the share of sequences in which it holds."""
    from rulefield.rules import check, propose
    from rulefield.rules.finding.propose import FAMILIES

    corpus, own = _read(file, output, reading, unknown, scheme)
    rules = propose(corpus.labels or [], own, families or FAMILIES, min_share=min_share)
    counts = check(rules, None, corpus.labels or [], own)
    head = (
        f"{len(rules)} candidates; learn their weights with: rulefield rules learn MODEL DEV --rules THIS -o MODEL2"
    )
    entries = ((c.rule, f"holds in {c.holds:.1%} of {c.sequences} sequences") for c in counts)
    write_lines(output, rules_file(head, entries))


def run_mine(
    file: str,
    output: str,
    scheme: str,
    families: list[str],
    min_support: int,
    min_confidence: float,
    learn: bool,
    unknown: str | None,
    reading: ReadOptions,
) -> None:
    """Write rules found in the data, each in words, with its support and confidence."""
    from rulefield.rules import mine_table

    corpus, own = _read(file, output, reading, unknown, scheme)
    found = mine_table(
        corpus.tokens,
        corpus.labels or [],
        own,
        families=families or None,
        min_support=min_support,
        min_confidence=min_confidence,
    )
    entries = (
        (
            m.rule.soft("learn") if learn else m.rule,
            f"{m.family}: support {m.support}, confidence {m.confidence:.1%} of {m.satisfied + m.violated}",
        )
        for m in found
    )
    price = "to be learned" if learn else "the cost of a violation, -log of how often the rule fails"
    write_lines(output, rules_file(f"{len(found)} rules, the most expensive first; weights are {price}", entries))


def _read(
    file: str, output: str, reading: ReadOptions, unknown: str | None, scheme: str
) -> tuple[FileContents, str | None]:
    if output != STANDARD:
        protect_inputs(output, [file])
    return read_sequences(file, reading, labeled=True, unknown=unknown), None if scheme == "none" else scheme


def rules_file(head: str, entries: Iterable[tuple[Any, str]]) -> Iterator[str]:
    """Lines of a rules file with a comment above each rule."""
    from rulefield.rules import text

    yield f"# {head}"
    for rule, comment in entries:
        yield f"# {comment}"
        yield from text.dumps([rule]).splitlines()


def run_check(rules: str, labels: str, reading: ReadOptions) -> None:
    """Read the rules, and count the labeled sequences that break each; labels that do not occur are an error."""
    from rulefield.cli.prediction import check_rules
    from rulefield.metrics import guess_scheme
    from rulefield.rules import check, text

    found = text.load(rules)
    columns = ["rule", "weight", *(["broken in", "by"] if labels else [])]
    table = Table(*columns, title=f"{len(found)} rules", title_justify="left")
    corpus = read_sequences(labels, reading, labeled=True) if labels else None
    if corpus is not None:
        names = sorted({str(label) for row in corpus.labels or [] for label in row})
        check_rules(rules, found, names, guess_scheme(names).value)
    counts = check(found, corpus.tokens, corpus.labels or []) if corpus else []
    cells = [[f"{c.broken} of {c.sequences} sequences", str(c.amount)] for c in counts] or [[] for _ in found]
    for rule, more in zip(found, cells):
        table.add_row(rule.label, "hard" if rule.is_hard else f"{rule.weight}", *more)
    console().print(table)
