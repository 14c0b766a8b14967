"""Graph learners: values and gradients against enumeration and finite differences, the dual gap, latent labels."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad
from scipy.special import logsumexp

from oracles.graph_makers import flat_labels, random_graphs, random_labels
from rulefield.data.graphs import TypedGraph
from rulefield.encode.graph_builders import chain
from rulefield.inference.graph.fields import ExactField, GivenField
from rulefield.inference.graph.reweighted import ReweightedField, edge_appearance
from rulefield.learning.graph.fit import GraphTraining, fit_graph_model
from rulefield.learning.graph.likelihood import GraphLikelihood
from rulefield.learning.graph.oracle import MapOracle
from rulefield.learning.graph.shards import make_shards
from rulefield.learning.graph.ssvm import StructuredSVM
from rulefield.models.graph import GraphModel, GraphSpec

COUNTS = {"a": 3, "b": 2}
MODEL = GraphModel(GraphSpec(COUNTS, {"a": 4, "b": 2}, {("a", "a"): 3, ("a", "b"): 1, ("b", "b"): 2}))
CHAIN = GraphModel(GraphSpec({"token": 3}, {"token": 2}, {("token", "token"): 1}))


def gradient_error(objective, theta):
    return check_grad(
        lambda t: objective.value_and_gradient(t)[0], lambda t: objective.value_and_gradient(t)[1], theta
    )


def tighten(field):
    """Let the messages of a field, and of the fields inside it, settle to the last digit."""
    field.tolerance = 1e-12
    if isinstance(field, GivenField):
        tighten(field.inner)


def all_labelings(n_labels):
    return np.array(list(itertools.product(*[range(k) for k in n_labels])))


def loopy(seed=0, n=4, unknown=False, **options):
    rng = np.random.default_rng(seed)
    graphs = random_graphs(rng, n)
    labels = [flat_labels(random_labels(rng, g, COUNTS)) for g in graphs]
    if unknown:
        for y in labels:
            y[rng.random(len(y)) < 0.4] = -1
    return rng, graphs, labels, make_shards(graphs, labels, COUNTS, n_shards=2, **options)


def chains(seed=0, unknown=False, **options):
    rng = np.random.default_rng(seed)
    graphs = [chain(rng.normal(size=(n, 2))) for n in (1, 3, 5)]
    labels = [rng.integers(3, size=n) for n in (1, 3, 5)]
    if unknown:
        labels[1][1] = labels[2][3] = -1
    return rng, graphs, labels, make_shards(graphs, labels, {"token": 3}, n_shards=2, **options)


@pytest.fixture
def sweeps_only(monkeypatch):
    """Let no graph be summed exactly but forests."""
    monkeypatch.setattr("rulefield.inference.graph.fields.MOST_EXACT_ENTRIES", 1)


def fields_of(objective):
    return [field for part in objective.parts for field in (part.free, part.clamped) if field is not None]


def exact_likelihood(model, theta, shards, weight=None):
    total = 0.0
    for shard in shards:
        union = model.potentials(theta, shard.batch)
        for g in range(shard.batch.n_graphs):
            p = shard.batch.potentials_of(union, g)
            y = shard.labels[shard.batch.node_pointer[g] : shard.batch.node_pointer[g + 1]]
            every = all_labelings(p.n_labels)
            scores = np.array([p.score(row) for row in every])
            fits = ((every == y) | (y == -1)).all(axis=1)
            total += shard.graph_weight[g] * (logsumexp(scores) - logsumexp(scores[fits]))
    return total


@pytest.mark.parametrize("unknown", [False, True])
def test_likelihood_is_exact_on_forests(unknown):
    rng, *_, shards = chains(unknown=unknown, graph_weight=np.array([1.0, 2.0, 0.5]))
    objective = GraphLikelihood(CHAIN, shards)
    for field in fields_of(objective):
        tighten(field)
    theta = rng.normal(size=CHAIN.n_parameters)
    value, _ = objective.value_and_gradient(theta)
    assert_allclose(value, exact_likelihood(CHAIN, theta, shards), rtol=1e-9)
    assert gradient_error(objective, theta) < 1e-5


def test_labels_known_to_be_one_of_a_set_are_summed_over():
    rng, graphs, labels, _ = chains(unknown=True)
    allowed = [np.ones((len(y), 3), dtype=bool) for y in labels]
    for y, mask in zip(labels, allowed):
        mask[y >= 0] = np.eye(3, dtype=bool)[y[y >= 0]]
    allowed[1][1] = [True, False, True]
    shards = make_shards(graphs, labels, {"token": 3}, n_shards=2, allowed=[mask.ravel() for mask in allowed])
    objective = GraphLikelihood(CHAIN, shards)
    theta = rng.normal(size=CHAIN.n_parameters)
    expected = 0.0
    for shard in shards:
        union = CHAIN.potentials(theta, shard.batch)
        for g, member in enumerate(shard.members):
            p = shard.batch.potentials_of(union, g)
            every = all_labelings(p.n_labels)
            scores = np.array([p.score(row) for row in every])
            fits = allowed[member][np.arange(p.n_nodes), every].all(axis=1)
            expected += logsumexp(scores) - logsumexp(scores[fits])
    assert_allclose(objective.value_and_gradient(theta)[0], expected, rtol=1e-4)
    assert shards[-1].hamming().reshape(-1, 3)[(shards[-1].allowed.reshape(-1, 3))].max() == 0.0
    filled = shards[-1].filled(np.zeros_like(shards[-1].labels))
    assert filled.complete
    assert (filled.hamming() > 0).sum() == (~shards[-1].allowed).sum()


@pytest.mark.usefixtures("sweeps_only")
def test_reweighted_value_bounds_the_log_partition_and_its_gradient_is_right():
    rng, *_, shards = loopy()
    objective = GraphLikelihood(MODEL, shards)
    for field in fields_of(objective):
        field.tolerance, field.n_sweeps = 1e-13, 2000
    theta = rng.normal(size=MODEL.n_parameters)
    value, _ = objective.value_and_gradient(theta)
    assert value > exact_likelihood(MODEL, theta, shards) - 1e-8
    assert gradient_error(objective, theta) < 1e-4


@pytest.mark.usefixtures("sweeps_only")
def test_the_bound_is_tight_without_edge_scores():
    rng, *_, shards = loopy()
    theta = rng.normal(size=MODEL.n_parameters)
    theta[3 * 4 + 2 * 2 :] = 0.0
    value, _ = GraphLikelihood(MODEL, shards).value_and_gradient(theta)
    assert_allclose(value, exact_likelihood(MODEL, theta, shards), rtol=1e-9)


def test_marginals_of_a_chain_are_exact():
    rng, *_, shards = chains()
    shard = shards[-1]
    scores = CHAIN.potentials(rng.normal(size=CHAIN.n_parameters), shard.batch)
    _, node, edge, _ = ReweightedField(shard.batch, 100, 1e-12).marginals(scores.unary, scores.pairwise)
    p = shard.batch.potentials_of(scores, shard.batch.n_graphs - 1)
    every = all_labelings(p.n_labels)
    weight = np.exp([p.score(row) for row in every])
    weight /= weight.sum()
    expected = np.array([[weight[every[:, v] == k].sum() for k in range(3)] for v in range(5)])
    assert_allclose(node[-15:].reshape(5, 3), expected, atol=1e-9)
    both = np.array([[weight[(every[:, 3] == a) & (every[:, 4] == b)].sum() for b in range(3)] for a in range(3)])
    assert_allclose(edge[-9:].reshape(3, 3), both, atol=1e-9)


FANS = {"leaf": 2, "hub": 3}
FAN = GraphModel(GraphSpec(FANS, {"leaf": 2, "hub": 1}, {("leaf", "leaf"): 1, ("leaf", "hub"): 1}))


def fan(rng, n):
    """A path whose nodes are all joined to one hub: a forest when the hub's label is known."""
    path = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    spokes = np.stack([np.arange(n), np.zeros(n, int)], axis=1)
    nodes = {"leaf": rng.normal(size=(n, 2)), "hub": rng.normal(size=(1, 1))}
    return TypedGraph(nodes, {("leaf", "leaf"): path, ("leaf", "hub"): (spokes, rng.normal(size=(n, 1)))})


