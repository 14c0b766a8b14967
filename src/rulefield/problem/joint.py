"""Potentials of several label sequences over the same tokens, kept apart by task."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule


@dataclass(frozen=True)
class JointPotentials:
    r"""Log-scores of chains whose state is one label per task: s = (y^1, ..., y^K), the last task fastest.

    A joint labeling scores :math:`\sum_t \psi_t(s_t) + \sum_{t>0} [\sum_k T_k(y^k_{t-1}, y^k_t) + w(s_{t-1}, s_t)]`,
    where w is 0 but for the listed moves.

    Parameters
    ----------
    sizes : tuple of int
        Labels of each task; S is their product.
    psi : ndarray of float64, shape (n_tokens, S)
        Scores of joint states at every token of all chains, starts and ends included; ``-inf`` forbids.
    offsets : ndarray of int64, shape (n_chains + 1,)
    transitions : tuple of ndarray, shapes (m_k, m_k)
        [from, to] of each task; ``-inf`` forbids.
    move_from, move_to : ndarray of int64, shape (n_moves,)
        Joint states of listed moves, each at most once.
    move_score : ndarray of float64, shape (n_moves,)
    """

    sizes: tuple[int, ...]
    psi: np.ndarray
    offsets: np.ndarray
    transitions: tuple[np.ndarray, ...]
    move_from: np.ndarray
    move_to: np.ndarray
    move_score: np.ndarray

    @property
    def n_states(self) -> int:
        """Number of joint states."""
        return self.psi.shape[1]

    @cached_property
    def task_labels(self) -> np.ndarray:
        """Label of each task in each joint state, (K, S)."""
        return np.array(np.unravel_index(np.arange(int(np.prod(self.sizes))), self.sizes))

    @cached_property
    def pairwise(self) -> np.ndarray:
        """Scores of all steps [from, to] of joint states, dense (S, S)."""
        return self.steps(np.arange(self.n_states))

    def scores(self, i: int) -> np.ndarray:
        """Scores of joint states at the tokens of chain ``i``, a view (n, S)."""
        return self.psi[int(self.offsets[i]) : int(self.offsets[i + 1])]

    def steps(self, states: np.ndarray) -> np.ndarray:
        """Scores of the steps [from, to] between some joint states (u,), dense (u, u)."""
        total = np.zeros((len(states), len(states)))
        for labels, scores in zip(self.task_labels[:, states], self.transitions):
            total += scores[labels[:, None], labels]
        if len(self.move_from):
            place = np.full(self.n_states, -1)
            place[states] = np.arange(len(states))
            source, target = place[self.move_from], place[self.move_to]
            both = (source >= 0) & (target >= 0)
            total[source[both], target[both]] += self.move_score[both]
        return total

    def chain(self, i: int, states: np.ndarray | None = None) -> ChainPotentials:
        """Chain ``i`` as a plain chain over these joint states (u,), or over all."""
        if states is None:
            return ChainPotentials(self.scores(i), self.pairwise)
        return ChainPotentials(self.scores(i)[:, states], self.steps(states))

    def score(self, i: int, states: np.ndarray) -> float:
        """Score of one labeling (n,) of chain ``i``, ``-inf`` if it is forbidden."""
        total = self.scores(i)[np.arange(len(states)), states].sum() + self.step_scores(states[:-1], states[1:]).sum()
        return float(total)

    def step_scores(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Scores of single steps between joint states (k,)."""
        total = np.zeros(len(before))
        for labels, scores in zip(self.task_labels, self.transitions):
            total += scores[labels[before], labels[after]]
        codes, scores = self._moves
        if len(codes):
            wanted = np.asarray(before, np.int64) * self.n_states + after
            place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
            total += np.where(codes[place] == wanted, scores[place], 0.0)
        return total

    @cached_property
    def _moves(self) -> tuple[np.ndarray, np.ndarray]:
        """Listed moves in the order of their codes, from x S + to."""
        codes = np.asarray(self.move_from, np.int64) * self.n_states + self.move_to
        order = np.argsort(codes)
        return codes[order], np.asarray(self.move_score)[order]

    def defined_scores(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores (n_chains,) of joint states (n_tokens,) from the definition, and the sums of the sizes of their terms."""
        each = self.psi[np.arange(len(states)), states]
        steps = np.zeros(len(states))
        steps[1:] = self.step_scores(states[:-1], states[1:])
        begins = np.asarray(self.offsets[:-1], np.int64)
        filled = np.diff(self.offsets) > 0
        steps[begins[filled]] = 0.0
        totals, sizes = np.zeros((2, len(begins)))
        if filled.any():
            totals[filled] = np.add.reduceat(each, begins[filled]) + np.add.reduceat(steps, begins[filled])
            sizes[filled] = np.add.reduceat(np.abs(each) + np.abs(steps), begins[filled])
        return totals, sizes

    @cached_property
    def constants(self) -> tuple[np.ndarray, tuple[float, ...]]:
        """What no labeling can avoid: the best score at each token (n_tokens,), and of each task's steps; 0 for none."""
        best = self.psi.max(axis=1, initial=-np.inf)
        steps = (float(scores.max(initial=-np.inf)) for scores in self.transitions)
        return np.where(best > -np.inf, best, 0.0), tuple(top if top > -np.inf else 0.0 for top in steps)

    def centered(self) -> "JointPotentials":
        """Return the same potentials without their ``constants``."""
        best, steps = self.constants
        transitions = tuple(scores - top for scores, top in zip(self.transitions, steps))
        return replace(self, psi=self.psi - best[:, None], transitions=transitions)

    def alone(self, i: int, psi: np.ndarray) -> "JointPotentials":
        """Chain ``i`` with other scores of its joint states, (n, S)."""
        return replace(self, psi=psi, offsets=np.array([0, len(psi)]))


@dataclass(frozen=True)
class JointProblem:
    """Potentials of joint chains, and the rules of each: what a joint engine is given.

    Parameters
    ----------
    potentials : JointPotentials
    rules : tuple of tuples of CompiledRule
        For each chain its rules. Their tables are not over joint states but over letters, the kinds of joint states that a
        rule can tell apart.
    letters : tuple of ndarray
        For each rule (by number) int64 (S,): the letter of each joint state.
    """

    potentials: JointPotentials
    rules: tuple[tuple[CompiledRule, ...], ...]
    letters: tuple[np.ndarray, ...]

    def over(self, i: int, states: np.ndarray | None = None) -> ChainProblem:
        """Chain ``i`` with its rules as a plain chain over these joint states (u,), or over all; O(n u + u^2)."""
        states = np.arange(self.potentials.n_states) if states is None else states
        rules = tuple(rule.relabeled(self.letters[rule.rule][states]) for rule in self.rules[i])
        return ChainProblem(self.potentials.chain(i, states), rules)
