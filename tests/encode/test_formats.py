"""Formats: what is written is read again, whatever the characters; damaged records name file, record and field."""

import csv
import gzip
import json
import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rulefield.data.documents import Document, TextSpan, joined
from rulefield.data.source import Source
from rulefield.encode.formats import FORMATS, find_format, read_documents, write_documents
from rulefield.encode.formats.columns import ColumnFile
from rulefield.exceptions import InputError

ANY = st.characters(exclude_categories=["Cs"])
XML = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff") | st.sampled_from(
    "\t\n\r<>&'\""
)
VISIBLE = st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"])
LABELS = st.sampled_from(["name", "date", "O-like", "a b", "élan", "B-x"])


def flat_spans(draw, size, labels):
    edges = draw(st.lists(st.integers(0, size), max_size=6, unique=True).map(sorted))
    return tuple(TextSpan(a, b, draw(labels)) for a, b in zip(edges[::2], edges[1::2]))


@st.composite
def texts(draw, characters=ANY, labels=LABELS, scores=False):
    text = draw(st.text(characters, min_size=1, max_size=30))
    spans = flat_spans(draw, len(text), labels) if draw(st.booleans()) else None
    if scores and spans:
        spans = tuple(span._replace(score=draw(st.floats(0, 1))) for span in spans)
    return Document(text, spans)


@st.composite
def sentences(draw, blanks=False, always=False):
    labels = st.sampled_from(["name", "date", "x-y"])
    words = draw(st.lists(st.text(VISIBLE, min_size=1, max_size=6), min_size=1, max_size=7))
    text, places = joined(words, [draw(st.booleans()) for _ in words] if blanks else None)
    spans = None
    if always or draw(st.booleans()):
        edges = draw(st.lists(st.integers(0, len(words)), max_size=6, unique=True).map(sorted))
        spans = tuple(TextSpan(places[a][0], places[b - 1][1], draw(labels)) for a, b in zip(edges[::2], edges[1::2]))
    return Document(text, spans, places)


def ordinary(words):
    """Column files cannot begin a document with a comment or a DOCSTART line."""
    return not words.text.startswith(("#", "-DOCSTART-"))


MADE = {
    "doccano": texts(),
    "prodigy": texts(scores=True),
    "label-studio": texts(scores=True),
    "xml": texts(XML),
    "brat": texts(labels=st.sampled_from(["name", "date", "élan"])),
    "table": texts(ANY.filter(lambda c: c != "\0")),
    "columns": sentences(always=True).filter(ordinary),
    "conllu": sentences(blanks=True),
}
NAMES = {
    "brat": "folder",
    "table": "t.csv",
    "xml": "t.xml",
    "columns": "t.conll",
    "conllu": "t.conllu",
}


def test_every_format_has_a_round_trip():
    assert set(MADE) == set(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_read_again(name, tmp_path_factory):
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(MADE[name], min_size=1, max_size=9))
    def round_trip(documents):
        path = str(tmp_path_factory.mktemp("formats") / NAMES.get(name, "t.jsonl"))
        write_documents(documents, path, name)
        again = list(read_documents(path, name))
        assert [(d.text, d.spans) for d in again] == [(d.text, d.spans) for d in documents]
        if documents[0].tokens is not None:
            assert [d.tokens for d in again] == [d.tokens for d in documents]

    round_trip()


