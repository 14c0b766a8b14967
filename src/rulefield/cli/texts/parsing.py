"""``rulefield parse``: one text, lines as they come, or a column of a table, to fields."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from rulefield.cli.corpus import protect_inputs
from rulefield.cli.options import Jobs, ModelFile, OnInfeasible, Output, ReadOptions, Rules, command
from rulefield.cli.prediction import INFEASIBLE, Infeasible, read_rules
from rulefield.cli.reading import LINES, as_parser, iterate_texts, open_model, source_of, text_format
from rulefield.cli.texts.tables import is_excel, is_parquet
from rulefield.data.source import STANDARD, Source
from rulefield.exceptions import InputError
from rulefield.outputs import check_output, whole_file

PORTION = 512  # texts that are parsed at a time: enough to keep threads busy, few enough to keep memory flat
_JSON = (".jsonl", ".json", ".ndjson")
Row = tuple[str, str, dict[str, Any]]
"""What is parsed: where it stands, the text, and the record that is written with the answer."""


class Parsing(NamedTuple):
    """What answers: a parser, the rules that act, whether spans are wanted, and what happens if rules cannot be obeyed."""

    parser: Any
    rules: Any
    spans: bool
    infeasible: Infeasible

    def __call__(self, rows: Sequence[tuple[str, str]]) -> list[Any]:
        """Return the parses of some (place, text); those that cannot obey the hard rules are marked."""
        parses = self.parser.parse_all([text for _, text in rows], rules=self.rules, probabilities=self.spans)
        return [self._judged(place, parse) for (place, _), parse in zip(rows, parses)]

    def _judged(self, place: str, parse: Any) -> Any:
        if not self.infeasible.judge(place, parse.text, parse.broken):
            return parse
        return parse.without_spans(INFEASIBLE)


@command(
    "parse",
    'rulefield parse addresses.rf "59 ST JAMES PLACE NEW YORK NY 10038"',
    "rulefield parse addresses.rf in.csv --column address -o out.csv",
    "tail -f log | rulefield parse lines.rf -",
)
def parse(
    model: ModelFile,
    reading: ReadOptions,
    source: Annotated[
        str, typer.Argument(help="A text in quotes, or a file: lines, .csv, .tsv, .jsonl; - for lines as they come.")
    ] = STANDARD,
    output: Output = STANDARD,
    rules: Rules = None,
    spans: Annotated[bool, typer.Option(help="Also write every span with its place and probability (JSON).")] = False,
    on_infeasible: OnInfeasible = "mark",
    jobs: Jobs = -1,
) -> None:
    """Cut texts into fields, with probabilities and broken rules; tables keep their columns and get one per field."""
    infeasible = Infeasible(on_infeasible)
    if output != STANDARD:
        check_output(output)
    parser = as_parser(open_model(model, jobs), reading.tokenizer)
    infeasible.prepare(parser.model_)
    work = Parsing(parser, read_rules(rules, parser.model_), spans, infeasible)
    if source != STANDARD and not _is_readable(source):
        _refuse_missing(source)
        _show(work._judged("the text", parser.parse(source, rules=work.rules)))
        return
    try:
        _parse_file(work, reading, source, output)
    except KeyboardInterrupt:
        sys.exit(130)  # what was answered so far stands; a file of its own appears when it is whole
    infeasible.tell()


def _parse_file(work: Parsing, reading: ReadOptions, path: str, output: str) -> None:
    """Choose by the format: tables, JSON lines and lines keep their form; of others come JSON lines."""
    from rulefield.encode.formats.tables import suffix_is_table

    name = path.lower().removesuffix(".gz")
    source = source_of(path, reading)
    column = reading.column or "text"
    form = reading.form
    if form == "table" or (form == "auto" and suffix_is_table(name)):
        _parse_table(work, source, column, output)
    elif form == "jsonl" or (form == "auto" and name.endswith(_JSON) and not _has_a_text_of_its_own(reading, path)):
        _parse_rows(work, _portions(_json_rows(source, column)), source, output)
    elif form not in ("auto", LINES) or (path != STANDARD and _has_a_text_of_its_own(reading, path)):
        _parse_rows(work, _portions(_document_rows(reading, path)), source, output)
    else:
        _parse_rows(work, _line_rows(source), source, output)


def _has_a_text_of_its_own(reading: ReadOptions, path: str) -> bool:
    """Whether a file is in a format in which the text of a record is not simply a field of it."""
    if path != STANDARD and Path(path).is_dir():
        return True
    return path.lower().endswith((*_JSON, ".xml", ".ann", ".conllu")) and text_format(path, reading) not in (
        None,
        "doccano",
        "prodigy",
    )


def _is_readable(source: str) -> bool:
    """Whether a name is that of a file, or of a folder of brat's texts."""
    path = Path(source)
    return bool(source) and (path.is_file() or (path.is_dir() and any(path.glob("*.txt"))))


def _refuse_missing(source: str) -> None:
    """Refuse what is neither a file nor a text: nothing, a folder, a name that looks like a file's."""
    if source and Path(source).is_dir():
        raise InputError(f"{source!r} is a folder without texts; give a file, or a text in quotes.")
    if not source:
        raise InputError("there is nothing to parse: give a text in quotes, a file, or - for lines as they come.")
    name = source.lower().removesuffix(".gz")
    looks = name.endswith((*_JSON, ".txt", ".log", ".csv", ".tsv", ".parquet")) and " " not in source.strip()
    if looks or (os.sep in source and " " not in source):
        raise InputError(f"there is no file {source!r}; a text to parse is given in quotes, a file by its name.")


