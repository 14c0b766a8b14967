"""The commands from outside: files in, files out, one sentence for a mistake."""

import gzip
import json
import subprocess
import sys

import pytest

import rulefield
from rulefield.cli import main as cli
from rulefield.cli.main import PLACES
from rulefield.datasets.addresses import make_addresses
from rulefield.metrics import span_f1

TOKENS, LABELS = make_addresses(60, seed=1, noise=0.0)
NEW, NEW_LABELS = make_addresses(20, seed=2, noise=0.0)


def columns(tokens, labels=None):
    rows = [
        [" ".join(row) for row in (zip(t, y) if labels else [(w,) for w in t])]
        for t, y in zip(tokens, labels or tokens)
    ]
    return "\n\n".join("\n".join(block) for block in rows) + "\n"


def jsonl(tokens, labels=None):
    records = [{"tokens": t, "id": i, **({"labels": labels[i]} if labels else {})} for i, t in enumerate(tokens)]
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("cli")
    (root / "train.conll").write_text(columns(TOKENS, LABELS))
    (root / "new.conll").write_text(columns(NEW))
    (root / "test.conll").write_text(columns(NEW, NEW_LABELS))
    (root / "train.jsonl.gz").write_bytes(gzip.compress(jsonl(TOKENS, LABELS).encode()))
    (root / "test.jsonl").write_text(jsonl(NEW, NEW_LABELS))
    (root / "rules.yaml").write_text("- name: one city\n  rule: segments('city') == 1\n")
    return root


@pytest.fixture(scope="module")
def model(folder):
    path = folder / "model.rf"
    patch = pytest.MonkeyPatch()
    patch.setattr(
        sys, "argv", ["rulefield", "train", str(folder / "train.conll"), "-o", str(path), "-q", "--max-iter", "30"]
    )
    with pytest.raises(SystemExit) as end:
        cli.main()
    patch.undo()
    assert not end.value.code
    return path


def read(path):
    blocks = path.read_text().strip().split("\n\n")
    return [[line.split() for line in block.splitlines()] for block in blocks]


def test_train_predict_evaluate_columns(run, folder, model):
    out = folder / "out.conll"
    assert run("predict", model, folder / "new.conll", "-o", out) == (0, "", "")
    rows = read(out)
    assert [[row[0] for row in block] for block in rows] == NEW
    predicted = [[row[1] for row in block] for block in rows]
    assert span_f1(NEW_LABELS, predicted) > 0.8
    code, text, _ = run("evaluate", folder / "test.conll", model, "--json")
    assert code == 0
    assert json.loads(text)["span"]["micro avg"]["f1"] == pytest.approx(span_f1(NEW_LABELS, predicted))
    code, text, _ = run("evaluate", folder / "test.conll", model, "--tokens")
    assert "micro avg" in text
    assert "whole sequences" in text


def test_labeled_output_is_evaluated_without_the_model(run, folder, model):
    both = folder / "both.conll"
    assert run("predict", model, folder / "test.conll", "-o", both)[0] == 0
    direct = json.loads(run("evaluate", folder / "test.conll", model, "--json")[1])
    assert json.loads(run("evaluate", both, "--json")[1]) == direct
    lines = folder / "both.jsonl"
    assert run("predict", model, folder / "test.jsonl", "-o", lines)[0] == 0
    assert json.loads(run("evaluate", lines, "--json")[1]) == direct


def test_json_lines_keep_what_they_had_and_get_more(run, folder, model):
    code, text, _ = run("predict", model, folder / "test.jsonl", "--probabilities", "--kbest", 2)
    assert code == 0
    records = [json.loads(line) for line in text.splitlines()]
    assert [record["id"] for record in records] == list(range(20))
    assert [record["gold"] for record in records] == NEW_LABELS
    for record in records:
        assert len(record["labels"]) == len(record["tokens"]) == len(record["probabilities"])
        assert record["kbest"][0]["labels"] == record["labels"]
        assert record["kbest"][0]["probability"] >= record["kbest"][1]["probability"]