@pytest.mark.parametrize("name", ["t.conll", "t.conllu", "t.xml", "t.csv", "t.tsv"])
def test_names_that_end_in_gz_are_packed(name, tmp_path):
    documents = [Document("Ada 1843", (TextSpan(0, 3, "name"),)), Document("é", ())]
    write_documents(documents, tmp_path / f"{name}.gz")
    assert (tmp_path / f"{name}.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert [d.spans for d in read_documents(tmp_path / f"{name}.gz")] == [d.spans for d in documents]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("t.foo", "--to: .*doccano"),
        ("t.ann", "name of a folder"),
        ("t.jsonl.gz", "several JSON"),
        ("t.parquet.gz", ".gz out"),
    ],
)
def test_a_name_that_tells_no_format_is_refused(name, message, tmp_path):
    with pytest.raises(InputError, match=message):
        write_documents([], tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_parquet_round_trip(tmp_path):
    documents = [Document("Ada 1843", (TextSpan(0, 3, "name"),), name="7"), Document("é\n", ())]
    write_documents(documents, tmp_path / "t.parquet")
    assert next(read_documents(tmp_path / "t.parquet")).spans == documents[0].spans


def test_nested_spans_round_trip_through_xml(tmp_path):
    spans = (TextSpan(0, 8, "authors"), TextSpan(0, 3, "first"), TextSpan(4, 8, "last"))
    write_documents([Document("Ada Love", spans)], tmp_path / "t.xml")
    assert next(read_documents(tmp_path / "t.xml")).spans == Document("Ada Love", spans).spans


RECORDS = {
    "doccano": {"text": "Ada", "label": [[0, 3, "name"]]},
    "prodigy": {"text": "Ada", "spans": [{"start": 0, "end": 3, "label": "name"}]},
    "label-studio": {
        "data": {"text": "Ada"},
        "annotations": [{"result": [{"type": "labels", "value": {"start": 0, "end": 3, "labels": ["name"]}}]}],
    },
}


@pytest.mark.parametrize("name", RECORDS)
def test_json_forms_are_told_by_their_first_record(name, tmp_path):
    for content in (json.dumps(RECORDS[name]), json.dumps([RECORDS[name]])):
        path = tmp_path / "data.json"
        path.write_text(content)
        assert find_format(Source(str(path))).name == name
        [document] = read_documents(path)
        assert (document.text, document.spans) == ("Ada", (TextSpan(0, 3, "name"),))


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ('{"text": "Ada", "label": [[0, 9, "x"]]}', "doccano", r"line 1: span 'x' from 0 to 9 does not lie"),
        ('{"text": "Ada", "label": [[0, "3", "x"]]}', "doccano", r'line 1, field "label": a span must begin and end'),
        ('{"text": 3, "label": []}', "doccano", r'line 1: field "text" must be a string; got 3'),
        ('{"text": "Ada", "label": [], }', "doccano", "line 1 is not JSON"),
        ('\n{"text": "Ada", "spans": [3]}', "prodigy", r'line 2: field "spans" must be a list of objects'),
        ('[{"data": {"a": "x", "b": "y"}}]', "label-studio", 'record 1: field "data" has no "text" and 2 strings'),
        ("<a><b>x</a>", "xml", "is not XML"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><a><b>&x;</b></a>', "xml", "entity"),
        ("a\tb\na\n", "columns", "line 2: 1 column where the first has 2"),
        ("9" * 5000 + "\ta" + "\t_" * 8 + "\n", "conllu", "a token's id must be a number or a range"),
        (
            '{"text": "Ada", "tokens": [{"start": 0, "end": 99999999999}]}',
            "prodigy",
            "token 0 .* text of 3 characters",
        ),
        (
            '{"text": "Ada", "tokens": [{"start": 0, "end": 1e999}]}',
            "prodigy",
            'line 1: field "tokens" must be a list of',
        ),
        (
            '{"text": "Ada", "tokens": [{"start": 0, "end": 2}, {"start": 1, "end": 3}]}',
            "prodigy",
            "token 1 .* overlaps",
        ),
        (
            '{"text": "A", "spans": [{"start": 0, "end": 1, "label": "x", "score": "y"}]}',
            "prodigy",
            "score .* finite",
        ),
        (
            '[{"data": {"text": "Ada"}, "annotations": true}]',
            "label-studio",
            '"annotations" must be a list of objects',
        ),
        ("1\ta\n", "conllu", "line 1: 2 columns where CoNLL-U has 10"),
    ],
)
def test_damaged_records_name_file_record_and_field(content, name, words, tmp_path):
    path = tmp_path / "bad.file"
    path.write_text(content)
    with pytest.raises(InputError, match=rf"bad\.file.*{words}"):
        list(read_documents(path, name))


