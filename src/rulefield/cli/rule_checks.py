"""``rulefield rules check``."""

from rich.table import Table

from rulefield.cli.corpus import read_corpus
from rulefield.cli.show import console


def run_check(rules: str, labels: str, form: str) -> None:
    """Read the rules, and count the labelled sequences that break each; labels that do not occur are an error."""
    from rulefield.rules import check, text

    found = text.load(rules)
    columns = ["rule", "weight", *(["broken in", "by"] if labels else [])]
    table = Table(*columns, title=f"{len(found)} rules", title_justify="left")
    corpus = read_corpus(labels, form, labelled=True) if labels else None
    counts = check(found, corpus.tokens, corpus.labels or []) if corpus else []
    told = [[f"{c.broken} of {c.sequences} sequences", str(c.amount)] for c in counts] or [[] for _ in found]
    for rule, more in zip(found, told):
        table.add_row(rule.label, "hard" if rule.is_hard else f"{rule.weight}", *more)
    console().print(table)
