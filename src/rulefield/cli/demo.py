"""``rulefield demo``: made-up texts, a parser, labeled output, scores, what rules change, and a report."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from rulefield.cli.options import Jobs, command
from rulefield.cli.show import Palette, console
from rulefield.datasets.addresses import make_addresses
from rulefield.datasets.citations import make_citations
from rulefield.exceptions import InputError
from rulefield.metrics import text_span_f1
from rulefield.outputs import write_whole

SETS: dict[str, Callable[..., Any]] = {"citations": make_citations, "addresses": make_addresses}
NOISE = 0.25
"""How damaged the texts are, from 0 to 1."""


@command("demo", "rulefield demo --data addresses")
def demo(
    data: Annotated[str, typer.Option(help="citations or addresses.")] = "citations",
    n: Annotated[int, typer.Option(help="Training sequences.")] = 150,
    jobs: Jobs = -1,
) -> None:
    """Make up data, train, and show labeled output, scores, and what rules change. Takes under a minute."""
    if data not in SETS:
        raise InputError(f"--data must be one of {', '.join(SETS)}; got {data!r}.")
    from rulefield.estimators.chain.estimator import ChainCRF
    from rulefield.estimators.text.parser import TextParser

    out = console()
    make: Any = SETS[data]
    texts, spans = make(n, 0, noise=NOISE, messy=True)
    new, gold = make(300, 1, noise=NOISE, messy=True)
    out.print(f"[b]{len(texts)} made-up {data}[/b] as people type them, labeled; {len(new)} more to parse.")
    with out.status("training"):
        parser = TextParser(model=ChainCRF(scheme="BIO", n_jobs=jobs)).fit(texts, spans)
    chain = parser.model_
    out.print(
        f"Trained {chain.theta_.size:,} weights for {len(chain.classes_)} labels in {chain.n_iter_} iterations.\n"
    )
    rules = demo_rules(data)
    rows = {"model": list(parser.predict(new)), "model + rules": list(parser.predict(new, rules=rules))}
    palette = Palette(parser.labels_)
    out.print(palette.legend())
    for i in range(3):
        out.print(palette.painted(new[i], rows["model"][i]), "\n")
    show_change(out, palette, new, gold, *rows.values())
    show_scores(out, gold, rows, [str(rule.label) for rule in rules])
    chain.set_params(rules=rules)
    write_pages(out, parser, new, gold, data)


def write_pages(out: Any, parser: Any, texts: list[str], spans: list[Any], data: str) -> None:
    """Write model, texts, rules and report into a folder of their own, and say what to type next."""
    from rulefield.report.page import write_report
    from rulefield.rules import text as rules_text

    folder = Path(tempfile.mkdtemp(prefix="rulefield-demo-"))
    parser.save(folder / "model.rf")
    rows = (json.dumps({"text": text, "label": row}) for text, row in zip(texts, spans))
    write_whole(folder / "test.jsonl", "".join(row + "\n" for row in rows))
    write_whole(folder / "new.txt", "".join(" ".join(text.split()) + "\n" for text in texts))
    write_whole(folder / "rules.yaml", rules_text.dumps(parser.model_.rules))
    write_report(parser, texts, spans, folder / "report.html", title=f"Made-up {data}", data="test.jsonl")
    out.print(f"\nOne page about all of it: [b]{folder / 'report.html'}[/b]. Next, in {folder}:")
    for line in ("parse model.rf new.txt", "evaluate test.jsonl model.rf", "serve model.rf --data test.jsonl"):
        out.print(f"  rulefield {line}", soft_wrap=True)


def demo_rules(data: str) -> list[Any]:
    """Return rules that anybody would write down."""
    from rulefield import rules as r

    if data == "citations":
        return [
            (r.segments("title") == 1).named("one title"),
            (r.segments("author") <= 1).soft(2.0).named("authors stand together"),
            (r.segments("journal") + r.segments("booktitle") <= 1).soft(2.0).named("one venue"),
        ]
    return [
        (r.segments("street") <= 1).named("one street"),
        (r.segments("city") == 1).named("one city"),
        r.before("city", "zip").named("the zip follows the city"),
    ]


def show_change(out: Any, palette: Palette, texts: list[str], gold: Any, plain: Any, ruled: Any) -> None:
    """Show one text that the rules put right."""
    for text, expected, before, after in zip(texts, gold, plain, ruled):
        if set(before) != set(after) == set(expected):
            out.print("[b]Before the rules[/b]", palette.painted(text, before))
            out.print("[b]After[/b]           ", palette.painted(text, after), "\n")
            return


def show_scores(out: Any, gold: Any, rows: dict[str, Any], rules: list[str]) -> None:
    """Print a small table of scores."""
    from rich.table import Table

    table = Table("", "span F1", "whole texts")
    for name, spans in rows.items():
        whole = sum(set(a) == set(b) for a, b in zip(gold, spans)) / len(gold)
        table.add_row(name, f"{100 * text_span_f1(gold, spans):.2f}", f"{100 * whole:.2f}")
    out.print(table)
    out.print(f"Rules: {'; '.join(rules)}.", style="dim")
