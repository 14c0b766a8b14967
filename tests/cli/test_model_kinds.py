"""Segment and joint models from the command line: training, labeling, scoring, looking inside."""

import json

import numpy as np
import pytest

from rulefield import ChainCRF, SegmentCRF, load
from rulefield.datasets.addresses import make_addresses

NAMES, VERBS, OTHERS = ["Ada", "Bob", "Eve", "Kim"], ["sees", "calls", "meets"], ["today", "often", "now"]


def sentences(n, seed):
    """Rows (word, part of speech, name): a name is a noun, and names are found in two of three places for nouns."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        nouns = [(w, "NOUN", "B-PER") if w in NAMES else (w, "NOUN", "O") for w in rng.choice([*NAMES, "dogs"], 2)]
        verb, other = (str(rng.choice(VERBS)), "VERB", "O"), (str(rng.choice(OTHERS)), "ADV", "O")
        made.append([tuple(map(str, nouns[0])), verb, tuple(map(str, nouns[1])), other])
    return made


def scattered(rows):
    """Odd sentences have names only, even ones parts of speech only."""
    return [[(w, p, "_") if i % 2 else (w, "_", n) for w, p, n in row] for i, row in enumerate(rows)]


def columns(rows):
    return "\n".join("".join(" ".join(token) + "\n" for token in row) for row in rows)


ROWS, NEW = sentences(40, 0), sentences(10, 1)
EXPECT = """
- name: a name is a noun
  expect: share(ner='B-PER', pos=['VERB', 'ADV'])
  at_most: 0.01
- expect: share(ner='B-PER')
  between: [0.35, 0.45]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("joint")
    (root / "scattered.conll").write_text(columns(scattered(ROWS)))
    (root / "test.conll").write_text(columns(NEW))
    (root / "expect.yaml").write_text(EXPECT)
    return root


@pytest.fixture
def joint(run, folder):
    path = folder / "joint.rf"
    if not path.exists():
        arguments = ["--tasks", "ner=2,pos=1", "--expect", folder / "expect.yaml", "--dev", folder / "test.conll"]
        code, _, said = run("train", folder / "scattered.conll", "-o", path, "--max-iter", 5, *arguments)
        assert code == 0, said
        assert "ner 2 labels, pos 3 labels" in said
        assert "a name is a noun: " in said
        assert "pos span F1" in said
    return path


def test_a_joint_model_writes_one_column_a_task(run, folder, joint):
    out = folder / "out.conll"
    assert run("predict", joint, folder / "test.conll", "-o", out, "--probabilities") == (0, "", "")
    rows = [[line.split() for line in block.splitlines()] for block in out.read_text().strip().split("\n\n")]
    predicted = load(joint).predict([[token[0] for token in row] for row in NEW])
    assert [[row[:3] for row in block] for block in rows] == [[list(token) for token in row] for row in NEW]
    assert [[row[3] for row in block] for block in rows] == [y["ner"] for y in predicted]
    assert [[row[4] for row in block] for block in rows] == [y["pos"] for y in predicted]
    assert all(0.2 < float(p) <= 1 for block in rows for row in block for p in row[5:7])
    assert all(len(row) == 7 for block in rows for row in block)


def test_a_joint_model_follows_rules(run, folder, joint):
    rules, lines = folder / "rules.yaml", folder / "test.jsonl"
    rules.write_text(
        "- absent('VERB', task='pos')\n- rule: \"count({'ner': 'PER', 'pos': 'ADV'}) <= 0\"\n  weight: 3\n"
    )
    lines.write_text("".join(json.dumps({"tokens": [t[0] for t in row]}) + "\n" for row in NEW))
    code, text, said = run("predict", joint, lines, "--rules", rules, "--kbest", 2, "--probabilities")
    assert (code, said) == (0, "")
    found = [json.loads(line) for line in text.splitlines()]
    for record in found:
        assert "VERB" not in record["labels"]["pos"]
        assert record["kbest"][0]["labels"] == record["labels"]
        assert all("VERB" not in best["labels"]["pos"] for best in record["kbest"])
        assert 0 <= record["kbest"][1]["probability"] <= record["kbest"][0]["probability"] <= 1
    made = folder / "ruled.rf"
    both = ["--tasks", "ner=2,pos=1", "--rules", rules, "--max-iter", 2, "-q"]
    assert run("train", folder / "scattered.conll", "-o", made, *both)[0] == 0
    assert "VERB" not in run("predict", made, folder / "test.conll")[1].split("\t")[4::5]
    (folder / "odd.yaml").write_text("- absent('O')\n- absent('VREB')\n")
    code, _, said = run("predict", joint, lines, "--rules", folder / "odd.yaml")
    assert code == 2
    assert "did you mean 'VERB'" in said