@pytest.mark.parametrize("unknown", [False, True])
def test_likelihood_is_exact_where_only_hubs_make_loops(unknown):
    rng = np.random.default_rng(0)
    graphs = [fan(rng, n) for n in (11, 12, 3, 11)]  # the third has no hub
    labels = [np.concatenate([[rng.integers(3)], rng.integers(2, size=len(g.nodes["leaf"]))]) for g in graphs]
    if unknown:
        labels[0][0] = labels[1][4] = labels[3][0] = labels[3][2] = -1
    shards = make_shards(graphs, labels, FANS, n_shards=2, graph_weight=np.array([1.0, 2.0, 0.0, 0.5]))
    objective = GraphLikelihood(FAN, shards)
    fields = fields_of(objective)
    assert any(isinstance(field, ExactField) for field in fields)
    assert any(isinstance(field, GivenField) for field in fields) == unknown
    for field in fields:
        tighten(field)
    theta = rng.normal(size=FAN.n_parameters)
    assert_allclose(objective.value_and_gradient(theta)[0], exact_likelihood(FAN, theta, shards), rtol=1e-9)
    assert gradient_error(objective, theta) < 1e-5


LAYERS = {"a": 2, "b": 3}
LADDER = GraphModel(GraphSpec(LAYERS, {"a": 2, "b": 2}, {("a", "a"): 1, ("b", "b"): 1, ("a", "b"): 1}))