def test_columns_as_they_come(tmp_path):
    path = tmp_path / "t.conll"
    path.write_bytes("\ufeff-DOCSTART- -X- O\r\n\r\nAda NNP B-PER\r\nsleeps VBZ O\r\n".encode())
    assert [(d.text, d.spans) for d in read_documents(path)] == [("Ada sleeps", (TextSpan(0, 3, "PER"),))]
    path.write_text("Ada\t\tB-PER\nsleeps\tx y\tO\n")
    assert next(read_documents(path)).spans == (TextSpan(0, 3, "PER"),)
    path.write_bytes("Zoë B-PER\n".encode("latin-1"))
    with pytest.raises(InputError, match="is not utf-8 text.*--encoding"):
        list(read_documents(path))
    assert next(read_documents(path, encoding="latin-1")).text == "Zoë"


def test_column_files_are_labeled_throughout_or_not_at_all(tmp_path):
    plain = Document("Ada B", None, ((0, 3), (4, 5)))
    write_documents([plain, plain], tmp_path / "t.conll")
    assert [d.spans for d in read_documents(tmp_path / "t.conll")] == [None, None]
    with pytest.raises(InputError, match="labeled throughout or not at all"):
        write_documents([plain, Document("x", ())], tmp_path / "t.conll")


def test_crossing_spans_are_refused_where_tokens_have_one_label(tmp_path):
    crossing = Document("abc", (TextSpan(0, 2, "x"), TextSpan(1, 3, "y")))
    for name in ("xml", "columns", "conllu"):
        with pytest.raises(InputError, match="cross"):
            write_documents([crossing], tmp_path / "t", name)
    with pytest.raises(InputError, match="one of"):
        write_documents([crossing], tmp_path / "t.json", "word")
    with pytest.raises(InputError, match="XML cannot hold the character U\\+0000"):
        write_documents([Document("\0")], tmp_path / "t.xml")


@pytest.mark.parametrize("name", ["columns", "label-studio"])
def test_a_compressed_bomb_is_refused_line_by_line_and_whole(name, tmp_path):
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"[" if name == "label-studio" else b"")
        for _ in range(40):
            file.write((b"a" * 1022 + b" O\n") * (1 << 10))
    with pytest.raises(InputError, match="unpacks to more than 100 times"):
        list(read_documents(path, name))
    path.write_bytes(path.read_bytes()[:1000] + b"\0" * 500)
    with pytest.raises(InputError, match="gzip"):
        list(read_documents(path, name))


def test_a_hash_sign_may_be_a_token_or_begin_a_comment(tmp_path):
    """Comments have another number of columns than rows; the very first line is told apart by the first row after it."""
    path = tmp_path / "hash.conll"
    path.write_text("# O\n1 B-x\n\n# a comment of more columns\n# O\nfoo O\n")
    assert [(line, rows) for line, rows in ColumnFile(Source(str(path)))] == [
        (1, [["#", "O"], ["1", "B-x"]]),
        (5, [["#", "O"], ["foo", "O"]]),
    ]
    path.write_text("# global columns = three words and more\na\tb c\n")
    assert list(ColumnFile(Source(str(path)))) == [(2, [["a", "b c"]])]


def test_numbers_of_thousands_of_digits_are_refused_or_kept_as_text(tmp_path):
    (tmp_path / "a.txt").write_text("Ada")
    (tmp_path / "a.ann").write_text(f"T1\tname 0 {'9' * 5000}\tAda\n")
    with pytest.raises(InputError, match="a span begins and ends at whole numbers"):
        list(read_documents(tmp_path))
    named = Document("Ada", (), name="9" * 5000)
    write_documents([named], tmp_path / "b.json", "label-studio")
    assert list(read_documents(tmp_path / "b.json")) == [named]