def test_a_joint_model_is_inspected(run, joint):
    code, text, _ = run("inspect", joint, "--label", "B-PER")
    assert code == 0
    for words in ("joint", "a name is a noun", "labels pos"):
        assert words in text


def test_json_lines_hold_labels_by_task(run, folder):
    data = folder / "scattered.jsonl"
    records = []
    for i, row in enumerate(ROWS):
        labels = {"pos": [t[1] for t in row]} if i % 2 else {"ner": [t[2] for t in row], "pos": None}
        records.append({"tokens": [t[0] for t in row], "labels": labels})
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    made = folder / "lines.rf"
    assert run("train", data, "-o", made, "--tasks", "ner,pos", "--max-iter", 3, "-q")[:2] == (0, "")
    code, text, _ = run("predict", made, data)
    assert code == 0
    found = [json.loads(line) for line in text.splitlines()]
    assert all(set(record["labels"]) == {"ner", "pos"} for record in found)
    assert found[1]["gold"] == {"pos": [t[1] for t in ROWS[1]]}
    correct = [a == b[2] for record, row in zip(found, ROWS) for a, b in zip(record["labels"]["ner"], row)]
    assert sum(correct) > 0.8 * len(correct)


@pytest.mark.parametrize("form", ["conll", "jsonl"])
def test_one_column_and_an_expectation(run, folder, form):
    """Only some names are marked and nothing else is known: the share says how many there are."""
    seen = [
        [(w, n if n != "O" and (i + t) % 2 else "_") for t, (w, _, n) in enumerate(row)] for i, row in enumerate(ROWS)
    ]
    data, made = folder / f"positive.{form}", folder / f"positive_{form}.rf"
    if form == "conll":
        data.write_text(columns(seen))
    else:  # a list means one of these
        choice = {"_": ["O", "B-PER"], "B-PER": "B-PER"}
        rows = [{"tokens": [w for w, _ in row], "labels": [choice[n] for _, n in row]} for row in seen]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "share.yaml").write_text("- share('B-PER').between(0.38, 0.42)\n")
    arguments = ["--expect", folder / "share.yaml", "--initial-label", "O", "--max-iter", 5]
    code, _, said = run("train", data, "-o", made, *arguments)
    assert code == 0
    assert "share('B-PER').between(0.38, 0.42): " in said
    model = load(made)
    assert type(model) is ChainCRF
    assert 0.37 < model.expectations_[0].under_q < 0.43
    assert model.get_params()["initial_label"] == "O"
    assert [repr(e) for e in model.expectations] == ["share('B-PER').between(0.38, 0.42)"]
    code, text, _ = run("inspect", made)
    assert code == 0
    assert "under the model" in text
    (folder / "gold.conll").write_text(columns([[(w, n) for w, _, n in row] for row in NEW]))
    code, text, _ = run("evaluate", folder / "gold.conll", made, "--json")
    assert code == 0
    assert json.loads(text)["token_accuracy"] > 0.8