def _show(parse: Any) -> None:
    """Print a parse: in color on a terminal, else its plain lines."""
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
    out.print(palette.painted(parse.text, [(span.start, span.end, span.label) for span in parse.spans]))
    for span, (label, text, chance) in zip(parse.spans, rows):
        out.print(Text.assemble((label, palette.style(span.label)), text, (chance, "dim")))
    out.print(Text(last, style="dim"))
    for sentence in broken:
        out.print(Text(sentence, style="yellow"))


def _chance(span: Any) -> str:
    return "" if span.probability is None else f"  {span.probability:.3f}"


# --- texts to JSON lines ----------------------------------------------------------------------------


def _parse_rows(work: Parsing, portions: Iterable[list[Row]], source: Source, output: str) -> None:
    """Write a JSON line for each text, with its record: a pipe is answered at once, memory stays flat."""
    with _opened_output(output, source.path) as file:
        for portion in _watched(portions, source, output):
            parses = work([(place, text) for place, text, _ in portion])
            file.writelines(_line(record, parse, work.spans) for (_, _, record), parse in zip(portion, parses))
            file.flush()


def _line_rows(source: Source) -> Iterator[list[Row]]:
    """Yield the lines of a file; those of standard input as they come."""
    portions = _live_lines(source) if source.path == STANDARD else _portions(line for _, line in source.lines())
    number = 0
    for lines in portions:
        yield [(f"{source.place}, line {n}", line, {"text": line}) for n, line in enumerate(lines, number + 1)]
        number += len(lines)


def _json_rows(source: Source, key: str) -> Iterator[Row]:
    """Yield the records of a file of JSON lines."""
    from rulefield.encode.formats.base import json_records, text_of

    return ((place, text_of(record, key, place), record) for place, record in json_records(source))


def _document_rows(reading: ReadOptions, path: str) -> Iterator[Row]:
    """Yield the texts of a file of any other format, with their ids and what their records held besides."""
    for number, document in enumerate(iterate_texts(path, reading), 1):
        name = {} if document.name is None else {"id": document.name}
        yield f"{path!r}, text {number}", document.text, {**name, **document.extra, "text": document.text}


def _line(record: dict[str, Any], parse: Any, spans: bool) -> str:
    """One line of JSON: the record and what was found in its text."""
    from rulefield.encode.formats.base import compact

    return compact({**record, **(parse.to_dict() if spans else _short(parse))}) + "\n"


def _short(parse: Any) -> dict[str, Any]:
    broken = [b.rule for b in parse.broken]
    chance = None if parse.probability is None else round(parse.probability, 6)
    return {"fields": parse.fields, "probability": chance, "broken": broken, "status": parse.status}


def _watched(portions: Iterable[list[Any]], source: Source, output: str) -> Iterator[list[Any]]:
    """Yield the portions, with a bar and the time left if the answers go to a file and stderr is a terminal."""
    if output == STANDARD or not sys.stderr.isatty():
        yield from portions
        return
    from rich import progress

    from rulefield.cli.show import console

    columns = (progress.BarColumn(), progress.MofNCompleteColumn(), progress.TaskProgressColumn(show_speed=True))
    with progress.Progress(
        *columns, progress.TimeRemainingColumn(), console=console(to_error=True), transient=True
    ) as bar:
        task = bar.add_task("", total=_line_count(source))
        for portion in portions:
            yield portion
            bar.advance(task, len(portion))


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


# --- tables ------------------------------------------------------------------------------------------


def _parse_table(work: Parsing, source: Source, column: str, output: str) -> None:
    """Write the columns of a table, one more per field, ``probability``, ``broken`` and ``status``."""
    from rulefield.cli.texts.tables import write_table
    from rulefield.encode.formats.tables import rows_of

    if work.spans:
        raise InputError("--spans writes JSON, but a parsed table has a column per field; leave it out.")
    target = source.path if output == STANDARD else output
    binary = is_parquet(target) or is_excel(target)
    if binary and output == STANDARD:
        raise InputError(f"{source.path!r} gives a table that is no text; name a file for it with -o.")
    with _opened_output(output, source.path, binary=binary) as file:
        portions = _watched(_portions(rows_of(source)), source, output)
        write_table(file, target, (_with_fields(work, portion, column) for portion in portions))


def _with_fields(work: Parsing, rows: list[Any], column: str) -> list[dict[str, Any]]:
    """Return (place, row) pairs of a table as rows that have a column for each field, too."""
    from rulefield.estimators.text.columns import field_columns

    parses = work([(place, _cell(row, column, place)) for place, row in rows])
    columns = field_columns(parses, work.parser.labels_)
    columns["status"] = [parse.status for parse in parses]
    fresh = [name if name not in rows[0][1] else f"{name}_found" for name in columns]
    return [{**row, **dict(zip(fresh, values))} for (_, row), *values in zip(rows, *columns.values())]


def _cell(row: Any, column: str, place: str) -> str:
    if column not in row:
        raise InputError(
            f"{place}: there is no column {column!r}; the columns are {', '.join(map(repr, row))} (--column)."
        )
    return row[column] or ""


def _opened_output(output: str, path: str, binary: bool = False) -> Any:
    if output == STANDARD:
        return nullcontext(sys.stdout)
    protect_inputs(output, [path])
    return whole_file(output) if binary else whole_file(output, text=True)
