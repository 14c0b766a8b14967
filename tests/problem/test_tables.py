"""Tables over any number of nodes: what they mean, by enumeration, and what is refused; the files that hold them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from oracles.graphs import all_labelings, penalties, random_logic, random_potentials, scores_of
from rulefield.datasets import read_uai, read_wcsp
from rulefield.exceptions import InputError
from rulefield.inference.graph.conflict import relax_graph
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.marginals import exact_sums
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.tables import TableFactors


def random_tables(rng, sizes, scale=1.0):
    tables = []
    for _ in range(int(rng.integers(1, 4))):
        nodes = rng.permutation(len(sizes))[: int(rng.integers(min(4, len(sizes)) + 1))].tolist()
        every = list(product(*(range(sizes[v]) for v in nodes)))
        rows = [row for row in every if rng.random() < 0.6]
        scores = scale * rng.normal(size=len(rows))
        scores[rng.random(len(rows)) < 0.2] = -np.inf
        default = -np.inf if rng.random() < 0.5 else float(rng.normal())
        tables.append((nodes, np.array(rows, np.int64).reshape(len(rows), len(nodes)), scores, default))
    return tables


def meaning(tables, labels) -> float:
    total = 0.0
    for nodes, rows, scores, default in tables:
        listed = {tuple(row): score for row, score in zip(rows.tolist(), scores)}
        total += listed.get(tuple(int(labels[v]) for v in nodes), default)
    return total


def test_the_best_labeling_under_tables_is_that_of_enumeration():
    rng = np.random.default_rng(0)
    infeasible = 0
    for _ in range(60):
        sizes = rng.integers(1, 4, size=int(rng.integers(2, 5)))
        edges = np.array([[0, 1]])
        potentials = GraphPotentials(
            sizes, rng.normal(size=sizes.sum()), edges, rng.normal(size=int(sizes[0] * sizes[1]))
        )
        tables = random_tables(rng, sizes)
        problem = GraphProblem(potentials, tables=TableFactors.of(sizes, tables))
        every = [np.array(y) for y in product(*map(range, sizes))]
        values = [potentials.score(y) + meaning(tables, y) for y in every]
        result = decode_graph(problem)
        if max(values) == -np.inf:
            infeasible += 1
            assert result.status.name == "infeasible"
            continue
        assert result.status.name == "optimal"
        assert result.objective == pytest.approx(max(values))
        assert potentials.score(result.labels) + meaning(tables, result.labels) == pytest.approx(max(values))
        assert problem.tables.table_score(sizes, result.labels) == pytest.approx(meaning(tables, result.labels))
    assert infeasible


def test_tables_count_where_hard_rules_clash_and_in_sums():
    """Relaxed answers break least whatever tables say, then score best; sums are over scores of tables too."""
    rng = np.random.default_rng(1)
    clashes = 0
    for _ in range(80):
        plain = random_potentials(rng, 4, forbidden=0.05)
        tables = random_tables(rng, plain.n_labels, scale=20.0)
        logic = random_logic(rng, plain, 5, soft=0.3)
        problem = GraphProblem(plain, logic, tables=TableFactors.of(plain.n_labels, tables))
        labels = all_labelings(plain.n_labels)
        scores = np.array([meaning(tables, y) for y in labels]) + scores_of(plain, labels)
        hard = np.isinf(logic.weight)
        amount = penalties(GraphProblem(plain, replace(logic, weight=np.where(hard, 1.0, 0.0))), labels)
        values = scores - penalties(
            GraphProblem(plain, replace(logic, weight=np.where(hard, 0.0, logic.weight))), labels
        )
        allowed = values[(amount == 0) & (scores > -np.inf)]
        assert exact_sums(problem).log_partition == pytest.approx(
            logsumexp(allowed) if len(allowed) else -np.inf, abs=1e-9
        )
        if len(allowed) or scores.max() == -np.inf:
            continue
        clashes += 1
        found, least = relax_graph(problem), amount[scores > -np.inf].min()
        assert found.status.name == "optimal"
        assert sum(b.amount for b in found.broken if b.cost == np.inf) == least
        assert found.objective == pytest.approx(values[amount == least].max())
    assert clashes > 15


@pytest.mark.parametrize(
    ("nodes", "rows", "words"),
    [([0, 0], [[0, 0]], "twice"), ([0, 1], [[0, 5]], "does not have"), ([0, 1], [[0, 0], [0, 0]], "twice")],
)
def test_tables_that_cannot_be_are_refused(nodes, rows, words):
    with pytest.raises(InputError, match=words):
        TableFactors.of(np.array([2, 2]), [(nodes, np.array(rows), np.zeros(len(rows)), 0.0)])


def test_a_table_that_would_fill_the_memory_is_refused(tmp_path):
    (tmp_path / "a").write_text(WCSP.replace("2 2 3", "2 2 3333"))
    with pytest.raises(InputError, match="13,332 combinations"):
        decode_graph(read_wcsp(tmp_path / "a"))


def test_a_table_names_nodes_of_the_graph():
    potentials = GraphPotentials(np.array([2]), np.zeros(2), np.zeros((0, 2), np.int64), np.zeros(0))
    tables = TableFactors.of(np.array([2, 2]), [([1], np.array([[0]]), np.zeros(1), 0.0)])
    with pytest.raises(InputError, match="0 to 0"):
        GraphProblem(potentials, tables=tables)


UAI = "MARKOV\n3\n2 2 3\n2\n2 0 1\n3 0 1 2\n4\n1 2 0 4\n12\n1 1 1 1 1 1 1 1 1 1 1 8\n"
WCSP = "tiny 3 3 2 100\n2 2 3\n2 0 1 0 2\n0 0 5\n1 1 100\n3 0 1 2 7 2\n0 1 2 0\n1 0 0 1\n"


def test_uai_files(tmp_path):
    (tmp_path / "a.uai").write_text(UAI)
    result = decode_graph(read_uai(tmp_path / "a.uai"))
    assert result.labels.tolist() == [1, 1, 2]
    assert result.objective == pytest.approx(np.log(4 * 8))


def test_wcsp_files(tmp_path):
    (tmp_path / "a.wcsp").write_text(WCSP)
    result = decode_graph(read_wcsp(tmp_path / "a.wcsp"))
    assert result.labels.tolist() == [0, 1, 2]
    assert result.objective == pytest.approx(0.0)


def test_a_table_of_no_node_is_a_constant(tmp_path):
    (tmp_path / "a.wcsp").write_text(WCSP.replace("tiny 3 3 2", "tiny 3 3 3") + "0 4 0\n")
    assert decode_graph(read_wcsp(tmp_path / "a.wcsp")).objective == pytest.approx(-4.0)
    (tmp_path / "b.wcsp").write_text(WCSP.replace("tiny 3 3 2", "tiny 3 3 3") + "0 100 0\n")
    assert decode_graph(read_wcsp(tmp_path / "b.wcsp")).status.name == "infeasible"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (UAI.replace("2 2 3", "2 2 999999999"), "to 1e.06"),
        (UAI.replace("2 2 3", "2 2 " + "9" * 40), "to 1e.06"),
        (UAI.replace(" 8", " nan"), "'nan'"),
        (UAI.replace(" 8", " inf"), "'inf'"),
        (WCSP.replace("0 0 5", "0 0 nan"), "'nan'"),
        (WCSP.replace("0 1 0 2", "0 1 0 99999999999"), "to 5e.07"),
        (WCSP.replace("2 2 3", "2 2 " + "9" * 5000), "whole number"),
        (WCSP.replace("2 2 3", "9000 9000 3"), "81,000,000 entries"),
    ],
)
def test_numbers_that_no_problem_has_are_refused(tmp_path, text, told):
    (tmp_path / "a").write_text(text)
    with pytest.raises(InputError, match=told):
        (read_uai if text.startswith("MARKOV") else read_wcsp)(tmp_path / "a")


@pytest.mark.parametrize("cut", range(1, 24, 3))
@pytest.mark.parametrize(("text", "read"), [(UAI, read_uai), (WCSP, read_wcsp)])
def test_damaged_files_are_named(tmp_path, text, read, cut):
    path = tmp_path / "damaged"
    path.write_text(" ".join(text.split()[:-cut]))
    with pytest.raises(InputError, match="damaged"):
        read(path)
    path.write_text(text.replace("2 0 1", "2 0 x", 1))
    with pytest.raises(InputError, match="'x'"):
        read(path)