def ladder(features):
    """Two layers over one sequence: a chain in each, and rungs between them."""
    first = np.arange(len(features) - 1)
    steps = np.stack([first, first + 1], axis=1)
    rungs = np.repeat(np.arange(len(features))[:, None], 2, axis=1)
    edges = {("a", "a"): steps, ("b", "b"): steps, ("a", "b"): rungs}
    return TypedGraph({"a": features, "b": features}, edges)


def turned_ladder(rng, n):
    """A ladder of two chains in which some of the edges of one go backwards, the last thing being in one layer only."""
    graph = ladder(rng.normal(size=(n, 2)))
    edges = {key: pairs for key, (pairs, _) in graph.edges.items()}
    turn = rng.random(n - 1) < 0.5
    edges["b", "b"] = np.where(turn[:, None], edges["b", "b"][:, ::-1], edges["b", "b"])
    edges["a", "b"] = edges["a", "b"][:-1]
    return TypedGraph(graph.nodes, {key: (pairs, rng.normal(size=(len(pairs), 1))) for key, pairs in edges.items()})


@pytest.mark.parametrize("unknown", [False, True])
def test_likelihood_is_exact_on_ladders_of_two_chains(unknown):
    rng = np.random.default_rng(0)
    sizes = (4, 2, 5)
    graphs = [turned_ladder(rng, n) for n in sizes]
    labels = [np.concatenate([rng.integers(2, size=n), rng.integers(3, size=n)]) for n in sizes]
    if unknown:
        labels[0][[0, 1, 4, 5, 7]] = labels[2][[2, 8]] = -1
    shards = make_shards(graphs, labels, LAYERS, n_shards=2, graph_weight=np.array([1.0, 2.0, 0.5]))
    objective = GraphLikelihood(LADDER, shards)
    assert any(isinstance(field, ExactField) for field in fields_of(objective))
    assert objective.precision == 0.0
    for field in fields_of(objective):
        tighten(field)
    theta = rng.normal(size=LADDER.n_parameters)
    assert_allclose(objective.value_and_gradient(theta)[0], exact_likelihood(LADDER, theta, shards), rtol=1e-9)
    assert gradient_error(objective, theta) < 1e-5


def test_the_likelihood_of_graphs_with_hubs_is_never_negative():
    rng = np.random.default_rng(1)
    graphs = [fan(rng, 40) for _ in range(4)]
    labels = [np.concatenate([[rng.integers(3)], rng.integers(2, size=40)]) for _ in graphs]
    shards = make_shards(graphs, labels, FANS)
    value, _ = GraphLikelihood(FAN, shards).value_and_gradient(5.0 * rng.normal(size=FAN.n_parameters))
    assert value > 0.0