def test_what_other_formats_hold_besides_does_not_become_labels(tmp_path):
    """Records of one tool have fields that mean something else in another's: they are left out there, not mixed up."""
    (tmp_path / "a.jsonl").write_text(
        '{"text": "Ada", "spans": [], "label": "x", "data": 3, "tag": "<b>", "id": "7"}\n'
    )
    read = list(read_documents(tmp_path / "a.jsonl", "prodigy"))
    for name in ("doccano", "label-studio", "xml", "table"):
        path = tmp_path / (f"out.{name}" if name != "table" else "out.csv")
        write_documents(read, path, name)
        again = list(read_documents(path, name))
        assert [(doc.text, doc.spans, doc.name) for doc in again] == [("Ada", (), "7")], name


WORDS = """<AddressCollection>
<AddressString><AddressNumber>12</AddressNumber> <StreetName>Martin</StreetName> <StreetName>Luther</StreetName>
<StreetName>King,</StreetName> <PlaceName>Los</PlaceName> <PlaceName>Angeles,</PlaceName>
<ZipCode>90001</ZipCode></AddressString>
</AddressCollection>"""


def test_neighbors_of_one_label_are_one_span_if_each_word_has_an_element(tmp_path):
    path = tmp_path / "labeled.xml"
    path.write_text(WORDS)
    (doc,) = read_documents(path)
    fields = [(doc.text[s.start : s.end], s.label) for s in doc.spans]
    assert fields[1] == ("Martin Luther\nKing", "StreetName")
    assert fields[2] == ("Los Angeles", "PlaceName")
    (apart,) = read_documents(path, apart=True)
    assert len(apart.spans) == 7
    path.write_text(WORDS.replace("<ZipCode>90001</ZipCode>", "<Note>two words</Note>"))
    (whole,) = read_documents(path)
    assert len(whole.spans) == 7, "this file marks whole fields"


# --- the way back: everything but the labels stays ---------------------------------------------------

KEYS = st.sampled_from(["meta", "customer_id", "x y", "note"])
VALUES = st.none() | st.integers(-5, 5) | st.text(max_size=5) | st.lists(st.integers(0, 3), max_size=2)
REST = st.dictionaries(KEYS, VALUES, max_size=3)
WORD = st.text(st.sampled_from("abé12"), min_size=1, max_size=4)
LINE = st.lists(WORD, min_size=1, max_size=5).map(" ".join)


def result(project, start, end, label):
    value = {"start": start, "end": end, "labels": [label]}
    return {"from_name": project[0], "to_name": project[1], "type": "labels", "value": value, "id": "r1"}


@st.composite
def label_studio(draw):
    key, project = draw(st.sampled_from([("text", ("label", "text")), ("citation", ("ner", "doc"))]))
    tasks = []
    for i in range(draw(st.integers(1, 3))):
        done = [{"id": 7, "result": [result(project, 0, 1, "x")], "lead_time": 1.5}]
        rest = {k: v for k, v in draw(REST).items() if not isinstance(v, str)}
        tasks.append({"id": i + 5, "data": {**rest, key: draw(LINE)}, "annotations": done, "meta": draw(REST)})
    return json.dumps(tasks), json.loads, lambda task: {k: v for k, v in task.items() if k != "predictions"}


@st.composite
def json_lines(draw, key):
    marks = {
        "label": [[0, 1, "x"]],
        "labels": [],
        "entities": [{"id": 1, "label": "x", "start_offset": 0, "end_offset": 1}],
    }
    marks |= {"spans": [{"start": 0, "end": 1, "label": "x"}]}
    rows = [{**draw(REST), "id": i, "text": draw(LINE), key: marks[key]} for i in range(draw(st.integers(1, 3)))]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return (
        text,
        lambda t: [json.loads(x) for x in t.split("\n") if x],
        lambda row: {k: v for k, v in row.items() if k != key},
    )


