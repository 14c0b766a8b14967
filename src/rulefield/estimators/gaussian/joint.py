"""What a Gaussian classifier says of labels together: likelihoods, draws, covariances."""

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.special import expit

from rulefield.estimators.gaussian.base import GaussianCRFBase, Graphs
from rulefield.estimators.gaussian.inputs import Batched
from rulefield.estimators.gaussian.labels import LabelCodes
from rulefield.estimators.gaussian.rules import LabelRules
from rulefield.estimators.parameters import ON_INFEASIBLE, RULES, check_value, rule_list, whole
from rulefield.estimators.predictors.cross_fitting import RandomState, generator_seed
from rulefield.estimators.tables import KnownTable
from rulefield.estimators.types import RulesLike
from rulefield.exceptions import InputError
from rulefield.inference.gaussian.field import posterior
from rulefield.inference.gaussian.pairs import pair_probabilities
from rulefield.inference.gaussian.sampling import (
    colored_noise,
    importance_log_likelihood,
    latent_covariance,
    prior_variance,
)
from rulefield.inference.gaussian.softmax import softmax_posterior
from rulefield.problem.gaussian import GaussianPotentials
from rulefield.scikit import seed_of_fit


class GaussianJointMixin(GaussianCRFBase):
    """The part of the classifier that deals with several labels at once; see :class:`GaussianCRFClassifier`."""

    rules: RulesLike | None
    on_infeasible: str
    _labels: LabelCodes
    algorithm_: str

    @abstractmethod
    def _batch_proba(self, potentials: GaussianPotentials, known: np.ndarray | None) -> np.ndarray:
        """Probabilities of single labels of a batch, without rules."""

    def _full(self, part: np.ndarray) -> np.ndarray:
        """Probabilities with an axis for classes, also of binary labels."""
        return np.stack([1 - part, part], axis=-1) if self._labels.kind == "binary" else part

    def _known_labels(self, data: Batched, known: KnownTable) -> list[np.ndarray | None]:
        """Class numbers of the known labels of each batch; None where nothing is known."""
        if known is None:
            return [None] * len(data.batches)
        return list(data.split(self._labels.encode(self._known_vectors(data, known))))

    def _label_rules(self, rules: RulesLike | None) -> LabelRules:
        """Rules given to a method, or the model's own."""
        check_value("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        rules = rule_list(self.rules if rules is None else rules)
        check_value("rules", rules, RULES)
        return LabelRules(rules, self._labels.values, self.on_infeasible)

    def _posterior(self, potentials: GaussianPotentials, known: np.ndarray) -> Any:
        if self._labels.kind == "classes":
            return softmax_posterior(potentials, known)
        return posterior(potentials, known, "jj" if self.algorithm_ == "jj" else "vb")

    def _joint(self, potentials: GaussianPotentials, known: np.ndarray) -> Any:
        """Tightest lower bound on the joint likelihood of labels that we have."""
        if self._labels.kind == "classes":
            return softmax_posterior(potentials, known)
        return posterior(potentials, known, "vb")

    def _moments(self, potentials: GaussianPotentials, known: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Latent means and variances of a batch, given known labels where there are any."""
        if known is None or potentials.variance == 0 or np.isnan(known).all():
            return potentials.mean, prior_variance(potentials)
        q = self._posterior(potentials, known)
        return q.mean, q.variance

    def predict_joint_log_proba(self, X: Any, y: Any, *, graphs: Graphs = None, n_samples: int = 0) -> np.ndarray:
        """Log-probability of each instance's labels together, (n_instances,); unknown labels are summed over.

        A lower bound (exact for ``"map"``); with ``n_samples`` > 0 an importance-sampled estimate (binary outputs).
        Rules do not enter.
        """
        data = self._instances(X, graphs)
        parts = []
        for potentials, known in zip(self._potentials(data), self._known_labels(data, y)):
            assert known is not None
            q = self._joint(potentials, known)
            if n_samples and self._labels.kind == "binary":
                parts.append(
                    importance_log_likelihood(
                        potentials, known, q, n_samples, generator_seed(seed_of_fit(self.random_state))
                    )
                )
            else:
                parts.append(q.bound)
        return data.join(parts, False)

    def sample(
        self,
        X: Any,
        *,
        rules: RulesLike | None = None,
        known: KnownTable = None,
        n_samples: int = 1,
        random_state: RandomState = None,
        graphs: Graphs = None,
    ) -> Any:
        """Draw label vectors jointly, (n_samples, n_instances, n_outputs), given known labels where there are any.

        A list (one array (n_samples, n_nodes) for each instance) where instances differ in size. Binary outputs. Under
        rules draws are those of the distribution that ``decode`` maximizes and ``predict_proba`` sums: single labels'
        probabilities times exp(-cost), over the label vectors that hard rules allow.
        """
        check_value("n_samples", n_samples, whole(1))
        if self._labels.kind != "binary":
            raise InputError("sample draws binary labels; this field has several classes.")
        data = self._instances(X, graphs)
        rng = np.random.default_rng(generator_seed(random_state))
        decoder = self._label_rules(rules)
        parts = []
        for potentials, labels in zip(self._potentials(data), self._known_labels(data, known)):
            if decoder.rules:
                drawn = decoder.draw(self._full(self._batch_proba(potentials, labels)), n_samples, rng)
            else:
                drawn = np.swapaxes(self._draw(potentials, labels, n_samples, rng), 0, 1)
            parts.append(self._labels.values[drawn])
        joined = data.join(parts, self._layout.ragged)
        return joined if self._layout.ragged else np.swapaxes(joined, 0, 1)

    def _draw(
        self, potentials: GaussianPotentials, known: np.ndarray | None, n_samples: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Draws (n_samples, n_instances, n_nodes) of class numbers."""
        mean, precision = potentials.mean, np.zeros_like(potentials.mean)
        if known is not None and potentials.variance > 0:
            q = self._posterior(potentials, known)
            mean, precision = q.mean, q.sites[1]
        z = mean + colored_noise(potentials, precision, rng.normal(size=(n_samples, *mean.shape)))
        drawn = (rng.random(z.shape) < expit(z)).astype(int)
        return drawn if known is None else np.where(np.isnan(known), drawn, np.nan_to_num(known).astype(int))

    def latent(self, X: Any, *, known: KnownTable = None, graphs: Graphs = None) -> tuple[Any, Any]:
        """Means and variances of the latent values, (n_instances, n_outputs) each, given known labels."""
        data = self._instances(X, graphs)
        pairs = [self._moments(p, k) for p, k in zip(self._potentials(data), self._known_labels(data, known))]
        means = [m for m, _ in pairs]
        variances = [np.broadcast_to(v, (len(m), m.shape[-1])).copy() for m, v in pairs]
        return data.join(means, self._layout.ragged), data.join(variances, self._layout.ragged)

    def predict_covariance(
        self, X: Any, *, known: KnownTable = None, graphs: Graphs = None, of: str = "labels"
    ) -> Any:
        """Covariance of the outputs of each instance, given known labels where there are any.

        Parameters
        ----------
        X, known, graphs : as in :meth:`predict_proba`
        of : {"labels", "latent"}
            ``"labels"``: P(y_i = 1, y_j = 1) - P(y_i = 1) P(y_j = 1), to 1e-8 under the latent Gaussian (binary
            outputs). ``"latent"``: covariance of the latent values, of every class alike (Böhning's contrasts).

        Returns
        -------
        ndarray of shape (n_instances, n_outputs, n_outputs), or a list where sizes differ.
        """
        if of not in ("labels", "latent"):
            raise InputError(f'of must be "labels" or "latent"; got {of!r}.')
        if of == "labels" and self._labels.kind != "binary":
            raise InputError('predict_covariance of labels needs binary outputs; use of="latent".')
        data = self._instances(X, graphs)
        given = self._known_labels(data, known)
        parts = [self._batch_covariance(p, k, of) for p, k in zip(self._potentials(data), given)]
        return data.join(parts, self._layout.ragged)

    def _batch_covariance(self, potentials: GaussianPotentials, known: np.ndarray | None, of: str) -> np.ndarray:
        mean, precision = potentials.mean, np.zeros((len(potentials.mean), potentials.mean.shape[-1]))
        if known is not None and potentials.variance > 0:
            q = self._posterior(potentials, known)
            several = self._labels.kind == "classes"
            mean, precision = q.mean, 0.5 * ~np.isnan(known) if several else q.sites[1]
        covariance = latent_covariance(potentials, precision)
        if of == "latent":
            return covariance
        joint = pair_probabilities(mean, covariance)
        p = np.diagonal(joint, axis1=1, axis2=2).copy()
        found = joint - p[:, :, None] * p[:, None, :]
        diagonal = np.arange(p.shape[1])
        found[:, diagonal, diagonal] = p * (1 - p)
        if known is not None:
            free = np.isnan(known)
            found *= free[:, :, None] & free[:, None, :]
        return found
