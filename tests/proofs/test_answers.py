"""Proofs that users ask for: of every family's answers, of impossible rules, as files, and on the command line."""

import json
import pickle

import numpy as np
import pytest
from typer.testing import CliRunner

import rulefield as rf
from rulefield import proofcheck
from rulefield import rules as r
from rulefield.cli.main import app
from rulefield.encode.graph_builders import chain
from rulefield.exceptions import InfeasibleError, InternalError
from rulefield.inference.proof.proof import Proof

X, Y = [["a", "b", "c", "a"], ["b", "a"]] * 4, [["p", "q", "r", "p"], ["q", "p"]] * 4
IMPOSSIBLE = [r.count("p") >= 1, r.count("p") <= 0]


def graph_model():
    graphs = [chain(np.eye(3)[[0, 1, 2, 1]]) for _ in range(4)]
    return graphs, rf.GraphCRF(max_iter=5).fit(graphs, [np.array(["p", "q", "r", "q"])] * 4)


FAMILIES = {
    "chain": lambda: (X, rf.ChainCRF(max_iter=5).fit(X, Y)),
    "segments": lambda: (X, rf.SegmentCRF(max_iter=5).fit(X, Y)),
    "joint": lambda: (
        X,
        rf.JointCRF(max_iter=5).fit(X, [{"t": row, "u": ["x" if y == "p" else "y" for y in row]} for row in Y]),
    ),
    "ruled": lambda: (X, rf.RuledCRF(rules=[(r.count("q") <= 2).soft("learn")]).fit(X, Y)),
    "graph": graph_model,
}


@pytest.fixture(scope="module", params=FAMILIES)
def fitted(request):
    return request.param, *FAMILIES[request.param]()


def rules_of(name):
    return [] if name == "graph" else [(r.count("p") <= 1).named("few")]


def test_every_family_proves_its_answers(fitted, tmp_path):
    name, data, model = fitted
    for rules in ([], rules_of(name)):
        for k, answer in enumerate(model.decode(data[:2], rules=rules)):
            assert answer.proof_kind == "available"
            proof = answer.proof()
            assert proof.bound >= answer.objective - 1e-9
            assert proof.bound <= answer.objective + 2e-6
            proof.save(tmp_path / f"{k}.proof.json")
            said = proofcheck.check(json.loads((tmp_path / f"{k}.proof.json").read_text()))
            assert f"worth more than {proof.bound!r}" in said
            assert all(f"rule: {rule!r}" in said and rule.text in said for rule in rules)
            assert pickle.loads(pickle.dumps(answer)).proof().text == proof.text


def test_answers_are_checked_before_they_are_given(fitted, monkeypatch):
    name, data, model = fitted
    checked = model.decode(data[:2], rules=rules_of(name), verify=True)
    assert [answer.proof_kind for answer in checked] == ["checked"] * 2
    plain = model.decode(data[:2], rules=rules_of(name))
    assert [answer.objective for answer in checked] == [answer.objective for answer in plain]
    monkeypatch.setattr(proofcheck, "check", lambda text: proofcheck.need(False, "no"))
    with pytest.raises(InternalError, match="refused by the checker"):
        model.decode(data[:2], rules=rules_of(name), verify=True)


def test_nothing_is_made_before_it_is_asked_for(fitted, monkeypatch):
    name, data, model = fitted
    monkeypatch.setattr(Proof, "__init__", lambda *_: pytest.fail("a proof was made"))
    model.decode(data, rules=rules_of(name))


@pytest.mark.parametrize("name", ["chain", "segments", "joint", "ruled"])
def test_impossible_rules_are_proved(name):
    data, model = FAMILIES[name]()
    with pytest.raises(InfeasibleError) as refused:
        model.decode(data[:1], rules=IMPOSSIBLE)
    proof = refused.value.proof()
    assert proof.bound is None
    assert "no labeling is possible" in proof.check()
    assert pickle.loads(pickle.dumps(refused.value)).rules == refused.value.rules


def test_known_labels_that_forbid_all_are_proved_on_graphs():
    data, model = graph_model()
    kind = next(iter(data[0].n_nodes))
    rules = [r.all_of(rf.rules.nodes(kind).is_(label)) for label in ("p", "q")]
    with pytest.raises(InfeasibleError) as refused:
        model.decode(data[:1], rules=rules)
    assert "no labeling is possible" in refused.value.proof().check()


def test_bounds_of_searches_that_were_stopped_are_proved():
    rng = np.random.default_rng(0)
    labels = [*"abcdef"]
    rules = [r.count(a) == r.count(b) for a, b in zip(labels, labels[1:])]
    scores = [rng.normal(size=(24, 6)) for _ in range(4)]
    data = [[{f"s{j}": x for j, x in enumerate(token)} for token in row] for row in scores]
    model = rf.ChainCRF(max_iter=3).fit(data, [[labels[k] for k in row.argmax(axis=1)] for row in scores])
    answers = model.decode(data, rules=rules, node_limit=1)
    assert "bounded" in {answer.status for answer in answers}
    for answer in answers:
        assert answer.proof().bound >= answer.upper_bound
        answer.proof().check()


def test_hard_rules_that_gave_way_have_no_proof():
    model = rf.ChainCRF(max_iter=5, on_infeasible="relax").fit(X, Y)
    (answer,) = model.decode(X[:1], rules=IMPOSSIBLE, verify=True)
    assert (answer.proof(), answer.proof_kind) == (None, "solver")


# --- the command line ---------------------------------------------------------------------------------


@pytest.fixture
def model_file(tmp_path):
    FAMILIES["chain"]()[1].save(tmp_path / "m.rf")
    (tmp_path / "x.conll").write_text("a\nb\nc\na\n\nb\na\n\nb\nb\n")
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    return done.exit_code, done.output


def test_prove_and_verify(model_file):
    code, said = run("prove", model_file / "m.rf", model_file / "x.conll", "-o", model_file / "proofs")
    assert (code, "3 of 3 answers have a proof file" in said) == (0, True), said
    files = sorted((model_file / "proofs").iterdir())
    for arguments in (files, [model_file / "proofs"]):
        code, said = run("verify", *arguments)
        assert code == 0
        assert said.count("proved by") == 3
        assert "3 of 3 proofs accepted" in said
    text = json.loads(files[1].read_text())
    files[1].write_text(json.dumps(text | {"bound": text["bound"] - 1.0}))
    code, said = run("verify", model_file / "proofs")
    assert (code, "2 of 3 proofs accepted" in said) == (1, True)


def test_prove_writes_what_is_impossible_too(model_file):
    (model_file / "rules.yaml").write_text("- rule: count('p') >= 3\n")
    out = model_file / "proofs"
    code, said = run(
        "prove", model_file / "m.rf", model_file / "x.conll", "-o", out, "--rules", model_file / "rules.yaml"
    )
    assert code == 0, said
    checked = [proofcheck.check(json.loads(path.read_text())) for path in sorted(out.iterdir())]
    assert ["no labeling is possible" in said for said in checked] == [False, True, True]
    assert all("rule: count('p') >= 3" in said for said in checked)


def test_verify_of_nothing_is_one_sentence(tmp_path):
    with pytest.raises(Exception, match="no file ends in"):
        CliRunner().invoke(app, ["verify", str(tmp_path)], catch_exceptions=False)
