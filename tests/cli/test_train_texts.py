"""``rulefield train`` on annotated texts in every format, and options from a file."""

import json
import re

import pytest
from typer.testing import CliRunner

import rulefield as rf
from rulefield.cli.main import app
from rulefield.data.documents import Document, TextSpan
from rulefield.encode.formats import FORMATS, write_documents

TEXTS = ["Ada Lovelace, 1843", "Alan Turing, 1936", "Emmy Noether, 1918"]
SPANS = [[(0, len(t) - 6, "name"), (len(t) - 4, len(t), "year")] for t in TEXTS]
DOCUMENTS = [Document(text, tuple(TextSpan(*span) for span in spans)) for text, spans in zip(TEXTS, SPANS)]
FILES = {
    "doccano": "a.jsonl",
    "label-studio": "a.json",
    "prodigy": "a.jsonl",
    "xml": "a.xml",
    "brat": "folder",
    "conllu": "a.conllu",
    "table": "a.csv",
}


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


@pytest.mark.parametrize("form", FILES)
def test_a_file_is_taken_for_what_it_is(form, tmp_path):
    source, model = tmp_path / FILES[form], tmp_path / "m.rf"
    write_documents(DOCUMENTS, source, form)
    said = run("train", source, "-o", model, "--dev", source)
    assert f"{FORMATS[form].about}; 3 texts, 6 spans" in said
    assert "span F1 100.00" in said
    assert rf.load(model).parse("Grace Hopper, 1952").fields == {"name": "Grace Hopper", "year": "1952"}


def test_tokens_and_labels_still_make_a_chain(tmp_path):
    rows = [{"tokens": ["Ada", "Lovelace", "1843"], "labels": ["B-name", "I-name", "B-year"]}] * 3
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run("train", tmp_path / "a.jsonl", "-o", tmp_path / "m.rf", "-q")
    assert type(rf.load(tmp_path / "m.rf")).__name__ == "ChainCRF"


def test_an_encoding_can_be_named(tmp_path):
    text = "José Müller, 1843"
    write_documents([Document(text, (TextSpan(0, 11, "name"),))] * 2, tmp_path / "a.jsonl", "doccano")
    raw = (tmp_path / "a.jsonl").read_text("utf-8").encode("latin-1")
    (tmp_path / "b.jsonl").write_bytes(raw)
    run("train", tmp_path / "b.jsonl", "-o", tmp_path / "m.rf", "-q", "--encoding", "latin-1")
    assert rf.load(tmp_path / "m.rf").parse(text).fields == {"name": "José Müller"}
    with pytest.raises(rf.exceptions.RulefieldError, match="encoding"):
        run("train", tmp_path / "b.jsonl", "-o", tmp_path / "m.rf", "-q")


@pytest.mark.parametrize(("option", "value"), [("--tasks", "a=1"), ("--initial-label", "O")])
def test_options_of_tokens_are_refused(tmp_path, option, value):
    write_documents(DOCUMENTS, tmp_path / "a.xml", "xml")
    with pytest.raises(rf.exceptions.RulefieldError):
        run("train", tmp_path / "a.xml", "-o", tmp_path / "m.rf", option, value)


def test_a_parser_is_inspected_as_the_model_inside(tmp_path):
    write_documents(DOCUMENTS, tmp_path / "a.xml", "xml")
    run("train", tmp_path / "a.xml", "-o", tmp_path / "m.rf", "-q")
    assert re.search(r"l1 [0-9.]+, l2 [0-9.]+", run("inspect", tmp_path / "m.rf"))