def test_a_segment_model_is_opened(run, folder):
    X, y = make_addresses(40, seed=3, noise=0.0)
    path = folder / "segments.rf"
    SegmentCRF(scheme="BIO", max_iter=15).fit(X, y).save(path)
    data = folder / "addresses.jsonl"
    data.write_text("".join(json.dumps({"tokens": t, "labels": l}) + "\n" for t, l in zip(X, y)))
    code, text, _ = run("predict", path, data, "--probabilities")
    assert code == 0
    records = [json.loads(line) for line in text.splitlines()]
    assert [r["labels"] for r in records] == list(load(path).predict(X))
    assert all(0 < p <= 1 for r in records for p in r["probabilities"])
    assert json.loads(run("evaluate", data, path, "--json")[1])["token_accuracy"] > 0.8
    code, text, _ = run("inspect", path)
    assert code == 0
    assert "segments" in text
    (folder / "rules.yaml").write_text("- absent('zip')\n")
    code, text, _ = run("predict", path, data, "--rules", folder / "rules.yaml", "--probabilities", "--kbest", 2)
    assert code == 0
    records = [json.loads(line) for line in text.splitlines()]
    assert not any("zip" in label for r in records for label in sum([k["labels"] for k in r["kbest"]], r["labels"]))
    assert all(sum(k["probability"] for k in r["kbest"]) <= 1 for r in records)
    code, text, _ = run("inspect", path, "--explain", "12 Oak Street Boston", "--top", 2)
    assert code == 0
    assert "(length " in text
    code, _, said = run("rules", "learn", path, data, "-o", folder / "ruled.rf")
    assert code == 0, said
    assert type(load(folder / "ruled.rf").estimator_) is SegmentCRF


def test_a_segment_model_is_trained_with_rules(run, folder):
    X, y = make_addresses(30, seed=3, noise=0.0)
    data, made = folder / "to_cut.jsonl", folder / "cut.rf"
    data.write_text("".join(json.dumps({"tokens": t, "labels": l}) + "\n" for t, l in zip(X, y)))
    (folder / "own.yaml").write_text("- absent('zip')\n")
    code, _, said = run("train", data, "-o", made, "--segments", "--rules", folder / "own.yaml", "--max-iter", 15)
    assert code == 0
    assert "saved to" in said
    model = load(made)
    assert type(model) is SegmentCRF
    code, text, _ = run("predict", made, data, "--probabilities")
    assert code == 0
    records = [json.loads(line) for line in text.splitlines()]
    assert [r["labels"] for r in records] == list(model.predict(X))
    assert not any("zip" in label for r in records for label in r["labels"])
    code, _, said = run("train", data, "-o", made, "--segments", "--initial-label", "O")
    assert code == 2
    assert "works with chain models" in said


def test_mistakes_end_with_one_sentence(run, folder, joint):
    data, out = folder / "scattered.conll", folder / "x.rf"
    (folder / "bad.yaml").write_text("\n- expect: share(ner='B-PERS')\n  at_most: 0.1\n")
    (folder / "worse.yaml").write_text("\n- share(ner='B-PER')\n")
    both = ["--tasks", "ner=2,pos=1"]
    cases = [
        (["train", data, "-o", out, "--tasks", "ner=9"], "columns 0 (the word) to 2"),
        (["train", data, "-o", out, "--tasks", "ner=0"], "cannot be in column 0"),
        (["train", data, "-o", out, "--tasks", "ner=x"], "name=column"),
        (["train", data, "-o", out, "--tasks", "ner=1,ner=2"], "twice"),
        (["train", data, "-o", out, "--tasks", "ner,pos"], "the column of every task"),
        (["train", data, "-o", out, *both, "--l1", 1], "--l1 is for chains"),
        (["train", data, "-o", out, *both, "--rules", "learn"], "--rules learn is for chains"),
        (["train", data, "-o", out, *both, "--initial-label", "O"], "--initial-label is for chains"),
        (["train", data, "-o", out, "--expect", folder / "bad.yaml"], "the task 'ner' is unknown"),
        (["train", data, "-o", out, *both, "--expect", folder / "bad.yaml"], "did you mean"),
        (["train", data, "-o", out, *both, "--expect", folder / "worse.yaml"], "worse.yaml, line 2: "),
        (["train", data, "-o", out, *both, "--expect", folder / "none.yaml"], "none.yaml"),
        (["evaluate", data, joint], "a joint model is scored when it is trained"),
        (["predict", joint, data, "--rules", folder / "worse.yaml"], "is not a rule"),
    ]
    for arguments, words in cases:
        code, printed, said = run(*arguments)
        assert code == 2, (arguments, said)
        assert words in said, said
        assert said.startswith("rulefield: ")
        assert said.count("\n") == 1, said
        assert printed == ""
    assert not out.exists()
