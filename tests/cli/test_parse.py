"""``rulefield parse`` and ``convert``: texts, lines as they come, tables, formats."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import rulefield as rf
from rulefield.cli.main import app
from rulefield.exceptions import RulefieldError

TEXTS = ["Ada Lovelace, 1843", "Alan Turing, 1936", "Emmy Noether, 1918"]
SPANS = [[(0, len(t) - 6, "name"), (len(t) - 4, len(t), "year")] for t in TEXTS]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("parse") / "names.rf"
    rf.TextParser().fit(TEXTS, SPANS).save(path)
    return str(path)


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_a_text_is_printed_with_its_fields(model):
    printed = run("parse", model, "Grace Hopper, 1952")
    assert "name" in printed
    assert "1952" in printed
    assert "optimal, probability" in printed


def test_a_table_keeps_its_columns_and_gets_fields(model, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text('id,who,year\n7,"Grace Hopper, 1952",x\n8,,y\n')
    run("parse", model, source, "--column", "who", "-o", target)
    rows = list(csv.DictReader(target.open()))
    assert rows[0]["id"] == "7"
    assert rows[0]["year"] == "x"
    assert rows[0]["name"] == "Grace Hopper"
    assert rows[0]["year_found"] == "1952"
    assert 0 < float(rows[0]["probability"]) <= 1
    assert rows[1]["name"] == ""
    with pytest.raises(RulefieldError, match="there is no column 'text'; the columns are 'id', 'who', 'year'"):
        run("parse", model, source, "-o", target)
    with pytest.raises(RulefieldError, match="is also an input"):
        run("parse", model, source, "--column", "who", "-o", source)


def test_json_lines_keep_their_keys(model, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": 1, "text": "Grace Hopper, 1952"}\n')
    record = json.loads(run("parse", model, source))
    assert record["id"] == 1
    assert record["fields"] == {"name": "Grace Hopper", "year": "1952"}
    assert json.loads(run("parse", model, source, "--spans"))["spans"][0]["start"] == 0


def test_a_pipe_is_answered_line_by_line(model):
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "rulefield", "parse", model, "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        for line in ("Grace Hopper, 1952", "Ada Lovelace, 1843"):
            child.stdin.write(line + "\n")
            child.stdin.flush()
            begun = time.monotonic()
            assert json.loads(child.stdout.readline())["text"] == line  # before the input has ended
            assert time.monotonic() - begun < 60
        child.stdin.close()
        assert child.stdout.read() == ""


def test_what_is_missing_is_told(model):
    with pytest.raises(RulefieldError, match="there is no file 'nowhere.csv'"):
        run("parse", model, "nowhere.csv")


def test_a_plain_chain_gets_a_tokenizer(tmp_path):
    crf = rf.ChainCRF(scheme="BIO").fit([["Ada", ",", "1843"]] * 2, [["B-name", "O", "B-year"]] * 2)
    crf.save(tmp_path / "m.rf")
    assert "name" in run("parse", tmp_path / "m.rf", "Ada, 1843")


def test_convert_says_what_it_took_a_file_for(tmp_path):
    source, target = tmp_path / "export.jsonl", tmp_path / "t.conll"
    source.write_text('{"text": "Ada 1843", "label": [[0, 3, "name"]]}\n')
    run("convert", source, target)
    assert target.read_text() == "Ada\tB-name\n1843\tO\n\n"
    run("convert", target, tmp_path / "tasks.json", "--to", "label-studio")
    assert json.loads((tmp_path / "tasks.json").read_text())[0]["data"]["text"] == "Ada 1843"
    with pytest.raises(RulefieldError, match="could be one of several JSON forms"):
        run("convert", target, tmp_path / "x.json")


def test_records_of_texts_alone_are_a_pool_and_no_test_set(model, tmp_path):
    pool, chosen = tmp_path / "pool.jsonl", tmp_path / "chosen.jsonl"
    pool.write_text('{"id": 7, "text": "Ada Lovelace, 1843"}\n{"id": 8, "text": "Emmy Noether, 1918"}\n')
    run("next", model, pool, "-n", "1", "-o", chosen, "--to", "doccano")
    (record,) = map(json.loads, chosen.read_text().splitlines())
    assert record["label"]
    assert record["id"] in (7, 8)
    with pytest.raises(RulefieldError, match="text 1 has no labels"):
        run("report", model, pool, "-o", tmp_path / "r.html")


def test_half_a_surrogate_pair_goes_through_json_and_is_told_elsewhere(model, tmp_path):
    text, source = "Ada \ud800, 1843", tmp_path / "a.jsonl"
    source.write_text(json.dumps({"text": text, "label": [[0, 3, "name"]]}) + "\n")
    run("parse", model, source, "-o", tmp_path / "b.jsonl")
    assert json.loads((tmp_path / "b.jsonl").read_text())["text"] == text
    run("report", model, source, "-o", tmp_path / "r.html")
    assert "\ufffd" in (tmp_path / "r.html").read_text()
    with pytest.raises(RulefieldError, match=r"cannot hold U\+D800"):
        run("convert", source, tmp_path / "t.csv")
    assert not (tmp_path / "t.csv").exists()


@pytest.mark.parametrize("command", ["parse", "predict"])
def test_a_model_is_opened_without_scikit_learn(model, tmp_path, command):
    """A process that only applies a model answers as one that has all of scikit-learn, and never imports it."""
    (tmp_path / "chain.rf").write_bytes(rf.load(model).model_.to_bytes())
    (tmp_path / "new.conll").write_text("Grace\nHopper\n,\n1952\n")
    given = (
        [model, "Grace Hopper, 1952"]
        if command == "parse"
        else [str(tmp_path / "chain.rf"), str(tmp_path / "new.conll")]
    )
    script = (
        "import sys, typer; own = set(sys.modules)\n"  # old ones of typer load rich by themselves
        "sys.argv[0] = 'rulefield'; from rulefield.cli.main import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'sklearn', 'scipy', 'pandas', 'numba', 'rulefield.rules', 'rich.console'}\n"
        "assert not heavy & (set(sys.modules) - own)"
    )
    done = subprocess.run([sys.executable, "-c", script, command, *given], capture_output=True, text=True)
    assert not done.stderr
    assert done.stdout == run(command, *given)


def streaming(model):
    command = [sys.executable, "-m", "rulefield", "parse", model, "-"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in the background it would be ignored
    )
    process.stdin.write(b"Grace Hopper, 1952\n")
    process.stdin.flush()
    assert b"Grace Hopper" in process.stdout.readline()
    return process


def test_an_interrupt_ends_a_stream_quietly(model):
    process = streaming(model)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (130, b"")


def test_a_closed_pipe_ends_a_stream_quietly(model):
    process = streaming(model)
    process.stdout.close()
    for _ in range(2):
        try:
            process.stdin.write(b"Ada Lovelace, 1843\n" * 10_000)
            process.stdin.flush()
        except BrokenPipeError:
            break
    process.stdin.close()
    assert process.wait(timeout=60) in (0, 1)
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("wrong.jsonl", '{"address": "Ada Lovelace, 1843"}\n', "no field 'text'; the fields are 'address'"),
        ("latin.csv", b"text\ncaf\xe9\n", "not utf-8 text .*--encoding latin-1"),
        ("", "", "nothing to parse"),
        (".", "", "is a folder"),
    ],
)
def test_what_cannot_be_parsed_is_refused_by_name(model, tmp_path, name, content, words):
    source = name
    if content:
        source = tmp_path / name
        source.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RulefieldError, match=words):
        run("parse", model, source)


def test_a_table_of_semicolons(model, tmp_path):
    (tmp_path / "in.csv").write_bytes("\ufeffid;text\r\n7;Grace Hopper, 1952\r\n".encode())
    assert (
        run("parse", model, tmp_path / "in.csv")
        .splitlines()[1]
        .startswith('7,"Grace Hopper, 1952",Grace Hopper,1952')
    )


def test_warm_up_compiles_and_says_how_long():
    done = subprocess.run([sys.executable, "-m", "rulefield", "warm-up"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"compiled for \d+ of \d+ s\n", done.stdout)
