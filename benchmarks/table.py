"""Write docs/benchmarks.md and the tables of docs/papers.md from benchmarks/results.json, and record what a script printed.

    python benchmarks/table.py                                   # write the pages
    python benchmarks/table.py --check                           # exit 1 if a page is not what results.json says
    python benchmarks/cold_start.py | python benchmarks/table.py --record first_use --machine idle

Each entry of results.json has a name, what was measured, the peer of the same run, the value in words, whether it is a loss,
the date, the commit, whether the machine was idle or busy, and the script. ``--record NAME`` reads the last line of JSON on
standard input into ``figures`` and writes today's date and the present commit; ``template`` (a format string over the
figures), if an entry has one, makes the value, otherwise the figures are listed as they are.

An entry with ``paper`` (a key of docs/references.md) also stands on the page of papers, between the marks of that key:
figures with ``rows`` (dict of row to dict of measure to number) as a table beside the paper's own (``figures["paper"]``, dict
of row to number), rows behind the paper's first; others as one line. Entries that are losses come first; ``losses`` of an
entry are a sentence above its table.
"""

import argparse
import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "benchmarks.md"
PAPERS = ROOT / "docs" / "papers.md"
MARKS = re.compile(r"(<!-- figures of (\w+), made by benchmarks/table.py -->\n).*?(<!-- end -->)", re.DOTALL)
HEAD = """# Benchmarks

This page is made by `benchmarks/table.py` from `benchmarks/results.json`; do not edit it. Each line has its date, the commit,
and whether other work shared the machine (two cores of an x86-64 machine, Python 3.11). The peer ran in the same run
unless the line says otherwise. CPU times and ratios of one run mean more than seconds. To measure one again:

```console
$ export RULEFIELD_DATA=/path/to/the/data/sets
$ python benchmarks/SCRIPT.py | python benchmarks/table.py --record NAME --machine idle
```

The data sets are not part of the repository; [references](references.md) say where they come from.
"""
COLUMNS = "| name | what | against | measured | when | script |\n| --- | --- | --- | --- | --- | --- |"


def page_of(entries: dict[str, dict[str, Any]]) -> str:
    """Return the page: losses first, then everything else in the order of the file."""
    losses = {name: entry for name, entry in entries.items() if entry.get("loss")}
    others = {name: entry for name, entry in entries.items() if not entry.get("loss")}
    parts = [HEAD, "## Losses and draws\n", table_of(losses), "\n## Everything else\n", table_of(others)]
    return "\n".join(parts) + "\n"


def papers_of(page: str, entries: dict[str, dict[str, Any]]) -> str:
    """Return the page of papers with the figures between its marks made anew."""

    def made(marks: re.Match[str]) -> str:
        own = [entry for entry in entries.values() if entry.get("paper") == marks[2]]
        own.sort(key=lambda entry: not entry.get("loss"))
        return f"{marks[1]}\n" + "\n\n".join(map(figures_of, own)) + f"\n\n{marks[3]}"

    return MARKS.sub(made, page)


def figures_of(entry: dict[str, Any]) -> str:
    """Return a table of rows beside the paper's, or one line."""
    head = f"**{entry['what']}** (`{entry['script']}`)"
    figures = entry.get("figures") or {}
    if "rows" not in figures:
        return f"{head}: {value_of(entry)}; beside: {entry.get('peer') or '-'}."
    if "losses" in entry:
        head += f". Losses: {entry['losses']}."
    theirs, rows = figures.get("paper", {}), figures["rows"]
    measures = list(dict.fromkeys(measure for row in rows.values() for measure in row))
    lines = ["| " + " | ".join(["row", *measures, "paper"]) + " |", "| --- " * (len(measures) + 2) + "|"]
    for name, row in sorted(rows.items(), key=lambda item: not is_behind(item[1], theirs.get(item[0]))):
        cells = [f"{row[m]:g}" if m in row else "-" for m in measures]
        lines.append("| " + " | ".join([name, *cells, str(theirs.get(name, "-"))]) + " |")
    others = [
        f"| {name} | " + "- | " * len(measures) + f"{value} |" for name, value in theirs.items() if name not in rows
    ]
    return "\n".join([f"{head}\n", *lines, *others])


def is_behind(row: dict[str, Any], theirs: float | None) -> bool:
    """Whether the first measure of a row is below the paper's figure."""
    return theirs is not None and next(iter(row.values())) < theirs


def table_of(entries: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table."""
    return "\n".join([COLUMNS, *(row_of(name, entry) for name, entry in entries.items())])


def row_of(name: str, entry: dict[str, Any]) -> str:
    """Return one row."""
    when = ", ".join(str(entry[key]) for key in ("date", "commit", "machine") if entry.get(key)) or "not dated"
    cells = [name, entry["what"], entry.get("peer") or "-", value_of(entry), when, f"`{entry['script']}`"]
    return "| " + " | ".join(cells) + " |"


def value_of(entry: dict[str, Any]) -> str:
    """Return the value in words: by the template, as it was written, or the plain figures."""
    figures = entry.get("figures")
    if figures is None:
        return str(entry["value"])
    if "rows" in figures and "template" not in entry:
        return f"[table](papers.md): {len(figures['rows'])} rows"
    if "template" in entry:
        return str(entry["template"].format(**figures))
    return ", ".join(
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in figures.items()
    )


def record(entries: dict[str, dict[str, Any]], name: str, printed: str, machine: str) -> None:
    """Put what a script printed into an entry."""
    if name not in entries:
        sys.exit(f"there is no entry {name!r}; there are {', '.join(entries)}.")
    rows = [line for line in printed.splitlines() if line.strip().startswith("{")]
    if not rows:
        sys.exit("the script printed no line of JSON.")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    entries[name] |= {
        "figures": json.loads(rows[-1]),
        "date": date.today().isoformat(),
        "commit": commit.stdout.strip(),
        "machine": machine,
    }


def main() -> None:
    """Write, check or record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", metavar="NAME")
    parser.add_argument("--machine", default="busy", choices=["busy", "idle"])
    options = parser.parse_args()
    entries = json.loads(RESULTS.read_text(encoding="utf-8"))
    if options.record:
        record(entries, options.record, sys.stdin.read(), options.machine)
        RESULTS.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    made = {PAGE: page_of(entries), PAPERS: papers_of(PAPERS.read_text(encoding="utf-8"), entries)}
    for path, text in made.items():
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(f"docs/{path.name} is not up to date.")


if __name__ == "__main__":
    main()
