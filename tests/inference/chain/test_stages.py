"""Every stage of the walk alone, and random subsets of them, against all labelings."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from oracles.compiled import check_word, random_problem
from oracles.segmentations import decode_enumerate as enumerate_segmentations
from oracles.segments import random_segment_problem
from rulefield.inference.sequences import auto, stages
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.enumerate import decode_enumerate
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_duals
from rulefield.inference.sequences.segments.search import SegmentSearch
from rulefield.problem.chain_rules import ChainProblem

PROBLEMS_PER_STEP = 90


def test_there_are_at_most_twelve_stages():
    assert len({step.name for step in auto.WALK}) + 1 <= 12  # the first levels are one


@pytest.mark.parametrize("path", sorted(Path(stages.__file__).parent.glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_every_stage_has_the_same_parts_in_the_same_order(path):
    """What it improves, when it pays, what it is charged, its reference; constants; the stage; what it needs."""
    tree = ast.parse(path.read_text())
    words = re.findall(r"^(Improves|Pays|Charged|Reference): ", ast.get_docstring(tree), re.M)
    assert words == ["Improves", "Pays", "Charged", "Reference"]
    parts = [node for node in tree.body[1:] if not isinstance(node, ast.Import | ast.ImportFrom)]
    kinds = [isinstance(node, ast.FunctionDef | ast.ClassDef) for node in parts]
    assert kinds == sorted(kinds)
    assert parts[kinds.index(True)].name.startswith("run_")
    for node, following in pairwise([*parts, None]):
        assert not isinstance(node, ast.Assign) or isinstance(following, ast.Expr), "a constant without a sentence"


@pytest.mark.parametrize("number", range(len(auto.WALK)), ids=lambda i: f"{i}-{auto.WALK[i].name}")
def test_a_stage_alone_tells_the_truth(number):
    """After one dual pass a stage runs alone: its bound holds, its labeling is worth what is claimed."""
    step, ran = auto.WALK[number], 0
    for seed in range(PROBLEMS_PER_STEP):
        problem = random_problem(np.random.default_rng([number, seed]), 5, 3, 4)
        progress = Progress.start(prepare(problem))
        run_duals(progress, 1)
        if progress.settled:
            continue
        step.run(progress, dual_potentials(progress), progress.nodes + 50_000)
        check_word(problem, progress.result(step.name, progress.nodes), decode_enumerate(problem))
        ran += 1
    assert ran > PROBLEMS_PER_STEP // 5


@pytest.mark.parametrize("seed", range(40))
def test_random_subsets_of_stages_tell_the_truth(monkeypatch, seed):
    """The walk with some of its steps, in any order, after a single dual pass and no search over paths."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(auto.WALK))[: rng.integers(1, 6)]
    monkeypatch.setattr(auto, "WALK", tuple(auto.WALK[i] for i in chosen))
    monkeypatch.setattr(auto, "DUAL_ITERATIONS", 1)
    monkeypatch.setattr(auto, "PATH_NODES", 0)
    for _ in range(10):
        problem = random_problem(rng, 5, 3, 4)
        check_word(
            problem, decode(problem, node_limit=int(rng.choice([100, 10_000, 6_000_000]))), decode_enumerate(problem)
        )


def segment_steps(step, problem):
    """Answer of one stage to a segment problem, as a chain over the lattice of all segmentations; None if it is not asked."""
    search = SegmentSearch(problem)
    window = None if search.settled else search.window(-np.inf, 10**6)
    if window is None or not len(window.stands):
        return None
    rules = [search.rule_of(r, window.stands) for r in range(len(problem.rules))]
    progress = Progress.start(prepare(ChainProblem(window.chain, tuple(rule for rule in rules if rule is not None))))
    run_duals(progress, 1)
    step.run(progress, dual_potentials(progress), progress.nodes + 50_000)
    if progress.best > -np.inf:
        search.offer(window.stands[progress.labels])
    search.conclude(progress.objective_bound)
    search.engine = step.name
    return search.result()


@pytest.mark.parametrize("number", range(len(auto.WALK)), ids=lambda i: f"{i}-{auto.WALK[i].name}")
def test_a_stage_alone_tells_the_truth_of_segmentations(number):
    ran = 0
    for seed in range(25):
        problem = random_segment_problem(np.random.default_rng([number, seed]), 4, 3, 4)
        found = segment_steps(auto.WALK[number], problem)
        if found is not None:
            ran += 1
            exact = enumerate_segmentations(problem)
            assert found.upper_bound >= exact.objective - 1e-6
            assert found.objective <= exact.objective + 1e-6
            assert found.status != "infeasible" or exact.status == "infeasible"
            assert found.status != "optimal" or found.objective >= exact.objective - 1e-6
    assert ran > 3
