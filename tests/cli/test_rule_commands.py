"""Finding, learning and checking rules from the command line."""

import json

import pytest

from rulefield import ChainCRF, RuledCRF, load
from rulefield.datasets.citations import make_citations
from rulefield.rules import check, mine_table, propose, text

X, Y = make_citations(78, seed=5, noise=0.5)
TRAIN, DEV, TEST = slice(0, 30), slice(30, 70), slice(70, 78)


def columns(part):
    return "\n".join("".join(f"{w} {label}\n" for w, label in zip(x, y)) for x, y in zip(X[part], Y[part]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("rules")
    for name, part in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        (root / f"{name}.conll").write_text(columns(part))
    ChainCRF(scheme="BIO", max_iter=25).fit(X[TRAIN], Y[TRAIN]).save(root / "chain.rf")
    return root


def test_propose_writes_the_candidates_of_the_library(run, folder):
    out = folder / "candidates.yaml"
    assert run("rules", "propose", folder / "dev.conll", "-o", out) == (0, "", "")
    wanted = propose(Y[DEV])
    assert text.load(out) == wanted
    shares = [f"# holds in {c.holds:.1%} of 40 sequences" for c in check(wanted, None, Y[DEV])]
    assert [line for line in out.read_text().splitlines() if "holds" in line] == shares
    code, said, _ = run("rules", "propose", folder / "dev.conll")
    assert code == 0
    assert said == out.read_text()


def test_mine_tells_support_and_confidence(run, folder):
    out = folder / "mined.yaml"
    assert run("rules", "mine", folder / "dev.conll", "-o", out, "--min-support", 12) == (0, "", "")
    found = mine_table(X[DEV], Y[DEV], min_support=12)
    assert found
    assert [(r.name, r.weight) for r in text.load(out)] == [(m.words, pytest.approx(m.cost)) for m in found]
    comments = [line for line in out.read_text().splitlines() if "support" in line]
    assert comments[0] == (
        f"# {found[0].family}: support {found[0].satisfied}, confidence {found[0].confidence:.1%} "
        f"of {found[0].satisfied + found[0].violated}"
    )


def test_learned_rules_are_saved_with_the_chain(run, folder):
    made, candidates = folder / "ruled.rf", folder / "candidates.yaml"
    assert run("rules", "propose", folder / "dev.conll", "-o", candidates)[0] == 0
    arguments = ["-j", 1, "--rules", candidates]
    code, report, said = run("rules", "learn", folder / "chain.rf", folder / "dev.conll", "-o", made, *arguments)
    assert code == 0
    assert "1 held-out sequences have labels that the model was not trained on" in said
    assert "saved to" in said
    ruled = load(made)
    assert report.splitlines()[:11] == ruled.report().splitlines()[:11]
    own = RuledCRF(load(folder / "chain.rf"), cv="prefit", rules=text.load(candidates))
    with pytest.warns(UserWarning, match="not trained on"):
        own.fit(X[DEV], Y[DEV])
    assert ruled.rules_ == own.rules_
    assert ruled.rules_

    out = folder / "labeled.jsonl"
    lines = "".join(json.dumps({"tokens": x, "labels": y}) + "\n" for x, y in zip(X[TEST], Y[TEST]))
    (folder / "test.jsonl").write_text(lines)
    assert run("predict", made, folder / "test.jsonl", "-o", out) == (0, "", "")
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["labels"] for r in records] == list(own.predict(X[TEST]))
    assert run("predict", made, folder / "test.jsonl", "-o", out, "--probabilities")[0] == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    marginals = own.predict_marginals(X[TEST])
    expected = [[row[label] for row, label in zip(rows, r["labels"])] for rows, r in zip(marginals, records)]
    for record, row in zip(records, expected):
        assert record["probabilities"] == pytest.approx(row, abs=2e-3), (
            "under the rules, not under another distribution"
        )
    assert run("predict", made, folder / "test.jsonl", "-o", out, "--probabilities", "--rules", "none")[0] == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["labels"] for r in records] == list(own.predict(X[TEST], rules=[]))
    assert all(0 <= p <= 1 for r in records for p in r["probabilities"])
    code, text_, _ = run("evaluate", folder / "test.conll", made, "--json")
    assert json.loads(text_)["span"]["micro avg"]["f1"] == pytest.approx(own.score(X[TEST], Y[TEST]))

    code, shown, _ = run("inspect", made, "--top", 2, "--label", "B-title")
    assert code == 0
    assert "learned rules" in shown
    assert ruled.report().splitlines()[1] in shown
    code, shown, _ = run("inspect", made, "--explain", " ".join(X[70]), "--top", 1)
    assert f"with {len(ruled.rules_)} rules: optimal" in shown
    assert "probabilities are those of the model without its rules" not in shown