@pytest.mark.parametrize("seed", [0, 1])
def test_the_bound_is_above_every_labeling_where_messages_would_go_in_circles(seed):
    rng = np.random.default_rng(seed)
    n, hubs = 30, np.arange(30, 34)
    edges = np.concatenate([[(leaf, hub) for leaf in range(n) for hub in hubs], [(v, v + 1) for v in range(n - 1)]])
    graph = TypedGraph({"a": np.ones((34, 1))}, {("a", "a"): edges})
    (shard,) = make_shards([graph], [np.zeros(34, int)], {"a": 3})
    unary = rng.normal(size=(34, 3))
    table = rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=(len(edges), 3, 3))
    (value,), *_ = ReweightedField(shard.batch).marginals(unary.ravel(), table.ravel())
    for y in rng.integers(3, size=(5, 34)):
        for v in np.tile(np.arange(34), 5):  # climb: each node takes its best label, given the others
            gains = unary[v] + table[edges[:, 0] == v, :, y[edges[edges[:, 0] == v, 1]]].sum(axis=0)
            y[v] = np.argmax(gains + table[edges[:, 1] == v, y[edges[edges[:, 1] == v, 0]]].sum(axis=0))
        score = unary[np.arange(34), y].sum() + table[np.arange(len(edges)), y[edges[:, 0]], y[edges[:, 1]]].sum()
        assert value > score


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_threads_do_not_change_anything(n_jobs):
    rng, *_, shards = loopy(n=6)
    theta = rng.normal(size=MODEL.n_parameters)
    one = GraphLikelihood(MODEL, shards).value_and_gradient(theta)
    many = GraphLikelihood(MODEL, shards, n_jobs=n_jobs).value_and_gradient(theta)
    assert one[0] == many[0]
    assert (one[1] == many[1]).all()


def hinge(model, theta, shards, l2):
    """The structured SVM's objective by enumeration."""
    total = 0.5 * l2 * theta @ theta
    for shard in shards:
        union = model.potentials(theta, shard.batch)
        for g in range(shard.batch.n_graphs):
            p = shard.batch.potentials_of(union, g)
            cut = slice(shard.batch.node_pointer[g], shard.batch.node_pointer[g + 1])
            y = shard.labels[cut]
            worst = max(p.score(row) + (row != y).sum() for row in all_labelings(p.n_labels))
            total += shard.graph_weight[g] * (worst - p.score(y))
    return total


@pytest.mark.usefixtures("sweeps_only")
def test_the_same_weights_have_the_same_value_whatever_was_asked_before():
    _, _, _, shards = loopy(n=6)
    f, rng = GraphLikelihood(MODEL, shards, 0.1), np.random.default_rng(0)
    here, there = rng.normal(size=(2, MODEL.n_parameters))
    first = f.value_and_gradient(here)
    f.value_and_gradient(there)
    again = f.value_and_gradient(here)
    assert first[0] == again[0]
    assert np.array_equal(first[1], again[1])


@pytest.mark.parametrize("unknown", [False, True])
def test_likelihood_of_small_binary_graphs_with_loops_is_exact(unknown):
    rng = np.random.default_rng(3)
    counts = {"token": 2}
    model = GraphModel(GraphSpec(counts, {"token": 2}, {("token", "token"): 2}))
    graphs, labels = [], []
    for n in (1, 3, 5):
        pairs = np.array(list(itertools.permutations(range(n), 2))).reshape(-1, 2)[::2]
        edges = {("token", "token"): (pairs, rng.normal(size=(len(pairs), 2)))}
        graphs.append(TypedGraph({"token": rng.normal(size=(n, 2))}, edges))
        labels.append(rng.integers(2, size=n))
    if unknown:
        labels[1][0] = labels[2][3] = -1
    shards = make_shards(graphs, labels, counts, n_shards=1)
    objective = GraphLikelihood(model, shards)
    theta = rng.normal(size=model.n_parameters)
    assert_allclose(objective.value_and_gradient(theta)[0], exact_likelihood(model, theta, shards), rtol=1e-10)
    assert gradient_error(objective, theta) < 1e-5


