"""GraphCRF as users meet it."""

import itertools
import pickle
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict

import rulefield as rf
from oracles.graph_makers import random_graphs
from rulefield import rules as r
from rulefield.data.graphs import TypedGraph
from rulefield.data.sequences import Sequences
from rulefield.encode.graph_builders import chain, grid
from rulefield.estimators.chain.estimator import ChainCRF
from rulefield.estimators.graph.estimator import GraphCRF
from rulefield.exceptions import InfeasibleError, InputError, LabelError, ModelFileError, RuleError
from rulefield.persistence import load_model, model_to_bytes
from rulefield.rules.nodes import for_each, node, nodes, related

NAMES = {"a": np.array(["x", "y", "z"]), "b": np.array(["no", "yes"])}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    graphs = random_graphs(rng, 20)
    labels = []
    for g in graphs:
        y = {"a": g.nodes["a"][:, :3].argmax(axis=1), "b": (g.nodes["b"][:, 0] > 0).astype(int)}
        labels.append({t: NAMES[t][k] for t, k in y.items()})
    return graphs, labels


@pytest.fixture(scope="module")
def fitted(data):
    return GraphCRF(l2=0.1).fit(*data)


def test_learns_names_of_each_type(fitted, data):
    graphs, labels = data
    assert fitted.score(graphs, labels) > 0.95
    assert set(fitted.score_by_type(graphs, labels)) == {"a", "b"}
    assert fitted.predict(graphs)[0]["a"].dtype.kind == "U"
    assert fitted.n_parameters_ == 3 * 4 + 2 * 2 + 9 * 3 + 6 * 1 + 4 * 2 == len(fitted.theta_)
    assert fitted.coef_["a"].shape == (3, 4)
    assert fitted.edge_coef_["a", "b"].shape == (3, 2, 1)


def test_decode_proves_its_answer(fitted, data):
    for labeling in fitted.decode(data[0][:5]):
        assert labeling.status == "optimal"
        assert labeling.gap <= 1e-6 * max(1, abs(labeling.objective))


def test_clone_pickle_and_file_keep_the_model(fitted, data, tmp_path):
    assert clone(fitted).get_params() == fitted.get_params()
    ruled = pickle.loads(pickle.dumps(fitted)).set_params(rules=[r.at_most(1, nodes("a").is_("x")).named("one x")])
    ruled.save(tmp_path / "model.rf")
    again = GraphCRF.load(tmp_path / "model.rf")
    assert again.rules == ruled.rules
    for got, expected in zip(again.predict(data[0]), ruled.predict(data[0])):
        assert all((got[t] == expected[t]).all() for t in expected)


