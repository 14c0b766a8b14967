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
        return float(sum(scores.sum() for scores in self.terms(i, states)))

    def terms(self, i: int, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores of the tokens and of the steps of one labeling (n,) of chain ``i``."""
        return self.scores(i)[np.arange(len(states)), states], self.step_scores(states[:-1], states[1:])

    def step_scores(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Scores of single steps between joint states (k,)."""
        if len(self.move_from):
            return self.pairwise[before, after]
        total = np.zeros(len(before))
        for labels, scores in zip(self.task_labels, self.transitions):
            total += scores[labels[before], labels[after]]
        return total

    def defined_scores(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores (n_chains,) of joint states (n_tokens,) from the definition, and the sums of the sizes of their terms."""
        lengths = np.diff(self.offsets)
        chain = np.repeat(np.arange(len(lengths)), lengths)
        each, steps = self.psi[np.arange(len(states)), states], np.zeros(len(states))
        inner = np.flatnonzero(chain[1:] == chain[:-1])
        steps[inner + 1] = self.step_scores(states[inner], states[inner + 1])
        sizes = np.abs(each) + np.abs(steps)
        return np.bincount(chain, each + steps, len(lengths)), np.bincount(chain, sizes, len(lengths))

    @cached_property
    def best(self) -> np.ndarray:
        """Best score at each token, (n_tokens,); 0 if all are forbidden."""
        best = self.psi.max(axis=1, initial=-np.inf)
        return np.where(best > -np.inf, best, 0.0)

    @cached_property
    def tops(self) -> tuple[float, ...]:
        """Best score of each task's steps; 0 if all are forbidden."""
        tops = (float(scores.max(initial=-np.inf)) for scores in self.transitions)
        return tuple(top if top > -np.inf else 0.0 for top in tops)

    def centered(self) -> "JointPotentials":
        """Return the same potentials without ``best`` and ``tops``, which no labeling can avoid."""
        transitions = tuple(scores - top for scores, top in zip(self.transitions, self.tops))
        return replace(self, psi=self.psi - self.best[:, None], transitions=transitions)

    def alone(self, psi: np.ndarray) -> "JointPotentials":
        """One chain with other scores of its joint states, (n, S)."""
        return replace(self, psi=psi, offsets=np.array([0, len(psi)]))


@dataclass(frozen=True)
class JointProblem:
    """Potentials of joint chains, and the rules of each.

    Tables of rules are not over joint states but over letters, the kinds of joint states that a rule can tell apart:
    ``letters`` has for each rule (by number) int64 (S,), the letter of each joint state.
    """

    potentials: JointPotentials
    rules: tuple[tuple[CompiledRule, ...], ...]
    letters: tuple[np.ndarray, ...]

    def over(self, i: int, states: np.ndarray | None = None) -> ChainProblem:
        """Chain ``i`` with its rules as a plain chain over these joint states (u,), or over all; O(n u + u^2)."""
        states = np.arange(self.potentials.n_states) if states is None else states
        rules = tuple(rule.relabeled(self.letters[rule.rule][states]) for rule in self.rules[i])
        return ChainProblem(self.potentials.chain(i, states), rules)
