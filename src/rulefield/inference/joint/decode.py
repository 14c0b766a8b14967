"""Decoding joint chains under rules: the factored maximum first, and a small exact problem only where rules are broken.

The best labelling without rules is best with them where it breaks none. Elsewhere rules that are sums over single tokens
go into the scores, and the maximum is taken again. What is still broken is decided among few joint states: no labelling
that passes a state is worth more than the best score through it (its max-marginal), so all labellings worth at least a
floor live in the states whose max-marginals reach it. The chain's engines solve that small chain exactly; where their
optimum reaches the floor it is the optimum of all, and where not the floor is lowered.
"""

from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np

from rulefield.inference.chain.auto import NODE_LIMIT
from rulefield.inference.chain.decode import decode
from rulefield.inference.joint.amounts import joint_amounts
from rulefield.inference.joint.exact import joint_viterbi
from rulefield.inference.joint.folding import about_tokens, token_costs
from rulefield.inference.joint.windows import Windows
from rulefield.inference.result import BrokenRule, Result, Status
from rulefield.problem.chain_rules import CompiledRule
from rulefield.problem.joint import JointProblem


def decode_joint(
    problem: JointProblem, engine: str = "auto", node_limit: int = NODE_LIMIT, seconds: float | None = None
) -> list[Result]:
    """Best joint states of every chain under its rules, each with a certificate.

    Parameters
    ----------
    problem : JointProblem
    engine : str
        ``auto``, or an engine of chains, which then runs on the dense product of all label sets.
    node_limit, seconds : limits of each search, as in :func:`rulefield.inference.chain.decode.decode`

    Returns
    -------
    list of Result
        ``labels`` are joint states; ``engine`` is ``viterbi`` where the factored maximum, with rules about single tokens
        inside, settled it.
    """
    n_chains = len(problem.potentials.offsets) - 1
    if engine != "auto":
        return [decode(problem.over(i), engine, node_limit, seconds) for i in range(n_chains)]
    states, scores = joint_viterbi(problem.potentials)
    amounts = joint_amounts(problem, states)
    broken = amounts.sum(axis=1) > 0
    results = []
    for i, score in enumerate(scores.tolist()):
        own = states[int(problem.potentials.offsets[i]) : int(problem.potentials.offsets[i + 1])]
        if score == -np.inf:
            results.append(_nothing(-np.inf, 1))
        elif not broken[i]:
            results.append(Result(own, score, score, score, Status.optimal, "viterbi", 1))
        elif not len(own):
            results.append(decode(problem.over(i)))
        else:
            search = Search(problem, i, node_limit, seconds)
            results.append(search.run(own, amounts[i]))
    return results


def _nothing(bound: float, steps: int) -> Result:
    status = Status.infeasible if bound == -np.inf else Status.bounded
    return Result(np.zeros(0, np.int64), -np.inf, -np.inf, bound, status, "auto", steps)