def test_standard_input_and_probabilities_in_columns(run, folder, model, monkeypatch):
    monkeypatch.setattr(sys, "stdin", (folder / "new.conll").open())
    code, text, _ = run("predict", model, "-", "--probabilities")
    assert code == 0
    first = text.splitlines()[0].split()
    assert first[0] == NEW[0][0]
    assert 0 <= float(first[2]) <= 1


def test_train_from_json_lines_with_dev_data(run, folder):
    made = folder / "lines.rf"
    arguments = ["--dev", folder / "test.jsonl", "--max-iter", 15]
    code, _, said = run("train", folder / "train.jsonl.gz", "-o", made, *arguments)
    assert code == 0
    assert "60 sequences" in said
    assert "span F1" in said
    code, text, _ = run("inspect", made, "--label", "B-zip", "--top", 3)
    assert code == 0
    assert "B-zip" in text
    assert "BIO" in text


def test_features_in_json_lines(run, folder):
    data = folder / "features.jsonl"
    records = [
        {"features": [{"word": w, "last": i == len(t) - 1} for i, w in enumerate(t)], "labels": y}
        for t, y in zip(TOKENS, LABELS)
    ]
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    made = folder / "features.rf"
    assert run("train", data, "-o", made, "-q", "--max-iter", 10, "--scheme", "none")[0] == 0
    code, text, _ = run("evaluate", data, made, "--json")
    assert code == 0
    assert json.loads(text)["token_accuracy"] > 0.8


def test_unknown_labels(run, folder):
    lines = (folder / "train.conll").read_text().splitlines()
    partial = [line.rsplit(" ", 1)[0] + " ?" if i % 7 == 3 and line else line for i, line in enumerate(lines)]
    (folder / "partial.conll").write_text("\n".join(partial) + "\n")
    made = folder / "partial.rf"
    assert run("train", folder / "partial.conll", "-o", made, "--unknown", "?", "-q", "--max-iter", 10)[0] == 0
    code, text, _ = run("inspect", made)
    assert code == 0
    assert "B-city" in text
    assert "?" not in text.split("transitions")[0]


def test_schemes_are_guessed_and_doubts_are_said(run, folder):
    bad = folder / "bad.conll"
    bad.write_text("a O\nb I-x\nc B-x\n\nd B-x\ne O\n")
    code, _, said = run("train", bad, "-o", folder / "bad.rf", "--max-iter", 3)
    assert code == 0
    assert "training without a scheme" in said
    code, _, said = run("train", bad, "-o", folder / "bad.rf", "--scheme", "BIO")
    assert code == 2
    assert "'I-x' after 'O' is impossible under scheme BIO" in said


def test_inspect_explains(run, model):
    code, text, _ = run("inspect", model, "--explain", "12 Oak Street Boston MA 02139", "--top", 2)
    assert code == 0
    assert "over" in text
    code, _, said = run("inspect", model, "--label", "B-citty")
    assert code == 2
    assert "did you mean 'B-city'" in said


def test_rules_are_obeyed(run, folder, model):
    plain, ruled = folder / "plain.jsonl", folder / "ruled.jsonl"
    (folder / "no city.yaml").write_text("- absent('city')\n")
    assert run("predict", model, folder / "test.jsonl", "-o", plain)[0] == 0
    assert run("predict", model, folder / "test.jsonl", "-o", ruled, "--rules", folder / "no city.yaml")[0] == 0
    cities = [
        ["B-city" in json.loads(line)["labels"] for line in path.read_text().splitlines()] for path in (plain, ruled)
    ]
    assert any(cities[0])
    assert not any(cities[1])
    own = folder / "own.rf"
    assert (
        run("train", folder / "train.conll", "-o", own, "-q", "--max-iter", 5, "--rules", folder / "rules.yaml")[0]
        == 0
    )
    code, text, _ = run("predict", own, folder / "test.jsonl")
    assert code == 0
    assert all(json.loads(line)["labels"].count("B-city") == 1 for line in text.splitlines())


