"""CoNLL-U: Universal Dependencies; ``SpaceAfter=No`` gives the text, labels stand in MISC (``NER=B-PER``) or elsewhere."""

from collections.abc import Iterable, Iterator

from rulefield.data.documents import Document, Origin, joined
from rulefield.data.limits import is_whole
from rulefield.data.source import Source
from rulefield.encode.alignment import labels_of_tokens, spans_of, tagged
from rulefield.encode.formats.base import Format, bad_record, document, own_record
from rulefield.exceptions import InputError
from rulefield.outputs import whole_file

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
KEY = "NER"
NAME = "conllu"


def read(source: Source) -> Iterator[Document]:
    """Yield one document per sentence; the option ``column`` names a column (``upos``) or a key of MISC (default ``NER``)."""
    column = source.options.get("column", KEY)
    for line, name, rows, lines in _sentences(source):
        place = f"{source.place}, line {line}"
        tokens = list(_surface(rows, place))
        text, places = joined(
            [row[1] for row in tokens], ["SpaceAfter=No" not in row[9].split("|") for row in tokens]
        )
        labels = [_label(row, column) for row in tokens]
        spans = None if all(label is None for label in labels) else spans_of([x or "O" for x in labels], places)
        yield document(place, text, spans, tokens=places, name=name, origin=Origin(NAME, lines, column))


def _sentences(source: Source) -> Iterator[tuple[int, str | None, list[list[str]], list[str]]]:
    """Yield the number of the first row, the name, the rows and all lines of each sentence."""
    rows: list[list[str]] = []
    lines: list[str] = []
    first, name = 1, None
    for number, line in source.lines():
        if not line.strip():
            if rows:
                yield first, name, rows, lines
            rows, lines, name = [], [], None
            continue
        lines.append(line)
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
        else:
            row = line.split("\t")
            if len(row) != len(COLUMNS):
                raise bad_record(
                    f"{source.place}, line {number}", f"{len(row)} columns where CoNLL-U has 10: {line!r:.80}."
                )
            first = first if rows else number
            rows.append(row)
    if rows:
        yield first, name, rows, lines


def _surface(rows: list[list[str]], place: str) -> Iterator[list[str]]:
    """Rows as they stand in the text: a range (``3-4``) instead of its parts, no empty nodes (``3.1``)."""
    last = 0
    labels = {row[0]: row for row in rows}
    for row in rows:
        number = row[0]
        if "." in number:
            continue
        begin, dash, end = number.partition("-")
        if not is_whole(begin) or (dash and not is_whole(end)):
            raise bad_record(place, f"a token's id must be a number or a range; got {number[:60]!r}.")
        if dash:
            last = int(end)
            parts = labels.get(begin, row)
            yield [*row[:2], *parts[2:9], "|".join(m for m in (row[9], *_labels_of(parts)) if m != "_")]
        elif int(begin) > last:
            yield row


def _labels_of(row: list[str]) -> list[str]:
    return [item for item in row[9].split("|") if not item.startswith("SpaceAfter")]


def _label(row: list[str], column: str) -> str | None:
    if column.lower() in COLUMNS:
        value = row[COLUMNS.index(column.lower())]
        return None if value == "_" else value
    for item in row[9].split("|"):
        key, _, value = item.partition("=")
        if key == column:
            return value
    return None


def write(documents: Iterable[Document], path: str) -> None:
    """Write sentences with BIO labels under ``NER`` in MISC; other columns are empty."""
    with whole_file(path, text=True) as file:
        for doc in documents:
            own = own_record(doc, NAME)
            if own is not None and doc.origin is not None:
                file.writelines(line + "\n" for line in _relabeled(own, labels_of_tokens(doc), doc.origin.field))
                file.write("\n")
                continue
            words, labels = tagged(doc, "BIO")
            spaces = _spaces(doc, words)
            if doc.name is not None:
                file.write(f"# sent_id = {doc.name}\n")
            file.write(f"# text = {doc.text}\n")
            for i, (word, space) in enumerate(zip(words, spaces)):
                misc = [*([] if space else ["SpaceAfter=No"]), *([f"{KEY}={labels[i]}"] if labels else [])]
                file.write(f"{i + 1}\t{word}" + "\t_" * 7 + f"\t{'|'.join(misc) or '_'}\n")
            file.write("\n")


def _relabeled(lines: list[str], labels: list[str] | None, column: str) -> Iterator[str]:
    """Yield the lines of a sentence with other labels in one column, or under one key of MISC."""
    last = 0
    rest = iter(labels or ())
    for line in lines:
        row = line.split("\t")
        begin, dash, end = row[0].partition("-")
        stands = labels is not None and not line.startswith("#") and "." not in row[0] and int(begin) > last
        last = int(end) if stands and dash else last
        yield "\t".join(_with_label(row, next(rest), column)) if stands else line


def _with_label(row: list[str], label: str, column: str) -> list[str]:
    if column.lower() in COLUMNS:
        place = COLUMNS.index(column.lower())
        return [*row[:place], label, *row[place + 1 :]]
    kept = [item for item in row[9].split("|") if item != "_" and item.partition("=")[0] != column]
    return [*row[:9], "|".join([*kept, f"{column}={label}"])]


def _spaces(doc: Document, words: list[str]) -> list[bool]:
    """Whether a blank follows each token; other white space cannot be written in CoNLL-U."""
    spaces: list[bool] = []
    at = 0
    for word in words:
        start = doc.text.index(word, at)
        gap = doc.text[at:start]
        if spaces:
            spaces[-1] = gap == " "
        if gap not in ("", " ") or (gap and not spaces) or any(c in word for c in "\t\n\r"):
            raise InputError(
                f"CoNLL-U holds single blanks between tokens, but {gap + word!r} of {doc.text!r:.60} has others."
            )
        at = start + len(word)
        spaces.append(True)
    if doc.text[at:]:
        raise InputError(f"CoNLL-U cannot hold the white space at the end of {doc.text!r:.60}.")
    return spaces


FORMAT = Format(NAME, "CoNLL-U with labels in MISC", (".conllu",), read, write)
