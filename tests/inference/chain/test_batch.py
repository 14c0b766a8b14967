"""Many chains at once: what the batch proves is what each chain's own decoding gives, and the best of all labelings."""

import numpy as np
import pytest

from rulefield import rules as r
from rulefield.inference.flatten import flatten
from rulefield.inference.sequences.batch import settle
from rulefield.inference.sequences.decode import decode
from rulefield.problem.chain import ChainPotentials, Chains
from rulefield.problem.chain_rules import ChainProblem

LABELS = ["a", "b", "c"]
RULES = [
    [],
    [r.count("a") <= 1, r.before("b", "a").soft(2.0)],
    [r.followed_by("a", "b", level="token").soft(1.0), r.count("c") == r.count("b")],
    [r.at(r.token_equals(","), prev="a", next="b", require=True).soft(1.0), r.count("c") >= 2],
    [r.before("a", "b"), r.before("a", "c"), (r.count("c") <= 2).soft(0.5, per="once")],
]


def decode_batch(problems):
    """Decode chains of as many labels as far as the first levels prove the answer; None for the others."""
    given = [problem.potentials for problem in problems]
    stacks = [p.pairwise_stack for p in given]
    ends = np.cumsum([len(stack) for stack in stacks])
    steps = np.stack([ends - [len(stack) for stack in stacks], ends], axis=1)
    offsets = np.concatenate([[0], np.cumsum([p.n_steps for p in given])])
    chains = Chains(np.concatenate([p.unary for p in given]), np.concatenate(stacks), offsets, steps)
    rules = [flatten(problem.rules, 3) for problem in problems]
    answers = [None] * len(problems)
    for part in settle(chains, rules, np.arange(len(problems))):
        for i, result in part.results().items():
            answers[i] = result
    return answers


@pytest.fixture(scope="module")
def problems() -> list[ChainProblem]:
    """Chains of 1 to 6 tokens; matrices of all, of one chain and of one step; labels forbidden; five sets of rules."""
    rng = np.random.default_rng(0)
    compilers = [r.RuleCompiler(rules, LABELS) for rules in RULES]
    shared = rng.normal(size=(3, 3))
    shared[0, 2] = -np.inf
    made = []
    for i in range(150):
        n = 1 + i % 6
        unary = 2.0 * rng.normal(size=(n, 3))
        unary[rng.random((n, 3)) < 0.1] = -np.inf
        pairwise = (shared, rng.normal(size=(3, 3)), rng.normal(size=(n - 1, 3, 3)))[rng.integers(3)]
        tokens = [",xy"[k] for k in rng.integers(0, 3, n)]
        made.append(ChainProblem(ChainPotentials(unary, pairwise), compilers[i % len(RULES)](tokens)))
    return made


def test_answers_are_those_of_each_chain_alone(problems):
    answers = decode_batch(problems)
    assert sum(answer is not None for answer in answers) > len(problems) // 2
    for problem, answer in zip(problems, answers):
        if answer is None:
            continue
        alone = decode(problem)
        assert answer.labels.tolist() == alone.labels.tolist()
        hidden = {"labels": 0, "multipliers": 0}  # arrays; multipliers are where a search ended, which may differ
        assert vars(answer) | hidden == vars(alone) | hidden
        assert answer.objective == pytest.approx(decode(problem, "enumerate").objective, abs=1e-9)


def test_what_is_infeasible_or_has_no_token_is_left_open(problems):
    empty = ChainProblem(ChainPotentials(np.zeros((0, 3)), np.zeros((3, 3))), ())
    impossible = ChainProblem(
        ChainPotentials(np.zeros((2, 3)), np.zeros((3, 3))), r.compile_rules([r.count("a") >= 3], LABELS, None, 2)
    )
    wrong = ChainProblem(ChainPotentials(np.full((2, 3), np.nan), np.zeros((3, 3))), ())
    answers = decode_batch([empty, impossible, problems[0], wrong])
    assert [answer is None for answer in answers] == [True, True, False, True]