def test_rules_files_take_the_place_of_learned_rules(run, folder):
    (folder / "own.yaml").write_text("- rule: segments('title') <= 1\n  weight: learn\n- present('author')\n")
    made = folder / "two.rf"
    arguments = ["--rules", folder / "own.yaml", "--method", "two-stage", "-q"]
    assert run("rules", "learn", folder / "chain.rf", folder / "dev.conll", "-o", made, *arguments)[:2] == (0, "")
    assert load(made).method == "two-stage"
    (folder / "none.yaml").write_text("- absent('title')\n")
    code, out, _ = run("predict", made, folder / "test.conll", "--rules", folder / "none.yaml")
    assert code == 0
    assert not any(line.endswith("-title") for line in (row.rsplit(" ", 1)[-1] for row in out.splitlines()))


def test_train_learns_rules_by_cross_validation(run, folder):
    made = folder / "learned.rf"
    arguments = ["--rules", "learn", "--max-iter", 10, "--dev", folder / "test.conll", "-j", 1]
    code, _, said = run("train", folder / "dev.conll", "-o", made, *arguments)
    assert code == 0
    assert "candidates" in said
    assert "span F1" in said
    ruled = load(made)
    assert isinstance(ruled, RuledCRF)
    assert len(ruled.predict(X[TEST])) == len(X[TEST])


def test_train_finds_the_prices_that_a_rules_file_leaves_open(run, folder):
    (folder / "auto.yaml").write_text(
        "- rule: segments('author') <= 1\n  weight: auto\n- absent('title').soft('auto')\n"
    )
    made = folder / "auto.rf"
    code, _, said = run("train", folder / "dev.conll", "-o", made, "--rules", folder / "auto.yaml", "--max-iter", 10)
    assert code == 0
    assert "not obeyed" in said
    ruled = load(made)
    assert isinstance(ruled, RuledCRF)
    assert not any(rule.is_open for rule in ruled.rules_)
    assert len(ruled.predict(X[TEST])) == len(X[TEST])


def test_mistakes_end_with_one_sentence(run, folder):
    (folder / "typo.yaml").write_text("- name: one title\n  rule: segments('titel') <= 1\n")
    (folder / "few.conll").write_text(columns(slice(0, 2)))
    (folder / "blank.conll").write_text("a ?\nb ?\n")
    chain, dev, out = folder / "chain.rf", folder / "dev.conll", folder / "x.rf"
    cases = [
        (["rules", "check", folder / "typo.yaml", "--labels", dev], "did you mean 'title'"),
        (["rules", "learn", chain, dev, "-o", out, "--rules", folder / "typo.yaml"], "did you mean 'title'"),
        (["predict", chain, dev, "--rules", folder / "typo.yaml"], "did you mean 'title'"),
        (["train", dev, "-o", out, "--rules", folder / "typo.yaml"], "typo.yaml, line 2: "),
        (["rules", "learn", chain, dev, "-o", out, "--method", "hard"], "method must be one of"),
        (["rules", "learn", chain, dev, "-o", chain], "is also an input"),
        (["rules", "learn", chain, dev, "-o", out, "--rules", "nothing.yaml"], "nothing.yaml"),
        (["rules", "learn", chain, folder / "blank.conll", "-o", out, "--unknown", "?"], "every label is known"),
        (["rules", "mine", dev, "-o", dev], "is also an input"),
        (["train", folder / "few.conll", "-o", out, "--rules", "learn"], "at least 5 sequences"),
    ]
    for arguments, words in cases:
        code, printed, said = run(*arguments)
        assert code == 2, (arguments, said)
        assert words in said, said
        lines = [line for line in said.splitlines() if "held-out" not in line]
        assert len(lines) == 1, said
        assert lines[0].startswith("rulefield: ")
        assert printed == ""
    assert not out.exists()
