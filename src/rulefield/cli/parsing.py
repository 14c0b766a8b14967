"""``rulefield parse``: one text, lines as they come, or a column of a table, to fields."""

import csv
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import IO, Any

from rulefield.data.source import STANDARD, Source
from rulefield.exceptions import InputError
from rulefield.outputs import check_output, whole_file

PORTION = 512  # texts that are parsed at a time: enough to keep threads busy, few enough to keep memory flat
_JSON = (".jsonl", ".json", ".ndjson")


def run_parse(
    model: str,
    source: str,
    output: str,
    column: str | None,
    rules: str | None,
    encoding: str,
    spans: bool,
    jobs: int,
) -> None:
    """Parse what ``source`` is: a text, a file of lines, a table, JSON lines, or standard input."""
    if output != STANDARD:
        check_output(output)
    parser = _opened(model, jobs)
    acting = _rules(rules)
    if source != STANDARD and not Path(source).is_file():
        _refuse_missing(source)
        _show(parser.parse(source, rules=acting))
        return
    read = Source(source, encoding)
    name = source.lower().removesuffix(".gz")
    try:
        _parse_file(parser, read, name, output, acting, column, spans)
    except KeyboardInterrupt:
        sys.exit(130)  # what was answered so far stands; a file of its own appears when it is whole


def _parse_file(
    parser: Any, read: Source, name: str, output: str, acting: Any, column: str | None, spans: bool
) -> None:
    from rulefield.encode.formats.tables import suffix_is_table

    if suffix_is_table(name):
        _parse_table(parser, read, column or "text", output, acting)
    elif name.endswith(_JSON):
        _parse_json(parser, read, column or "text", output, acting, spans)
    else:
        _parse_lines(parser, read, output, acting, spans)


def _opened(model: str, jobs: int) -> Any:
    from rulefield.estimators.files import load
    from rulefield.estimators.text.parser import TextParser

    found = load(model)
    parser = found if isinstance(found, TextParser) else TextParser.of(found)
    parser.model_.set_params(n_jobs=jobs)
    return parser


def _rules(path: str | None) -> Any:
    if path is None:
        return None
    from rulefield.rules import text

    return text.load(path)


def _refuse_missing(source: str) -> None:
    """Refuse what is neither a file nor a text: nothing, a folder, a name that looks like a file's."""
    if source and Path(source).is_dir():
        raise InputError(f"{source!r} is a folder; give a file, or a text in quotes.")
    if not source:
        raise InputError("there is nothing to parse: give a text in quotes, a file, or - for lines as they come.")
    name = source.lower().removesuffix(".gz")
    looks = name.endswith((*_JSON, ".txt", ".log", ".csv", ".tsv", ".parquet")) and " " not in source.strip()
    if looks or (os.sep in source and " " not in source):
        raise InputError(f"there is no file {source!r}; a text to parse is given in quotes, a file by its name.")


def _show(parse: Any) -> None:
    """Print a parse: in colour on a terminal, else its plain lines."""
    width = max((len(span.label) for span in parse.spans), default=0)
    rows = [(f"  {span.label:<{width}}  ", span.text, _chance(span)) for span in parse.spans]
    whole = "" if parse.probability is None else f", probability {parse.probability:.3f}"
    last = f"  {parse.status}{whole}"
    broken = [f"  breaks {broken.rule!r}, cost {broken.cost:.3g}" for broken in parse.broken]
    if not sys.stdout.isatty():
        print(parse.text, *map("".join, rows), last, *broken, sep="\n")
        return
    from rich.text import Text

    from rulefield.cli.show import Palette, console

    out = console()
    palette = Palette(span.label for span in parse.spans)
    line, at = Text(), 0
    for span in parse.spans:
        line.append(parse.text[at : span.start], style="dim")
        line.append(span.text, style=f"reverse {palette.style(span.label)}")
        at = span.end
    line.append(parse.text[at:], style="dim")
    out.print(line)
    for span, (label, text, chance) in zip(parse.spans, rows):
        out.print(Text.assemble((label, palette.style(span.label)), text, (chance, "dim")))
    out.print(Text(last, style="dim"))
    for sentence in broken:
        out.print(Text(sentence, style="yellow"))


def _chance(span: Any) -> str:
    return "" if span.probability is None else f"  {span.probability:.3f}"


# --- lines ----------------------------------------------------------------------------------------


def _parse_lines(parser: Any, source: Source, output: str, rules: Any, spans: bool) -> None:
    """One JSON line per line of text, as they come: a pipe is answered at once, memory stays flat."""
    from rulefield.encode.formats.base import compact

    portions = _live_lines(source) if source.path == STANDARD else _portions(line for _, line in source.lines())
    with _opened_output(output, [source.path]) as file:
        for lines in _watched(portions, source, output):
            for parse in parser.parse_all(lines, rules=rules, probabilities=spans):
                file.write(compact(parse.to_dict() if spans else {"text": parse.text, **_short(parse)}) + "\n")
            file.flush()