@pytest.mark.parametrize("data", ["citations", "addresses"])
def test_demo(run, data):
    code, text, _ = run("demo", "--data", data, "--n", 40)
    assert code == 0
    assert "model + rules" in text
    assert "span F1" in text


def test_rules_files_are_checked(run, folder):
    code, text, _ = run("rules", "check", folder / "rules.yaml", "--labels", folder / "test.conll")
    assert code == 0
    assert "one city" in text
    assert "0 of 20 sequences" in text


@pytest.mark.parametrize(
    "command",
    [[], ["train"], ["predict"], ["evaluate"], ["inspect"], ["demo"]]
    + [["rules", word] for word in ("check", "propose", "mine", "learn")],
)
def test_help_has_examples(run, command):
    code, text, _ = run(*command, "--help")
    assert code == 0
    assert "Usage" in text
    assert not command or "Example" in text


def test_mistakes_end_with_one_sentence(run, folder, model):
    cases = [
        (["predict", folder / "none.rf", folder / "new.conll"], "no model file"),
        (["predict", folder / "new.conll", folder / "new.conll"], "new.conll"),
        (["predict", model, folder / "none.conll"], "there is no file"),
        (["predict", model, folder / "new.conll", "-o", folder / "new.conll"], "is also an input"),
        (["predict", model, folder / "new.conll", "-o", model], "is also an input"),
        (["predict", model, folder / "new.conll", "--kbest", "2"], "--kbest needs JSON lines"),
        (["predict", model, folder / "new.conll", "-o", folder / "no" / "x"], "does not exist"),
        (["predict", model, folder / "new.conll", "--format", "poem"], "--format must be one of auto, jsonl, lines"),
        (["evaluate", folder / "test.conll"], "last two columns"),
        (["evaluate", folder / "test.jsonl"], '"gold" and "labels"'),
        (["train", folder / "new.conll", "-o", folder / "x.rf"], "has one column"),
        (["train", folder / "train.conll", "-o", folder / "train.conll"], "is also an input"),
        (["train", folder / "train.conll", "-o", folder / "x.rf", "--scheme", "BIOX"], "scheme must be one of"),
        (["rules", "check", folder / "none.yaml"], "none.yaml"),
        (["demo", "--data", "poems"], "--data must be one of"),
    ]
    for arguments, words in cases:
        code, out, said = run(*arguments)
        assert code == 2, arguments
        assert words in said, said
        assert said.startswith("rulefield: ")
        assert "Traceback" not in said
        assert said.count("\n") == 1, said
        assert out == ""
    assert read(folder / "new.conll") == [[[w] for w in t] for t in NEW]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no sequence"),
        ("{not json}\n", "line 1 is not JSON"),
        ('{"words": []}\n', 'an object with a list "tokens"'),
        ('{"tokens": ["a"]}\n', 'no list "labels"'),
        ('{"tokens": ["a", "b"], "labels": ["O"]}\n', "2 tokens but 1 labels"),
    ],
)
def test_bad_json_lines(run, tmp_path, text, words):
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    code, _, said = run("train", path, "-o", tmp_path / "m.rf")
    assert code == 2
    assert words in said
    assert not (tmp_path / "m.rf").exists()


def test_python_m_is_the_command():
    run = subprocess.run([sys.executable, "-m", "rulefield", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"rulefield {rulefield.__version__}"


def test_outputs_are_checked_before_the_work(run, folder, monkeypatch):
    monkeypatch.setattr(
        "rulefield.estimators.chain.estimator.ChainCRF.fit", lambda *_, **__: pytest.fail("trained first")
    )
    code, _, said = run("train", folder / "train.conll", "-o", folder / "no" / "m.rf")
    assert code == 2
    assert "does not exist; create it first" in said


def test_the_help_page_names_every_command_and_imports_none():
    code = (
        "import sys; from rulefield.cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(m for m in sys.modules if m in ('numpy', 'rulefield.cli.training')))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"
    assert all(f" {name} " in shown for name in PLACES)
