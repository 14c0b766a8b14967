"""``rulefield demo``: made-up data, a model, labelled output, scores, what rules change, and a report."""

import json
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from rulefield.cli.show import Palette, console
from rulefield.datasets.addresses import make_addresses
from rulefield.datasets.citations import make_citations
from rulefield.encode.spans import spans
from rulefield.exceptions import InputError
from rulefield.metrics import sequence_accuracy, span_f1, token_accuracy
from rulefield.outputs import write_whole

SETS = {"citations": make_citations, "addresses": make_addresses}


def run_demo(data: str, n: int, noise: float, seed: int, jobs: int) -> None:
    """Run the whole story."""
    if data not in SETS:
        raise InputError(f"--data must be one of {', '.join(SETS)}; got {data!r}.")
    from rulefield.estimators.chain.estimator import ChainCRF

    out = console()
    make: Any = SETS[data]
    X, y = make(n, seed, noise=noise)
    X_new, y_new = make(300, seed + 1_000_003, noise=noise)
    out.print(f"[b]{len(X)} made-up {data}[/b], {sum(map(len, X))} tokens; {len(X_new)} more to label.")
    crf = ChainCRF(scheme="BIO", l2=1.0, n_jobs=jobs, random_state=seed)
    begun = perf_counter()
    with out.status("training (the first run also compiles the kernels)"):
        crf.fit(X, y)
    out.print(
        f"Trained {crf.theta_.size:,} weights for {len(crf.classes_)} labels in {perf_counter() - begun:.1f} s "
        f"({crf.n_iter_} iterations).\n"
    )
    plain = list(crf.predict(X_new))
    palette = Palette(sorted({span.type for labels in y for span in spans(labels, "BIO")}))
    out.print(palette.legend())
    for i in range(3):
        out.print(palette.paint(X_new[i], plain[i], "BIO"), "\n")
    rows = {"model": plain}
    rules = demo_rules(data)
    ruled = list(crf.predict(X_new, rules=rules))
    rows["model + rules"] = ruled
    show_change(out, palette, X_new, y_new, plain, ruled)
    show_scores(out, y_new, rows, [str(rule.label) for rule in rules])
    write_pages(out, crf.set_params(rules=rules), X_new, y_new, data)


def write_pages(out: Any, crf: Any, X: Any, y: Any, data: str) -> None:
    """Write model, data and report into a folder of their own, and say what to type next."""
    from rulefield.report.page import write_report

    folder = Path(tempfile.mkdtemp(prefix="rulefield-demo-"))
    crf.save(folder / "model.rf")
    rows = (json.dumps({"tokens": tokens, "labels": labels}) for tokens, labels in zip(X, y))
    write_whole(folder / "test.jsonl", "".join(row + "\n" for row in rows))
    write_report(crf, X, y, folder / "report.html", title=f"Made-up {data}", data="test.jsonl")
    out.print(f"\nOne page about all of it: [b]{folder / 'report.html'}[/b]. Next:")
    out.print(f"  rulefield serve {folder / 'model.rf'} --data {folder / 'test.jsonl'}", soft_wrap=True)
    out.print(f"  rulefield next {folder / 'model.rf'} {folder / 'test.jsonl'} -n 5", soft_wrap=True)


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


def show_change(out: Any, palette: Palette, X: Any, y: Any, plain: Any, ruled: Any) -> None:
    """Show one sequence that the rules put right."""
    for tokens, gold, before, after in zip(X, y, plain, ruled):
        if before != after and after == gold:
            out.print("[b]Before the rules[/b]", palette.paint(tokens, before, "BIO"))
            out.print("[b]After[/b]           ", palette.paint(tokens, after, "BIO"), "\n")
            return


def show_scores(out: Any, gold: Any, rows: dict[str, Any], rules: list[str]) -> None:
    """Print a small table of scores."""
    from rich.table import Table

    table = Table("", "span F1", "token accuracy", "whole sequences")
    for name, predicted in rows.items():
        scores = (span_f1(gold, predicted), token_accuracy(gold, predicted), sequence_accuracy(gold, predicted))
        table.add_row(name, *(f"{100 * score:.2f}" for score in scores))
    out.print(table)
    out.print(f"Rules: {'; '.join(rules)}.", style="dim")