@pytest.mark.usefixtures("sweeps_only")
def test_settled_messages_save_sweeps_and_change_no_answer_beyond_their_tolerance():
    rng, *_, shards = loopy()
    objective = GraphLikelihood(MODEL, shards)
    theta = rng.normal(size=MODEL.n_parameters)
    value, gradient = objective.value_and_gradient(theta)
    objective.settle()
    again, turned = objective.value_and_gradient(theta)
    assert objective.value_and_gradient(theta)[0] == again
    assert_allclose(again, value, atol=1e-3)
    assert_allclose(turned, gradient, atol=1e-2)
    for field in fields_of(objective):
        field.n_sweeps = 1
    warm = abs(objective.value_and_gradient(theta)[0] - value)
    cold = GraphLikelihood(MODEL, shards)
    for field in fields_of(cold):
        field.n_sweeps = 1
    assert abs(cold.value_and_gradient(theta)[0] - value) > 10 * warm


@pytest.mark.usefixtures("sweeps_only")
def test_messages_survive_scores_of_hundreds():
    rng, *_, shards = loopy()
    theta = 100.0 * rng.normal(size=MODEL.n_parameters)
    value, gradient = GraphLikelihood(MODEL, shards).value_and_gradient(theta)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_ssvm_reaches_the_optimum_that_its_gap_claims():
    weight = np.array([1.0, 2.0, 0.5, 1.0])
    _, _, _, shards = loopy(graph_weight=weight)
    learned = StructuredSVM(MODEL, shards, 0.5, MapOracle()).fit(200, 1e-4)
    assert learned.converged
    primal = hinge(MODEL, learned.theta, shards, 0.5)
    assert_allclose(primal + learned.objective, 0.0, atol=2e-4 * primal)
    rng = np.random.default_rng(1)
    for scale in (1e-1, 1e-2, 1e-3):
        nearby = learned.theta + scale * rng.normal(size=len(learned.theta))
        assert hinge(MODEL, nearby, shards, 0.5) >= -learned.objective - 1e-9


def test_the_dual_never_falls():
    _, _, _, shards = loopy(n=6)
    log = StructuredSVM(MODEL, shards, 0.1, MapOracle()).fit(30, 1e-6).log
    assert np.diff([record.objective for record in log]).max(initial=0.0) < 1e-9


@pytest.mark.parametrize("algorithm", ["likelihood", "ssvm"])
@pytest.mark.parametrize("unknown", [False, True])
def test_every_learner_improves_on_zero_weights(algorithm, unknown):
    rng = np.random.default_rng(3)
    graphs = [chain(rng.normal(size=(6, 2))) for _ in range(12)]
    labels = [(g.nodes["token"][:, 0] > 0).astype(np.int64) + (g.nodes["token"][:, 1] > 1) for g in graphs]
    truth = np.concatenate(labels)
    if unknown:
        labels = [np.where(rng.random(6) < 0.3, -1, y) for y in labels]
    shards = make_shards(graphs, labels, {"token": 3})
    start = 0.01 * rng.normal(size=CHAIN.n_parameters) if unknown else np.zeros(CHAIN.n_parameters)
    learned = fit_graph_model(CHAIN, shards, GraphTraining(algorithm, 0.1, 30, 1e-4), start)
    complete = make_shards(graphs, np.split(truth, 12), {"token": 3}, n_shards=1)[0]
    scores = CHAIN.potentials(learned.theta, complete.batch)
    guess, _ = MapOracle()(complete, scores.unary, scores.pairwise)
    assert (guess == truth).mean() > 0.75


def test_appearance_is_in_the_spanning_tree_polytope():
    edges = np.array([[i, j] for i in range(5) for j in range(i + 1, 5)])
    rho = edge_appearance(5, edges)
    assert_allclose(rho.sum(), 4.0)
    assert (rho > 0).all()
    for size in (2, 3, 4):
        for nodes in itertools.combinations(range(5), size):
            inside = np.isin(edges, nodes).all(axis=1)
            assert rho[inside].sum() <= size - 1 + 1e-9
    assert (edge_appearance(4, np.array([[0, 1], [3, 2]])) == 1.0).all()
