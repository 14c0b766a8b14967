"""A segment problem made ready for kernels: rules about single tokens inside the scores, the others as flat tables."""

from dataclasses import dataclass, replace

import numpy as np

from rulefield.inference.checker import held_bound, mismatch, rules_broken
from rulefield.inference.flatten import Terms, flatten
from rulefield.inference.result import TOLERANCE, Result, judge, rounding_error
from rulefield.inference.sequences.segments.exact import as_parts, as_roles
from rulefield.kernels.lattice.rule_tables import RuleTables, fold_local, rule_amounts
from rulefield.kernels.segments.best import RoleScores
from rulefield.problem.segments import SegmentPotentials, SegmentProblem


@dataclass(frozen=True)
class PreparedSegments:
    """One segment problem in the arrays that kernels read.

    Every token's best score is taken out of the potentials first (``flat``), so that a constant added to all scores
    changes nothing; objectives and bounds of searches are of these scores.

    Parameters
    ----------
    problem, flat : SegmentProblem
    scores : RoleScores
        Scores of roles with ``extra`` inside; the best where the token label depends on the neighbors.
    base : ndarray, shape (4, n, types)
        Scores of roles alone.
    extra : ndarray, shape (n, labels)
        Minus what local rules charge for token labels; ``-inf`` forbids, as does what is known.
    charges : ndarray, shape (counters,)
        Weights of local rules that charge for steps: they are charged in the lattice.
    tables : RuleTables
    classes : ndarray of uint16, shape (rules, n)
    terms : tuple of Term
    """

    problem: SegmentProblem
    flat: SegmentProblem
    scores: RoleScores
    base: np.ndarray
    extra: np.ndarray
    charges: np.ndarray
    tables: RuleTables
    classes: np.ndarray
    terms: Terms

    @property
    def shift(self) -> float:
        """What was taken out of every segmentation's score."""
        return float(_best_of_tokens(self.problem.potentials.token).sum())

    def amounts(self, labels: np.ndarray) -> np.ndarray:
        """Amounts (rules,) of the segmentation that token labels spell."""
        amounts = np.zeros(len(self.tables.weight), np.int64)
        excesses = np.zeros(len(self.tables.counter_bound), np.int64)
        rule_amounts(self.tables, self.classes, labels, self.problem.spelling.n_labels, amounts, excesses)
        return amounts

    def cost(self, amounts: np.ndarray) -> float:
        """Return what amounts (rules,) cost; ``inf`` where a hard rule is broken."""
        hit = np.flatnonzero(amounts)
        paid = np.where(self.tables.once[hit], 1, amounts[hit])
        return float((self.tables.weight[hit] * paid).sum())

    def objective(self, labels: np.ndarray, amounts: np.ndarray) -> float:
        """Objective under the flat scores."""
        return self.flat.score(labels) - self.cost(amounts)

    def result(self, labels: np.ndarray, upper_bound: float, engine: str, iterations: int) -> Result:
        """Judge a segmentation from scratch: its score, what it breaks, and whether the (flat) bound proves it best.

        Score and rules are read by code that no engine shares; a mismatch with the engines' own sums raises.
        """
        amounts = self.amounts(labels)
        flat = self.objective(labels, amounts)
        broken, cost = rules_broken(self.problem.rules, labels, self.problem.spelling.n_labels)
        score = self.problem.defined_score(labels)
        objective = score - cost
        gap = upper_bound - flat
        off = abs(objective - flat - self.shift)
        error = 0.0
        if abs(gap) > TOLERANCE or not off <= TOLERANCE:  # rounding may be all that is left of it
            terms = 6 * len(labels) + len(self.problem.rules)
            error = rounding_error(terms, self._magnitude(labels, amounts))
            if not off <= TOLERANCE + 4 * (error + rounding_error(terms, score)):
                raise mismatch(flat + self.shift, objective)
        gap = held_bound(upper_bound, flat, 4 * error) - flat
        status = judge(flat, flat + gap, error)
        return Result(labels.copy(), score, objective, objective + gap, status, engine, iterations, broken)

    def _magnitude(self, labels: np.ndarray, amounts: np.ndarray) -> float:
        """Sum of the sizes of all terms of the flat objective."""
        p = self.flat.potentials
        names = ("token", "first", "last", "length", "pairwise")
        sizes = {name: np.abs(getattr(p, name)) for name in names}
        absolute = replace(p, **sizes, spans=replace(p.spans, score=np.abs(p.spans.score)))
        return replace(self.problem, potentials=absolute).score(labels) + self.cost(amounts)

    def no_result(self, upper_bound: float, engine: str, iterations: int) -> Result:
        """No segmentation: none exists (bound ``-inf``), or none was found within the limits."""
        none = np.zeros(0, np.int64)
        bound = upper_bound + self.shift
        return Result(none, -np.inf, -np.inf, bound, judge(-np.inf, bound), engine, iterations)


def prepare(problem: SegmentProblem) -> PreparedSegments:
    """Flatten a problem; tables of equal rule objects are shared between calls."""
    p, spelling, rules = problem.potentials, problem.spelling, problem.rules
    n, m = p.n_steps, spelling.n_labels
    flat_problem = SegmentProblem(_shifted(p), spelling, rules, problem.allowed)
    flat = flatten(rules, m)
    for r in flat.shared.rows_only:
        rules[r].refuse_rows_only("segments")
    tables, classes = flat.tables, flat.classes.reshape(len(rules), n)
    plain = as_roles(as_parts(flat_problem.potentials))
    extra = np.zeros((n, m)) if problem.allowed is None else np.where(problem.allowed, 0.0, -np.inf)
    scores, charges = plain, np.zeros(len(tables.counter_rule))
    if flat.shared.folds or problem.allowed is not None:
        local = tables.local[tables.counter_rule]
        by_token = local & (tables.edge_at < 0)
        folded = np.zeros_like(tables.local)
        folded[tables.counter_rule[by_token]] = True
        fold_local(tables._replace(local=folded), classes, extra, np.zeros((0, m, m)), m, False)
        if spelling.depends_on_neighbors:
            best = extra[:, spelling.label].max(axis=(3, 4))
        else:
            best = extra[:, spelling.label[:, :, 0, 0]]
        scores = plain._replace(role=plain.role + best.transpose(1, 0, 2))
        charges[local & ~by_token] = tables.weight[tables.counter_rule[local & ~by_token]]
    return PreparedSegments(
        problem, flat_problem, scores, plain.role, extra, charges, tables, classes, flat.shared.terms
    )


def _shifted(p: SegmentPotentials) -> SegmentPotentials:
    token = p.token - _best_of_tokens(p.token)[:, None]
    return SegmentPotentials(token, p.first, p.last, p.length, p.pairwise, p.spans)


def _best_of_tokens(token: np.ndarray) -> np.ndarray:
    """Best score of each token; 0 where every type is forbidden."""
    best = token.max(axis=1, initial=-np.inf)
    return np.where(best > -np.inf, best, 0.0)
