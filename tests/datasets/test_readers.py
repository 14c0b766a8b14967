"""Readers, on small files written here in the formats of the real sets."""

import gzip

import pytest

from rulefield.datasets import columns, tagged
from rulefield.datasets.folder import data_folder, find_file
from rulefield.encode.labels import LabelEncoder, check_possible
from rulefield.encode.schemes import allowed_transitions
from rulefield.exceptions import InputError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RULEFIELD_DATA", str(tmp_path))
    return tmp_path


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_the_folder_must_be_named_and_exist(folder, monkeypatch):
    assert data_folder() == folder
    with pytest.raises(InputError, match="there is no folder"):
        data_folder("cora")
    with pytest.raises(InputError, match=r"no file 'x.txt' \(nor 'x.txt.gz'\)"):
        find_file(folder, "x.txt")
    monkeypatch.delenv("RULEFIELD_DATA")
    with pytest.raises(InputError, match="RULEFIELD_DATA must name the folder"):
        data_folder()


def test_columns(folder):
    text = "-DOCSTART- -X- O\n\nA DT B-NP\ncat NN I-NP\n\n\nsat VB B-VP\n"
    write(folder, "conll2000/train.txt.gz", text)
    write(folder, "conll2002_es/esp.testa", text.replace("\n", "\r\n"))
    expected = ([[("A", "DT"), ("cat", "NN")], [("sat", "VB")]], [["B-NP", "I-NP"], ["B-VP"]])
    assert columns.load_conll2000("train") == expected
    assert columns.load_conll2002("testa") == expected


def test_conllu(folder):
    row = "{}\t{}\tlemma\t{}\t{}\t_\t0\troot\t_\t_\n"
    text = "# text = x\n" + row.format("1-2", "don't", "_", "_") + row.format("1", "do", "AUX", "VB")
    text += (
        row.format("2", "n't", "PART", "RB")
        + row.format("2.1", "gap", "X", "X")
        + "\n"
        + row.format("1", "Go", "VERB", "VB")
    )
    write(folder, "ud_english_ewt/en_ewt-ud-dev.conllu", text)
    assert columns.load_ud_english("dev") == ([["do", "n't"], ["Go"]], [["AUX", "PART"], ["VERB"]])
    assert columns.load_ud_english("dev", "xpos")[1] == [["VB", "RB"], ["VB"]]
    with pytest.raises(InputError, match="column must be one of upos, xpos"):
        columns.load_ud_english("dev", "lemma")


def test_nested_tags():
    text = "<a> x <b> y z </b><b> u </b> and </a> & <c> < </c>"
    assert tagged.label_tagged(text) == (
        ["x", "y", "z", "u", "and", "&", "<"],
        ["B-a", "I-a/B-b", "I-a/I-b", "I-a/B-b", "I-a", "O", "B-c"],
    )


def test_a_closing_tag_closes_what_was_opened_inside():
    assert tagged.label_tagged("<a> x <b> y </a> z") == (["x", "y", "z"], ["B-a", "I-a/B-b", "O"])
    assert tagged.label_tagged("<a> <a> x </a> y") == (["x", "y"], ["B-a/B-a", "I-a"])


@pytest.mark.parametrize(
    "text",
    ["<a> x <b> y </a> z", "x </b> y <a> z", "<a> <a> x </a> y", "<a> x", "</a>", "<a> <b> x </c> y </b> z"],
)
def test_unbalanced_tags_give_possible_labels(text):
    tokens, labels = tagged.label_tagged(text)
    assert tokens == [part for part in text.split() if not part.startswith("<")]
    if labels:
        encoder = LabelEncoder()
        made = encoder.fit_encode([labels])
        check_possible(made, encoder.classes_, "BIO", allowed_transitions(encoder.classes_, "BIO"))


def test_citations(folder):
    text = "<NEWREFERENCE>\n<author> A. B. </author> <title> On\nX. </title>\n<NEWREFERENCE>\n<date> 1999. </date>\n"
    write(folder, "cora/tagged_references.newreference.txt", text)
    assert tagged.load_cora() == (
        [["A.", "B.", "On", "X."], ["1999."]],
        [["B-author", "I-author", "B-title", "I-title"], ["B-date"]],
    )
    write(folder, "umass_citation/dev.docs", "<authors> <person> A </person> and </authors>\n\n<title> T </title>\n")
    assert tagged.load_umass("dev") == ([["A", "and"], ["T"]], [["B-authors/B-person", "I-authors"], ["B-title"]])
    write(folder, "cora_ccm_split/citation_train.300.0.txt", "A\tauthor\ta|b\n.\tauthor\tx\n\nT\ttitle\ty\n")
    assert tagged.load_citation_split("train") == ([["A", "."], ["T"]], [["author", "author"], ["title"]])


def test_addresses(folder):
    write(folder, "us50/us50.test.tagged", "12 |1\nOak Road, |3\nBoston, |5\n\nErie |5\n")
    words, labels = tagged.load_us50("test")
    assert words == [["12", "Oak", "Road", ",", "Boston", ","], ["Erie"]]
    assert labels == [["B-number", "B-street", "I-street", "I-street", "B-city", "I-city"], ["B-city"]]


@pytest.mark.parametrize(
    ("read", "name", "text", "match"),
    [
        (columns.read_columns, "a.txt", "a b c\na b\n", "line 2: 2 columns where the first has 3"),
        (columns.read_columns, "a.txt", "a\nb\n", "has one column"),
        (columns.read_conllu, "a.txt", "1\ta\n", "line 1: CoNLL-U has 10 columns; got 2"),
        (tagged.read_us50, "a.txt", "a |1\nb |9\n", "line 2 must be `text |label`"),
        (tagged.read_citation_split, "a.txt", "a\n", "line 1 must have a token"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path, read, name, text, match):
    with pytest.raises(InputError, match=match.replace("|", r"\|")):
        read(write(tmp_path, name, text))


def test_files_that_are_no_text(tmp_path):
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    with pytest.raises(InputError, match="not utf-8 text"):
        columns.read_columns(tmp_path / "latin")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a b\n" * 1000)[:40])
    with pytest.raises(InputError, match="gzip"):
        columns.read_columns(tmp_path / "cut.gz")
    with pytest.raises(InputError, match="there is no file"):
        columns.read_columns(tmp_path / "nothing")