EVERYTHING = {
    "algorithm": "ssvm",
    "l2": 0.5,
    "predictors": None,  # files with predictors: test_graph_predictors
    "labels": {"b": ["maybe", "no", "yes"]},
    "rules": [r.at_most(3, nodes("a").is_("x")).soft(2.5).named("few x")],
    "max_iter": 3,
    "tol": 0.02,
    "oracle_nodes": 7,
    "on_infeasible": "relax",
    "random_state": 5,
    "n_jobs": 2,
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_file_keeps_every_parameter_and_attribute(data):
    crf = GraphCRF(**EVERYTHING)
    assert set(EVERYTHING) == set(crf.get_params())
    crf.fit(*data)
    again = rf.load(crf.to_bytes())
    assert again.get_params() == EVERYTHING
    assert again.decode(data[0]) == crf.decode(data[0])
    for name, value in vars(crf).items():
        if name.endswith("_") and name != "model_":
            np.testing.assert_equal(getattr(again, name), value, err_msg=name)


def test_a_file_of_plain_labels_has_one_type_of_nodes(data):
    crf = GraphCRF(max_iter=2).fit(*data)
    kind, arrays, metadata = load_model(crf.to_bytes())
    metadata["attributes"]["_plain_labels"] = True
    with pytest.raises(ModelFileError, match="plain labels for several types"):
        rf.load(model_to_bytes(kind, arrays, metadata))
    metadata["attributes"]["_plain_labels"] = False
    metadata["attributes"]["_names"]["values"]["classes"]["a"]["items"][0] = "z"  # twice
    with pytest.raises(ModelFileError, match="do not fit together"):
        rf.load(model_to_bytes(kind, arrays, metadata))


def test_stopping_at_the_limit_is_told(data):
    for algorithm in ("likelihood", "ssvm"):
        with pytest.warns(
            ConvergenceWarning, match="GraphCRF: fit stopped after 2 iterations before it converged; raise max_iter"
        ):
            crf = GraphCRF(algorithm=algorithm, max_iter=2, l2=0.01).fit(*data)
        assert not crf.converged_


def test_threads_do_not_change_the_result(data):
    one, two = (GraphCRF(n_jobs=n).fit(*data) for n in (1, 2))
    assert (one.theta_ == two.theta_).all()


def test_works_in_scikit_learn(data):
    graphs, labels = data
    search = GridSearchCV(GraphCRF(), {"l2": [0.1, 10.0]}, cv=2)
    assert search.fit(graphs, labels).best_params_["l2"] == 0.1
    guesses = cross_val_predict(GraphCRF(), graphs, labels, cv=2)
    assert [set(g) for g in guesses] == [{"a", "b"}] * len(graphs)


def test_plain_labels_for_one_type():
    rng = np.random.default_rng(1)
    graphs = [grid(rng.normal(size=(6, 2)), (2, 3)) for _ in range(5)]
    labels = [(g.nodes["cell"][:, 0] > 0).astype(int) for g in graphs]
    crf = GraphCRF(l2=0.1).fit(graphs, labels)
    assert isinstance(crf.predict(graphs)[0], np.ndarray)
    assert crf.score(graphs, labels) > 0.9
    (marginals,) = crf.predict_marginals(graphs[:1])
    assert_allclose(marginals["cell"].sum(axis=1), 1.0)


def test_known_labels_stay(fitted, data):
    graph = data[0][0]
    known = {"a": ["z"] + [None] * (graph.n_nodes["a"] - 1)}
    assert fitted.predict([graph], known=[known])[0]["a"][0] == "z"


def test_rules_are_obeyed_and_reported(fitted, data):
    graphs, _ = data
    rule = for_each("b", r.at_most(0, related("mates").is_(["x", "y"])))
    for graph, labels in zip(graphs, fitted.predict(graphs, rules=[rule])):
        mates = graph.relations["mates"][2][:, 1]
        assert (labels["a"][mates] == "z").all()
    soft = r.all_of(nodes("a").is_("z")).soft(1e-9).named("all z")
    broken = [b.rule for labeling in fitted.decode(graphs, rules=[soft]) for b in labeling.broken]
    assert broken
    assert set(broken) == {"all z"}


def enumerated_marginals(crf, graph, rules, known=None):
    """Marginals by the definition: the weight of a labeling is exp(score - cost), as decode tells it."""
    sizes = {t: (n, len(crf.classes_[t])) for t, n in graph.n_nodes.items()}
    every = [
        dict(zip(sizes, parts))
        for parts in itertools.product(
            *(itertools.product(crf.classes_[t].tolist(), repeat=n) for t, (n, _) in sizes.items())
        )
    ]
    if known is not None:
        every = [y for y in every if all(k in (None, v) for t, given in known.items() for k, v in zip(given, y[t]))]
    objective = []
    relaxed = deepcopy(crf).set_params(on_infeasible="relax")
    for y, labeling in zip(every, relaxed.decode([graph] * len(every), rules=rules, known=every)):
        broken = any(np.isinf(b.cost) for b in labeling.broken)
        assert labeling.labels == {t: list(v) for t, v in y.items()}
        objective.append(-np.inf if broken else labeling.objective)
    weight = np.exp(np.array(objective) - logsumexp(objective))
    return {
        t: np.array(
            [[sum(w for y, w in zip(every, weight) if y[t][v] == c) for c in crf.classes_[t]] for v in range(n)]
        )
        for t, (n, _) in sizes.items()
    }


def test_marginals_under_rules_are_those_of_the_definition(fitted, data):
    graph = next(g for g in data[0] if g.n_nodes["a"] == 3 and g.n_nodes["b"] >= 2)
    hard = for_each("b", r.at_most(1, related("mates").is_(["x", "y"])))
    soft = r.implies(node("b", 0).is_("yes"), r.all_of(node("a", 0).is_("x"), node("a", 1).is_("z"))).soft(1.5)
    counted = (r.how_many(nodes("a").is_("z")) <= 1).soft(0.7)
    known = {"b": ["no"] + [None] * (graph.n_nodes["b"] - 1)}
    for rules in ([], [hard], [soft, counted], [hard, soft]):
        for given in (None, known):
            (found,) = fitted.predict_marginals([graph], rules=rules, known=given and [given], method="exact")
            expected = enumerated_marginals(fitted, graph, rules, given)
            for t, table in expected.items():
                assert_allclose(found[t], table, atol=1e-9)
    own = deepcopy(fitted).set_params(rules=[hard])
    assert_allclose(own.predict_marginals([graph])[0]["a"], fitted.predict_marginals([graph], rules=[hard])[0]["a"])
    with pytest.raises(InputError, match="knows no rules"):
        fitted.predict_marginals([graph], rules=[hard], method="tree_reweighted")
    with pytest.raises(InfeasibleError, match="first.*second"):
        fitted.predict_marginals(
            [graph], rules=[node("a", 0).is_("x").named("first"), node("a", 0).is_("y").named("second")]
        )


def test_contradictions_are_named_or_relaxed(fitted, data):
    graph = data[0][0]
    rules = [
        r.any_of(nodes("b").is_("yes")).named("innocent"),
        node("a", 0).is_("x").named("first"),
        node("a", 0).is_("y").named("second"),
    ]
    with pytest.raises(InfeasibleError, match="first.*second") as error:
        fitted.predict([graph], rules=rules)
    assert error.value.rules == ("first", "second")
    relaxed = deepcopy(fitted).set_params(on_infeasible="relax")
    (labeling,) = relaxed.decode([graph], rules=rules)
    assert [b.rule for b in labeling.broken] in (["first"], ["second"])


def test_latent_type_is_learned_from_its_neighbors():
    rng = np.random.default_rng(0)
    graphs, labels = [], []
    for _ in range(30):
        kind = rng.integers(2)
        x = rng.normal(size=(6, 1)) * 0.3 + (2 * kind - 1)
        pairs = np.stack([np.arange(6), np.zeros(6, int)], axis=1)
        graphs.append(TypedGraph({"part": np.hstack([x, np.ones((6, 1))]), "whole": 1}, {("part", "whole"): pairs}))
        labels.append({"part": np.full(6, kind), "whole": None})
    crf = GraphCRF(labels={"whole": 2}, l2=0.1, random_state=0).fit(graphs, labels)
    whole = np.array([g["whole"][0] for g in crf.predict(graphs)])
    kinds = np.array([y["part"][0] for y in labels])
    assert max((whole == kinds).mean(), (whole != kinds).mean()) > 0.95


def hidden_states(rng, n=40):
    """Nodes labeled 0 or 1; label 1 has two forms, far apart on both sides of label 0: no linear model tells it."""
    graphs, labels = [], []
    for _ in range(n):
        y = rng.integers(2, size=6)
        x = np.where(y == 0, 0.0, 3.0 * rng.choice([-1, 1])) + 0.3 * rng.normal(size=6)
        graphs.append(chain(np.stack([x, np.ones(6)], axis=1)))
        labels.append(y)
    return graphs, labels


@pytest.mark.parametrize("algorithm", ["likelihood", "ssvm"])
def test_several_hidden_states_of_one_label(algorithm):
    graphs, labels = hidden_states(np.random.default_rng(0))
    states = {0: "no", 1: {"left", "right"}}
    y = [[states[k] for k in row] for row in labels]
    crf = GraphCRF(algorithm=algorithm, l2=0.01, random_state=0).fit(graphs, y)
    assert crf.classes_["token"].tolist() == ["left", "no", "right"]
    assert (
        crf.score(graphs, y)
        == np.mean((np.concatenate(crf.predict(graphs)) != "no") == np.concatenate(labels))
        > 0.97
    )
    known = [[None] * 5 + [{"left", "right"}] for _ in graphs]
    assert all(got[-1] != "no" for got in crf.predict(graphs, known=known))


def test_interrupted_fit_keeps_the_best(data, monkeypatch):
    from rulefield.exceptions import InterruptedFitWarning
    from rulefield.learning.graph import likelihood as graph_likelihood

    calls = []
    original = graph_likelihood.evaluate_part

    def stop(*task):
        calls.append(1)
        if len(calls) > 12:
            raise KeyboardInterrupt
        return original(*task)

    monkeypatch.setattr(graph_likelihood, "evaluate_part", stop)
    with pytest.warns(InterruptedFitWarning):
        crf = GraphCRF(l2=0.1).fit(*data)
    monkeypatch.undo()
    assert crf.score(*data) > 0.8


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g, y: GraphCRF(algorithm="magic").fit(g, y), InputError, "algorithm must be one of"),
        (lambda g, y: GraphCRF(l2=-1).fit(g, y), InputError, "l2 must be"),
        (lambda g, y: GraphCRF().fit(g, y[:-1]), InputError, "20 graphs and 19"),
        (lambda g, y: GraphCRF().fit(g, y, g), InputError, "sample_weight must hold one finite number"),
        (lambda g, y: GraphCRF().fit(g, y, {"a": 1}), InputError, "sample_weight must hold one finite number"),
        (lambda g, y: GraphCRF().fit(5, y), InputError, "X must be a list of graphs; got int"),
        (lambda g, y: GraphCRF().fit(g, 5), InputError, "y must be a list with the labels of each graph; got int"),
        (lambda g, y: GraphCRF().fit(g, g), InputError, r"y\[0\] must be the labels of a graph"),
        (lambda g, y: GraphCRF().fit(g, [5] * 20), InputError, r"y\[0\] must be the labels of a graph"),
        (lambda g, y: GraphCRF(max_iter=0).fit(g, y), InputError, "max_iter must be None or a whole number >= 1"),
        (lambda g, y: GraphCRF(l2=0, algorithm="ssvm").fit(g, y), InputError, "l2 must be > 0"),
        (lambda g, y: GraphCRF(rules="no").fit(g, y), InputError, "rules must be None or a rule or a list of rules"),
        (lambda g, y: GraphCRF().fit(g, y).predict(g, known=y[:2]), InputError, "known must hold labels"),
        (lambda g, y: GraphCRF().fit(g, y).decode(g, engine="magic"), InputError, "engine must be one of"),
        (lambda g, y: GraphCRF().fit(g[0], y), InputError, r"write \[graph\]"),
        (lambda g, y: GraphCRF().fit([1], [2]), InputError, "item 0 is int"),
        (lambda g, y: GraphCRF().fit(g, [{"a": ["x"] * 99}] * 20), LabelError, "labels, one for each; got 99"),
        (lambda g, y: GraphCRF().fit(g, [{"c": []}] * 20), LabelError, "'c'"),
        (lambda g, y: GraphCRF().fit(g, [{"a": None}] * 20), LabelError, "no node 'a' has a known label"),
        (lambda g, y: GraphCRF().predict(g), NotFittedError, "not fitted"),
        (
            lambda g, y: GraphCRF().fit(g, y).predict(g, rules=[node("a", 0).is_("xx")]),
            RuleError,
            "mean 'x'",
        ),
        (lambda g, y: GraphCRF().fit(g, y).predict(g, rules=[r.present("x")]), RuleError, "sequences"),
    ],
)
def test_mistakes_are_explained(data, call, error, message):
    with pytest.raises(error, match=message):
        call(*data)


def test_a_chain_of_nodes_is_the_chain_model():
    rng = np.random.default_rng(4)
    lengths = [4, 1, 6, 3, 5]
    matrices = [rng.normal(size=(n, 3)) for n in lengths]
    labels = [[["n", "v"][int(x[0] + 0.5 * rng.normal() > 0)] for x in matrix] for matrix in matrices]
    graphs = [chain(matrix) for matrix in matrices]
    ours = GraphCRF(l2=0.5, tol=1e-12, max_iter=500).fit(graphs, labels)
    peer = ChainCRF(l2=0.5, start_end=False, all_states=True, all_transitions=True, tol=1e-10, max_iter=500)
    sequences = Sequences(np.concatenate(matrices), lengths)
    peer.fit(sequences, labels)
    for got, expected in zip(ours.predict(graphs), peer.predict(sequences)):
        assert got.tolist() == expected
    for got, expected in zip(ours.predict_marginals(graphs), peer.predict_marginals(sequences, output="array")):
        assert_allclose(got["token"], expected, atol=2e-3)