def _short(parse: Any) -> dict[str, Any]:
    broken = [b.rule for b in parse.broken]
    chance = None if parse.probability is None else round(parse.probability, 6)
    return {"fields": parse.fields, "probability": chance, "broken": broken}


def _watched(portions: Iterable[list[Any]], source: Source, output: str) -> Iterator[list[Any]]:
    """Yield the portions, with a bar, rate and time left where the answers go to a file and somebody watches."""
    if output == STANDARD or not sys.stderr.isatty():
        yield from portions
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from rulefield.cli.show import console

    columns = (BarColumn(), TextColumn("{task.completed:,} texts, {task.fields[rate]}"), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console(to_error=True), transient=True) as bar:
        task, begun = bar.add_task("", total=_line_count(source), rate=""), perf_counter()
        done = 0
        for portion in portions:
            yield portion
            done += len(portion)
            rate = f"{done / max(perf_counter() - begun, 1e-9):,.0f} per second"
            bar.update(task, completed=done, rate=rate)


def _line_count(source: Source) -> int | None:
    """Return how many lines a file has; None where only reading it all would tell."""
    if source.path == STANDARD or not source.path.lower().endswith((*_JSON, ".txt", ".log", ".csv", ".tsv")):
        return None
    with open(source.path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _portions(items: Iterable[Any]) -> Iterator[list[Any]]:
    source = iter(items)
    while portion := list(islice(source, PORTION)):
        yield portion


def _live_lines(source: Source) -> Iterator[list[str]]:
    """Yield the whole lines that have arrived on standard input, as soon as there is one."""
    rest = b""
    encoding = source.encoding.removesuffix("-sig")
    while arrived := os.read(sys.stdin.fileno(), 1 << 16):
        *lines, rest = (rest + arrived).split(b"\n")
        yield from _portions(_decoded(line, encoding) for line in lines)
    if rest:
        yield [_decoded(rest, encoding)]


def _decoded(line: bytes, encoding: str) -> str:
    try:
        return line.decode(encoding).removesuffix("\r").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input is not {encoding} text ({error.reason}: {line[:40]!r}); give its encoding (--encoding)."
        ) from None
    except LookupError:
        raise InputError(f"there is no encoding {encoding!r}; try utf-8, latin-1 or cp1252.") from None


# --- records --------------------------------------------------------------------------------------


def _parse_json(parser: Any, source: Source, key: str, output: str, rules: Any, spans: bool) -> None:
    """Write the records of a file, each with what was found in its text."""
    from rulefield.encode.formats.base import compact, json_records, text_of

    with _opened_output(output, [source.path]) as file:
        for portion in _watched(_portions(json_records(source)), source, output):
            texts = [text_of(record, key, place) for place, record in portion]
            for (_, record), parse in zip(portion, parser.parse_all(texts, rules=rules, probabilities=spans)):
                found = parse.to_dict() if spans else _short(parse)
                found.pop("text", None)
                file.write(compact({**record, **found}) + "\n")


def _parse_table(parser: Any, source: Source, column: str, output: str, rules: Any) -> None:
    """Write the columns of a table, one more per field, ``probability`` and ``broken``."""
    from rulefield.encode.formats.tables import rows_of, separator_of, suffix_is_table
    from rulefield.estimators.text.columns import field_columns

    target = source.path if output == STANDARD else output
    if not suffix_is_table(target) or target.lower().endswith((".parquet", ".pq")):
        raise InputError(f"a parsed table is written as .csv or .tsv; got {target!r} (name one with -o).")
    with _opened_output(output, [source.path]) as file:
        writer = csv.writer(file, delimiter=separator_of(target), lineterminator="\n")
        names: list[str] | None = None
        for portion in _watched(_portions(rows_of(source)), source, output):
            texts = [_cell(row, column, place) for place, row in portion]
            found = field_columns(parser.parse_all(texts, rules=rules, probabilities=False), parser.labels_)
            if names is None:
                names = list(portion[0][1])
                fresh = [name if name not in names else f"{name}_found" for name in found]
                writer.writerow([*names, *fresh])
            for (_, row), *values in zip(portion, *found.values()):
                writer.writerow([*(row[name] for name in names), *map(_written, values)])


def _cell(row: Any, column: str, place: str) -> str:
    if column not in row:
        raise InputError(
            f"{place}: there is no column {column!r}; the columns are {', '.join(map(repr, row))} (--column)."
        )
    return row[column] or ""


def _written(value: Any) -> Any:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def _opened_output(output: str, inputs: list[str]) -> Any:
    if output == STANDARD:
        return _Standard()
    if any(Path(output).exists() and Path(path).exists() and Path(output).samefile(path) for path in inputs):
        raise InputError(f"{output!r} is the file that is read; write to another one.")
    return whole_file(output, text=True)


class _Standard:
    """Standard output as a file to write to, left open."""

    def __enter__(self) -> IO[str]:
        return sys.stdout

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
