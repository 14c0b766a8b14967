"""What a Gaussian field says of the labels of a batch: probabilities, bounds, draws, covariances; under rules if any."""

from dataclasses import dataclass
from functools import partial
from typing import Any

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
    pair_probabilities,
    prior_variance,
)
from rulefield.inference.gaussian.softmax import expected_softmax, softmax_posterior
from rulefield.problem.gaussian import GaussianPotentials
from rulefield.problem.graph import GraphPotentials, GraphProblem

Known = np.ndarray | None
"""Class numbers (n_instances, n_nodes) of a batch, NaN where unknown; None where nothing is known."""


@dataclass(frozen=True)
class LabelAnswers:
    r"""Answers of a field about labels (binary, or of several classes), of batch after batch.

    Under rules about the nodes ``node("label", 0)``, ``node("label", 1)``, ... label vectors are worth
    :math:`\sum_i \log p(y_i | x)` minus the cost of broken soft rules.

    Parameters
    ----------
    codes : LabelCodes
    method : {"vb", "jj"}
        How binary labels that are known move the field.
    rules : GraphRules, optional
    """

    codes: LabelCodes
    method: str = "vb"
    rules: GraphRules | None = None

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return self.codes.kind == "binary"

    def full(self, proba: np.ndarray) -> np.ndarray:
        """Probabilities with an axis for classes, also of binary labels."""
        return np.stack([1 - proba, proba], axis=-1) if self.binary else proba

    def named(self, proba: np.ndarray) -> np.ndarray:
        """Most probable labels, as users call them."""
        return self.codes.values[(proba > 0.5).astype(int) if self.binary else proba.argmax(axis=-1)]

    def proba(self, potentials: GaussianPotentials, known: Known) -> np.ndarray:
        """P(y = 1), (n, n_nodes), or class probabilities (n, n_nodes, n_classes); under rules exact sums."""
        free = self.free_proba(potentials, known)
        if not self.rules:
            return free
        full = self.full(free)
        ruled = np.stack([self.rules.marginals(self._problem(p)).reshape(p.shape) for p in full])
        return ruled[..., 1] if self.binary else ruled

    def labelings(self, proba: np.ndarray, search: SearchLimits) -> list[Labeling]:
        """Best label vectors under the rules; ``proba`` (n_instances, n_nodes, n_classes) without them, 0 forbids."""
        assert self.rules is not None
        labelings = []
        for p in proba:
            problem = self._problem(p)
            result = self.rules.decode(problem, search)
            prover = partial(self.rules.prove, problem, result)
            labelings.append(
                Labeling.named(result, self.codes.values[result.labels].tolist(), self.rules.names, prover)
            )
        return labelings

    def _problem(self, proba: np.ndarray) -> GraphProblem:
        """Return the label vector of one instance under the rules as a problem on a graph without edges."""
        assert self.rules is not None
        n, classes = proba.shape
        with np.errstate(divide="ignore"):
            scores = np.log(proba).ravel()
        potentials = GraphPotentials(np.full(n, classes), scores, np.empty((0, 2), dtype=np.int64), np.empty(0))
        return self.rules.problem(outputs_graph(n), potentials)

    def free_proba(self, potentials: GaussianPotentials, known: Known) -> np.ndarray:
        """Return probabilities without rules; known labels are certain."""
        mean, variance = self.moments(potentials, known)
        if self.binary:
            p = expected_logistic(mean, variance)
            return p if known is None else np.where(np.isnan(known), p, known)
        p = expected_softmax(mean, np.broadcast_to(variance, (len(mean), mean.shape[-1])))
        if known is None:
            return p
        hot = np.nan_to_num(known, nan=-1)[..., None] == np.arange(self.codes.n_classes)
        return np.where(np.isnan(known)[..., None], p, hot)

    def moments(self, potentials: GaussianPotentials, known: Known) -> tuple[np.ndarray, np.ndarray]:
        """Latent means and variances of a batch."""
        if known is None or potentials.variance == 0 or np.isnan(known).all():
            return potentials.mean, prior_variance(potentials)
        q = self._posterior(potentials, known)
        return q.mean, q.variance

    def joint(
        self, potentials: GaussianPotentials, known: Known, n_samples: int = 0, seed: int | None = None
    ) -> np.ndarray:
        """Tightest lower bound on log p(known labels) of each instance, or an estimate by importance sampling."""
        if known is None:
            return np.zeros(len(potentials.mean))
        if not self.binary:
            return softmax_posterior(potentials, known).bound
        q = posterior(potentials, known, "vb")
        return importance_log_likelihood(potentials, known, q, n_samples, seed) if n_samples else q.bound

    def draw(
        self, potentials: GaussianPotentials, known: Known, n_samples: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Draws (n_instances, n_samples, n_nodes) of binary class numbers."""
        if self.rules:
            full = self.full(self.free_proba(potentials, known))
            return np.stack([self.rules.draw(self._problem(p), n_samples, rng) for p in full])
        mean, precision = self._sites(potentials, known)
        z = mean + colored_noise(potentials, precision, rng.normal(size=(n_samples, *mean.shape)))
        drawn = (rng.random(z.shape) < expit(z)).astype(int)
        if known is not None:
            drawn = np.where(np.isnan(known), drawn, np.nan_to_num(known).astype(int))
        return np.swapaxes(drawn, 0, 1)

    def covariance(self, potentials: GaussianPotentials, known: Known, of: str) -> np.ndarray:
        """Covariances (n_instances, n_nodes, n_nodes) of the binary labels, or of the latent values."""
        mean, precision = self._sites(potentials, known)
        covariance = latent_covariance(potentials, precision)
        if of == "latent":
            return covariance
        joint = pair_probabilities(mean, covariance)
        p = np.diagonal(joint, axis1=1, axis2=2).copy()
        labels = joint - p[:, :, None] * p[:, None, :]
        diagonal = np.arange(p.shape[1])
        labels[:, diagonal, diagonal] = p * (1 - p)
        if known is not None:
            free = np.isnan(known)
            labels *= free[:, :, None] & free[:, None, :]
        return labels

    def _posterior(self, potentials: GaussianPotentials, known: np.ndarray) -> Any:
        return posterior(potentials, known, self.method) if self.binary else softmax_posterior(potentials, known)

    def _sites(self, potentials: GaussianPotentials, known: Known) -> tuple[np.ndarray, np.ndarray]:
        """Means of the latent values and what known labels add to their precision, both given the known labels."""
        mean = potentials.mean
        if known is None or potentials.variance == 0:
            return mean, np.zeros((len(mean), mean.shape[-1]))
        q = self._posterior(potentials, known)
        return q.mean, q.sites[1] if self.binary else 0.5 * ~np.isnan(known)
