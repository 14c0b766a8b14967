"""``rulefield rules check``."""

from typing import Any

from rich.table import Table

from rulefield.cli.corpus import read_corpus
from rulefield.cli.show import console
from rulefield.metrics import guess_scheme


def run_check(rules: str, labels: str, form: str) -> None:
    """Read the rules, and count the labelled sequences that break each."""
    from rulefield.rules import text

    found = text.load(rules)
    columns = ["rule", "weight", *(["broken in"] if labels else [])]
    table = Table(*columns, title=f"{len(found)} rules", title_justify="left")
    broken = _broken(found, labels, form) if labels else [""] * len(found)
    for rule, count in zip(found, broken):
        weight = "hard" if rule.is_hard else f"{rule.weight}"
        table.add_row(str(rule.label), weight, *([count] if labels else []))
    console().print(table)


def _broken(rules: list[Any], path: str, form: str) -> list[str]:
    corpus = read_corpus(path, form, labelled=True)
    gold = corpus.labels or []
    scheme = guess_scheme({label for labels in gold for label in labels})
    pairs = list(zip(corpus.tokens, gold))
    counts = [sum(rule.violation(tokens, labels, scheme) > 0 for tokens, labels in pairs) for rule in rules]
    return [f"{count} of {len(gold)} sequences" for count in counts]
