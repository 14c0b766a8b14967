"""One reader for all commands, one measure, one way back; a row that cannot obey does not end a batch."""

import ast
import csv
import json
import re
from pathlib import Path

import pytest
import typer.main

import rulefield as rf
from rulefield import rules as r
from rulefield.cli.main import app
from rulefield.data.documents import Document
from rulefield.datasets import make_addresses
from rulefield.encode.formats import write_documents
from rulefield.report.study import study

TEXTS, SPANS = make_addresses(60, seed=0, noise=0, messy=True, plain=True)
NEW, GOLD = make_addresses(40, seed=9, noise=0.4, messy=True)
FORMATS = {"doccano": "gold.jsonl", "prodigy": "gold.prodigy.jsonl", "label-studio": "gold.json", "xml": "gold.xml"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    gold = [Document(text, tuple(spans), name=str(i)) for i, (text, spans) in enumerate(zip(NEW, GOLD))]
    for form, name in FORMATS.items():
        write_documents(gold, folder / name, form)
    for name, tokenizer in (("coarse.rf", "whitespace"), ("fine.rf", "auto")):
        rf.TextParser(tokenizer=tokenizer, on_cut="snap").fit(TEXTS, SPANS).save(folder / name)
    return folder


@pytest.mark.filterwarnings("ignore:.*lie inside a token")
@pytest.mark.parametrize("name", ["coarse.rf", "fine.rf"])
def test_all_measures_of_a_parser_agree(run, folder, name):
    parser = rf.load(folder / name)
    expected = parser.score(NEW, GOLD)
    code, out, _ = run("evaluate", folder / "gold.jsonl", folder / name, "--json")
    assert code == 0
    assert json.loads(out)["span"]["micro avg"]["f1"] == expected
    one = study(parser, NEW, GOLD)
    assert one.scores["Span F1"].value == expected
    assert set(one.types) <= {label for row in GOLD for *_, label in row} | set(parser.labels_)
    other = rf.load(folder / "coarse.rf")
    for names in ([folder / name], [folder / "coarse.rf", folder / name], [folder / name, folder / "coarse.rf"]):
        page = folder / "page.html"
        assert run("report", *names, folder / "gold.jsonl", "-o", page, "--quiet")[0] == 0
        shown = parser if names[-1] == folder / name else other
        assert f"{100 * shown.score(NEW, GOLD):.1f}" in page.read_text()


def test_the_score_of_held_out_texts_is_that_of_evaluate(run, folder):
    _, _, said = run("train", folder / "gold.jsonl", "-o", folder / "m.rf", "--dev", folder / "gold.jsonl")
    _, out, _ = run("evaluate", folder / "gold.jsonl", folder / "m.rf")
    assert re.search(r"span F1 ([\d.]+)", said).group(1) == re.search(r"span F1 ([\d.]+)", out).group(1)


@pytest.mark.parametrize("name", FORMATS.values())
def test_every_command_reads_annotated_texts(run, folder, name):
    data, model, out = folder / name, folder / "fine.rf", folder / "out"
    rules = folder / "rules.yaml"
    rules.write_text("- segments('city') <= 1\n")
    form = next(form for form, file in FORMATS.items() if file == name)
    for arguments in (
        ["evaluate", data, model],
        ["rules", "check", rules, "--labels", data],
        ["rules", "propose", data],
        ["rules", "mine", data],
        ["predict", model, data],
        ["parse", model, data],
        ["next", model, data, "-n", "3"],
        ["report", model, data, "-o", folder / "r.html"],
        ["convert", data, out, "--to", form],
    ):
        code, _, said = run(*arguments)
        assert code == 0, (arguments, said)


def test_learned_rules_of_a_parser_are_a_parser(run, folder):
    assert run("rules", "learn", folder / "fine.rf", folder / "gold.jsonl", "-o", folder / "ruled.rf", "-q")[0] == 0
    assert isinstance(rf.load(folder / "ruled.rf"), rf.TextParser)


@pytest.mark.parametrize("name", [*FORMATS.values(), "gold.csv"])
def test_predictions_go_back_in_the_format_that_texts_came_in(run, folder, name):
    data, out = folder / name, folder / f"out-{name}"
    more = []
    if name.endswith(".csv"):
        rows = [["customer", "address"], *([str(7 * i), text] for i, text in enumerate(NEW))]
        with data.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        more = ["--column", "address"]
    assert run("predict", folder / "fine.rf", data, "-o", out, *more)[0] == 0
    found = rf.load(folder / "fine.rf").predict(NEW)
    if name.endswith(".csv"):
        with out.open(newline="") as file:
            written = list(csv.DictReader(file))
        assert [(row["customer"], row["address"]) for row in written] == [tuple(row) for row in rows[1:]]
        spans = [[tuple(span) for span in json.loads(row["spans"])] for row in written]
    elif name.endswith(".json"):
        tasks = json.loads(out.read_text())
        assert [task["id"] for task in tasks] == list(range(len(NEW)))
        assert all("annotations" in task for task in tasks)
        values = [[one["value"] for one in task["predictions"][0]["result"]] for task in tasks]
        spans = [[(v["start"], v["end"], v["labels"][0]) for v in row] for row in values]
    else:
        from rulefield.encode.formats import read_documents

        spans = [[tuple(s[:3]) for s in d.spans] for d in read_documents(out)]
    assert spans == [list(row) for row in found]


@pytest.fixture(scope="module")
def strict(folder):
    """A parser that a hard rule leaves without an answer for texts of one token."""
    parser = rf.TextParser().fit(TEXTS, SPANS)
    parser.model_.rules = [(r.segments("city") == 1).named("one city"), (r.segments("zip") == 1).named("one zip")]
    parser.save(folder / "strict.rf")
    return folder / "strict.rf"


def test_a_row_that_cannot_obey_is_marked_and_the_others_are_parsed(run, folder, strict):
    lines = folder / "lines.txt"
    lines.write_text(f"{TEXTS[0]}\nx\n{TEXTS[1]}\n")
    code, out, said = run("parse", strict, lines)
    assert code == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert [row["status"] == "infeasible" for row in found] == [False, True, False]
    assert found[1]["fields"] == {}
    assert found[1]["probability"] is None
    assert re.search(r"lines.txt', line 2: no labeling of 'x' obeys", said)
    code, _, said = run("parse", strict, lines, "--on-infeasible", "raise")
    assert code == 2
    assert "line 2" in said
    code, out, _ = run("parse", strict, lines, "--on-infeasible", "relax")
    assert code == 0
    assert json.loads(out.splitlines()[1])["broken"]
    assert "must be one of" in run("parse", strict, lines, "--on-infeasible", "skip")[2]


def test_a_sequence_that_cannot_obey_is_marked(run, folder, strict):
    data = folder / "tokens.jsonl"
    data.write_text('{"tokens": ["x"]}\n{"tokens": ["12", "Oak", "St", ",", "Troy", ",", "NY", "12180"]}\n')
    code, out, said = run("predict", strict, data)
    assert code == 0
    assert [json.loads(line).get("status") for line in out.splitlines()] == ["infeasible", None]
    assert "sequence 1" in said


def test_a_table_that_is_no_text_needs_a_file(run, folder):
    import pandas as pd

    table = pd.DataFrame({"text": ["12 Oak St, Boston"]})
    table.to_parquet(folder / "one.parquet")
    code, _, said = run("parse", folder / "fine.rf", folder / "one.parquet")
    assert (code, "name a file for it with -o" in said) == (2, True)
    assert run("parse", folder / "fine.rf", folder / "one.parquet", "-o", folder / "one.csv")[0] == 0
    assert "Oak" in (folder / "one.csv").read_text()
    table.to_excel(folder / "one.xlsx")
    code, _, said = run("parse", folder / "fine.rf", folder / "one.xlsx")
    assert (code, "spreadsheets are not read" in said) == (2, True)


def test_tables_are_written_in_other_forms(run, folder):
    import openpyxl
    from pyarrow import parquet

    (folder / "in.csv").write_text("id,text\n1,12 Oak St\\, Troy\n2,\n".replace("\\,", ""))
    for name in ("t.parquet", "t.jsonl", "t.tsv", "t.xlsx"):
        assert run("parse", folder / "fine.rf", folder / "in.csv", "-o", folder / name)[0] == 0
    head, *cells = openpyxl.load_workbook(folder / "t.xlsx").active.values
    assert [dict(zip(head, row))["id"] for row in cells] == ["1", "2"]
    table = parquet.read_table(folder / "t.parquet").to_pylist()
    assert [row["id"] for row in table] == ["1", "2"]
    assert [row["probability"] is None for row in table] == [False, True]
    assert [json.loads(line)["status"] for line in (folder / "t.jsonl").read_text().splitlines()] == ["optimal"] * 2
    assert "leave it out" in run("parse", folder / "fine.rf", folder / "in.csv", "--spans")[2]


def test_a_sentence_per_line_is_recognized(run, folder):
    rows = [f"from {a} to {b}\tO B-{a} O B-{b}" for a in "abcdefghijklmnop" for b in "abcdefghijklmnop"]
    (folder / "atis.iob").write_text("\n".join(rows) + "\n")
    code, _, said = run("train", folder / "atis.iob", "-o", folder / "x.rf")
    assert code == 2
    assert "256 different labels in its last column for 256 tokens" in said
    assert "write each token on a line of its own" in said


def test_a_few_labels_that_break_the_scheme_of_the_others_are_rewritten(run, tmp_path):
    usual = "John I-PER\nSmith I-PER\nsaw O\nParis I-LOC\nRome B-LOC\n\n"
    (tmp_path / "a.conll").write_text(40 * usual + "a O\nb B-LOC\n\n")
    code, _, said = run("train", tmp_path / "a.conll", "-o", tmp_path / "m.rf", "--l1", 0, "--l2", 1)
    assert code == 0
    assert "look like IOB1, but 1 of 202 break it (sequence 41, token 2: 'B-LOC' in place of 'I-LOC')" in said
    assert rf.load(tmp_path / "m.rf").scheme == "IOB1"
    (tmp_path / "b.conll").write_text(2 * usual + 4 * "a O\nb B-LOC\n\n")
    _, _, said = run("train", tmp_path / "b.conll", "-o", tmp_path / "m.rf", "--l1", 0, "--l2", 1)
    assert "training without a scheme" in said
    assert rf.load(tmp_path / "m.rf").scheme is None


def test_a_few_sentences_with_their_labels_on_a_line_are_recognized(run, tmp_path):
    (tmp_path / "atis.iob").write_text("show me flights\tO O B-x\nlist all\tO O\n")
    code, _, said = run("train", tmp_path / "atis.iob", "-o", tmp_path / "m.rf")
    assert (code, "one token and its label per line" in said) == (2, True)


def test_an_empty_file_of_records_is_called_empty(run, folder, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    code, _, said = run("convert", tmp_path / "empty.jsonl", tmp_path / "out.csv")
    assert (code, "is empty: it holds no record" in said) == (2, True)


def test_an_empty_pool_is_refused(run, folder):
    (folder / "empty.txt").write_text("")
    assert "holds no text" in run("next", folder / "fine.rf", folder / "empty.txt")[2]


# --- no message names an option that its command lacks ------------------------------------------------

SOURCE = Path(rf.__file__).parent
COMMAND = typer.main.get_command(app)
READERS = ("train", "predict", "parse", "evaluate", "report", "next", "serve", "convert", "prove")
RULES = ("rules check", "rules mine", "rules propose", "rules learn")
SAID_BY = {  # the commands of which a module of the command line speaks
    "training": ["train"],
    "models": ["train"],
    "texts/config": ["train"],
    "documents": ["train", "predict"],
    "prediction": ["predict"],
    "texts/parsing": ["parse"],
    "texts/tables": ["parse"],
    "evaluation": ["evaluate"],
    "pages/report": ["report"],
    "pages/next": ["next"],
    "pages/serve": ["serve"],
    "pages/app": ["serve"],
    "pages/calls": ["serve"],
    "pages/items": ["serve"],
    "pages/workbench": ["serve"],
    "texts/converting": ["convert"],
    "rules": list(RULES),
    "tasks": ["train"],
    "demo": ["demo"],
    "inspection": ["inspect"],
}
ELSEWHERE = {  # what only some commands reach: names of formats to write (convert, next)
    ("encode/formats/__init__", "--to"),
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")


def options_of(command):
    found = COMMAND
    for name in command.split():
        found = found.commands[name]
    return {option for parameter in found.params for option in parameter.opts}


def sentences(tree):
    """Strings of a module that are no docstrings: f-strings in one piece."""
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    loose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented | loose:
            yield node.value


def test_every_command_that_reads_has_the_same_options():
    for command in (*READERS, *RULES):
        wanted = {"--format", "--text", "--column", "--encoding"} | (
            {"--tokenizer"} if command != "convert" else set()
        )
        assert wanted <= options_of(command), command


def test_no_message_names_an_option_that_its_command_lacks():
    shared = set.intersection(*(options_of(command) for command in (*READERS, *RULES)))
    assert "--on-infeasible" in options_of("parse") & options_of("predict")  # both say it, in one module
    wrong = []
    for path in SOURCE.rglob("*.py"):
        name = str(path.relative_to(SOURCE).with_suffix(""))
        if name in ("cli/main", "cli/options"):
            continue
        commands = SAID_BY.get(name.removeprefix("cli/")) if name.startswith("cli/") else None
        known = set.intersection(*map(options_of, commands)) if commands else shared
        for sentence in sentences(ast.parse(path.read_text(encoding="utf-8"))):
            if OPTION.fullmatch(sentence):  # its declaration
                continue
            if "rulefield " in sentence:
                known_here = {o for c in (*READERS, *RULES) if f"rulefield {c}" in sentence for o in options_of(c)}
            else:
                known_here = set()
            wrong += [
                (name, option, sentence) for option in OPTION.findall(sentence) if option not in known | known_here
            ]
    wrong = [row for row in wrong if row[:2] not in ELSEWHERE]
    assert not wrong, "\n".join(map(str, wrong))
