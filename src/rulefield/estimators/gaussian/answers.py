"""What a Gaussian field says of labels: probabilities, bounds, draws, covariances; under rules if there are any."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit

from rulefield.estimators.gaussian.labels import LabelCodes
from rulefield.estimators.graph.decoding import GraphRules, SearchLimits, outputs_graph
from rulefield.estimators.labelings import Labeling
from rulefield.inference.gaussian.field import expected_logistic, posterior
from rulefield.inference.gaussian.joint import (
    colored_noise,
    importance_log_likelihood,
    latent_covariance,
    prior_variance,
)
from rulefield.inference.gaussian.softmax import expected_softmax, softmax_posterior
from rulefield.problem.gaussian import FieldPosterior, GaussianPotentials
from rulefield.problem.graph import GraphPotentials, GraphProblem


@dataclass(frozen=True)
class LabelAnswers:
    r"""Answers of a field about labels (binary, or of several classes) of some instances.

    Under rules about the nodes ``node("label", 0)``, ``node("label", 1)``, ... label vectors are worth
    :math:`\sum_i \log p(y_i | x)` minus the cost of broken soft rules. ``known`` are class numbers (n_instances, n_nodes),
    NaN where unknown; None if nothing is known. ``sizes`` are the numbers of nodes, ``method`` ("vb" or "jj") says how known
    binary labels move the field.
    """

    codes: LabelCodes
    potentials: GaussianPotentials
    known: np.ndarray | None
    sizes: np.ndarray
    rules: GraphRules | None = None
    method: str = "vb"

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return self.codes.kind == "binary"

    def full(self, proba: np.ndarray) -> np.ndarray:
        """Probabilities with an axis for classes, also of binary labels."""
        return np.stack([1 - proba, proba], axis=-1) if self.binary else proba

    def named(self) -> np.ndarray:
        """Most probable labels without rules, as users call them."""
        proba = self.free_proba()
        return self.codes.values[(proba > 0.5).astype(int) if self.binary else proba.argmax(axis=-1)]

    def proba(self) -> np.ndarray:
        """P(y = 1), (n, n_nodes), or class probabilities (n, n_nodes, n_classes); under rules exact sums."""
        free = self.free_proba()
        if not self.rules:
            return free
        full = self.full(free)
        for row, size in zip(full, self.sizes):
            row[:size] = self.rules.marginals(problem_of(self.rules, row[:size])).reshape(size, -1)
        return full[..., 1] if self.binary else full

    def labelings(self, search: SearchLimits) -> list[Labeling]:
        """Best label vectors under the rules."""
        assert self.rules is not None
        full = self.full(self.free_proba())
        return best_labelings(self.codes, self.rules, [row[:size] for row, size in zip(full, self.sizes)], search)

    def free_proba(self) -> np.ndarray:
        """Return probabilities without rules; known labels are certain."""
        mean, variance = self.moments()
        known = np.nan if self.known is None else self.known
        if self.binary:
            return np.where(np.isnan(known), expected_logistic(mean, variance), known)
        p = expected_softmax(mean, np.broadcast_to(variance, (len(mean), mean.shape[-1])))
        hot = np.nan_to_num(known, nan=-1)[..., None] == np.arange(self.codes.n_classes)
        return np.where(np.isnan(known)[..., None], p, hot)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Latent means and variances."""
        q = self._posterior()
        return (self.potentials.mean, prior_variance(self.potentials)) if q is None else (q.mean, q.variance)

    def joint(self, n_samples: int = 0, seed: int | None = None) -> np.ndarray:
        """Tightest lower bound on log p(known labels) of each instance, or an estimate by importance sampling."""
        if self.known is None:
            return np.zeros(len(self.potentials.mean))
        if not self.binary:
            return softmax_posterior(self.potentials, self.known).bound
        q = posterior(self.potentials, self.known, "vb")
        return importance_log_likelihood(self.potentials, self.known, q, n_samples, seed) if n_samples else q.bound

    def draw(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (n_samples, n_instances, n_nodes) of binary class numbers."""
        if self.rules:
            full = self.full(self.free_proba())
            drawn = np.zeros((n_samples, *full.shape[:2]), dtype=int)
            for j, size in enumerate(self.sizes):
                drawn[:, j, :size] = self.rules.draw(problem_of(self.rules, full[j, :size]), n_samples, rng)
            return drawn
        mean, precision = self._sites()
        z = mean + colored_noise(self.potentials, precision, rng.normal(size=(n_samples, *mean.shape)))
        drawn = (rng.random(z.shape) < expit(z)).astype(int)
        if self.known is not None:
            drawn = np.where(np.isnan(self.known), drawn, np.nan_to_num(self.known).astype(int))
        return drawn

    def covariance(self) -> np.ndarray:
        """Covariances (n_instances, n_nodes, n_nodes) of the latent values."""
        return latent_covariance(self.potentials, self._sites()[1])

    def _posterior(self) -> FieldPosterior | None:
        """Posterior given the known labels; None if they say nothing."""
        if self.known is None or self.potentials.variance == 0 or np.isnan(self.known).all():
            return None
        if self.binary:
            return posterior(self.potentials, self.known, self.method)
        return softmax_posterior(self.potentials, self.known)

    def _sites(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of the latent values and what known labels add to their precision, both given the known labels."""
        mean, q = self.potentials.mean, self._posterior()
        if q is None or self.known is None:
            return mean, np.zeros((len(mean), mean.shape[-1]))
        return q.mean, q.sites[1] if self.binary else 0.5 * ~np.isnan(self.known)


def best_labelings(
    codes: LabelCodes, rules: GraphRules, proba: Sequence[np.ndarray], search: SearchLimits
) -> list[Labeling]:
    """Best label vectors under rules; ``proba`` (n_nodes, n_classes) of each instance without them, 0 forbids."""
    labelings = []
    for p in proba:
        problem = problem_of(rules, p)
        result = rules.decode(problem, search)
        prover = partial(rules.prove, problem, result)
        labelings.append(Labeling.named(result, codes.values[result.labels].tolist(), rules.names, prover))
    return labelings


def problem_of(rules: GraphRules, proba: np.ndarray) -> GraphProblem:
    """Return the label vector of one instance under rules as a problem on a graph without edges."""
    n, classes = proba.shape
    with np.errstate(divide="ignore"):
        scores = np.log(proba).ravel()
    potentials = GraphPotentials(np.full(n, classes), scores, np.empty((0, 2), dtype=np.int64), np.empty(0))
    return rules.problem(outputs_graph(n), potentials)