@dataclass
class Search:
    """What is known of one chain so far.

    Parameters
    ----------
    psi : ndarray, shape (n, S)
        Scores of joint states with the rules of ``inside`` taken off.
    labels, best
        The best labelling so far and its objective; ``-inf`` while none that obeys the hard rules is known.
    """

    problem: JointProblem
    chain: int
    node_limit: int
    seconds: float | None
    psi: np.ndarray = field(init=False)
    labels: np.ndarray = field(init=False)
    best: float = -np.inf
    inside: set[int] = field(default_factory=set)
    steps: int = 1

    def __post_init__(self) -> None:
        self.psi = self.problem.potentials.scores(self.chain)
        self.labels = np.zeros(0, np.int64)
        self._begun = monotonic()

    def run(self, states: np.ndarray, amounts: np.ndarray) -> Result:
        """Decode, given the best states without rules and the amounts by which they break the rules."""
        top = self._fold(states, amounts)
        if top is not None:
            return self._result(top, "viterbi") if top > -np.inf else _nothing(top, self.steps)
        return self._search()

    @property
    def rules(self) -> tuple[CompiledRule, ...]:
        """The rules of the chain."""
        return self.problem.rules[self.chain]

    def _fold(self, states: np.ndarray, amounts: np.ndarray) -> float | None:
        """Take rules about single tokens into the scores as they are broken; the optimum, where that settles it."""
        while True:
            self._take(states, amounts)
            broken = [r for r in np.flatnonzero(amounts).tolist() if r not in self.inside]
            fresh = [r for r in broken if about_tokens(self.rules[r])]
            if not broken:
                return self.best
            if not fresh:
                return None
            self.psi = self.psi - sum(token_costs(self.problem, self.rules[r]) for r in fresh)
            self.inside.update(fresh)
            states, scores = joint_viterbi(self.problem.potentials.alone(self.chain, self.psi))
            self.steps += 1
            if scores[0] == -np.inf:
                return -np.inf
            amounts = self._amounts(states)

    def _amounts(self, states: np.ndarray) -> np.ndarray:
        alone = self.problem.potentials.alone(self.chain, self.psi)
        one = replace(self.problem, potentials=alone, rules=(self.rules,))
        return joint_amounts(one, states)[0]

    def _take(self, states: np.ndarray, amounts: np.ndarray) -> None:
        """Remember a labelling where it is the best so far."""
        objective = self._score(states) - sum(cost for _, _, cost in self._costs(amounts))
        if objective > self.best:
            self.best, self.labels = objective, states

    def _costs(self, amounts: np.ndarray) -> list[tuple[int, float, float]]:
        broken = np.flatnonzero(amounts).tolist()
        paid = [(self.rules[r], float(amounts[r])) for r in broken]
        return [(rule.rule, amount, rule.weight * (1.0 if rule.once else amount)) for rule, amount in paid]

    def _score(self, states: np.ndarray) -> float:
        p = self.problem.potentials
        total = p.scores(self.chain)[np.arange(len(states)), states].sum()
        for labels, T in zip(p.task_labels[:, states], p.transitions):
            total += T[labels[:-1], labels[1:]].sum()
        if len(p.move_from):
            moved = dict(zip(zip(p.move_from.tolist(), p.move_to.tolist()), p.move_score.tolist()))
            total += sum(moved.get(step, 0.0) for step in zip(states[:-1].tolist(), states[1:].tolist()))
        return float(total)

    def _search(self) -> Result:
        """Solve ever larger parts of the chain until one is sure to hold the optimum."""
        left = tuple(rule for r, rule in enumerate(self.rules) if r not in self.inside)
        potentials = self.problem.potentials.alone(self.chain, self.psi)
        windows = Windows(replace(self.problem, potentials=potentials, rules=(left,)))
        while True:
            part = windows.widen(self.best)
            found = decode(part.chain, "auto", self.node_limit, self._seconds_left())
            self.steps += found.iterations
            if len(found.labels):
                labels = part.states[found.labels]
                self._take(labels, self._amounts(labels))
            if found.status is Status.bounded:
                return self._bounded(max(found.upper_bound, part.floor))
            if self.best >= part.floor and self.best > -np.inf:
                return self._result(self.best, found.engine)
            if part.floor == -np.inf:
                return _nothing(-np.inf, self.steps)
            if windows.exhausted:
                return self._bounded(part.floor)

    def _seconds_left(self) -> float | None:
        return None if self.seconds is None else max(0.0, self.seconds - (monotonic() - self._begun))

    def _bounded(self, bound: float) -> Result:
        return self._result(bound, "auto") if len(self.labels) else _nothing(bound, self.steps)

    def _result(self, bound: float, engine: str) -> Result:
        amounts = self._amounts(self.labels)
        broken = tuple(BrokenRule(*cost) for cost in self._costs(amounts))
        score = self._score(self.labels)
        objective = score - sum(b.cost for b in broken)
        status = Status.optimal if bound <= self.best else Status.bounded
        return Result(self.labels, score, objective, max(bound, objective), status, engine, self.steps, broken)