@st.composite
def csv_rows(draw):
    names = draw(st.permutations(["id", "address", "customer", "spans"]))
    rows = [{"id": f"a{i}", "address": draw(LINE), "customer": draw(WORD), "spans": ""} for i in range(2)]
    text = ",".join(names) + "\r\n" + "".join(",".join(row[n] for n in names) + "\r\n" for row in rows)
    return (
        text,
        lambda t: list(csv.DictReader(t.splitlines())),
        lambda row: [(k, v) for k, v in row.items() if k != "spans"],
    )


@st.composite
def conllu_rows(draw):
    lines = []
    for i in range(draw(st.integers(1, 2))):
        lines += [f"# sent_id = s{i}", "# newpar", "1-2\tdel\t_\t_\t_\t_\t_\t_\t_\tTranslit=x"]
        lines += [f"{n}\t{draw(WORD)}\tl\tNOUN\tNN\tA=b\t0\troot\t_\tSpaceAfter=No|NER=O|X=y" for n in (1, 2, 3)]
        lines += ["3.1\tgone\t_\t_\t_\t_\t_\t_\t_\t_", ""]
    strip = lambda line: re.sub(r"(^|[|\t])NER=[^|]*", "", line)  # noqa: E731
    return "\n".join(lines) + "\n", str.splitlines, strip


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("x.json", label_studio()),
        ("d.jsonl", json_lines("label")),
        ("l.jsonl", json_lines("labels")),
        ("e.jsonl", json_lines("entities")),
        ("p.jsonl", json_lines("spans")),
        ("t.csv", csv_rows()),
        ("c.conllu", conllu_rows()),
    ],
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_new_labels_leave_everything_else_of_a_record_as_it_was(name, files, data, tmp_path):
    text, parts, but_labels = data.draw(files)
    path, target = tmp_path / name, tmp_path / f"out-{name}"
    path.write_bytes(text.encode())
    options = {"column": "address"} if name == "t.csv" else {"text": "citation"} if '"citation"' in text else {}
    form = find_format(Source(str(path), options=options)).name
    found = list(read_documents(path, **options))
    labeled = [replace(doc, spans=(TextSpan(0, 1, "new", 0.5),), score=0.5) for doc in found]
    write_documents(labeled, target, form)
    before, after = (parts(t) for t in (text, target.read_bytes().decode()))
    assert list(map(but_labels, after)) == list(map(but_labels, before))
    again = list(read_documents(target, form, **options))
    if name == "x.json":
        made = [task["predictions"][0]["result"][0] for task in after]
        old = [task["annotations"][0]["result"][0] for task in before]
        assert [(m["from_name"], m["to_name"]) for m in made] == [(o["from_name"], o["to_name"]) for o in old]
    else:
        assert all(doc.spans[0].label == "new" for doc in again)
    assert [doc.text for doc in again] == [doc.text for doc in found]


def test_columns_of_a_table_come_along_to_another_format_and_back(tmp_path):
    (tmp_path / "a.csv").write_text("customer_id,address\n17,12 Oak St\n")
    write_documents(read_documents(tmp_path / "a.csv", column="address"), tmp_path / "t.json", "label-studio")
    (task,) = json.loads((tmp_path / "t.json").read_text())
    assert task["data"] == {"customer_id": "17", "text": "12 Oak St"}
    write_documents(read_documents(tmp_path / "t.json"), tmp_path / "d.jsonl", "doccano")
    assert json.loads((tmp_path / "d.jsonl").read_text()) == {"text": "12 Oak St", "customer_id": "17"}
    assert find_format(Source(str(tmp_path / "d.jsonl"))).name == "doccano"
