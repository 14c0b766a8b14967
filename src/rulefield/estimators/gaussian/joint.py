"""What a Gaussian classifier says of labels together: likelihoods, draws, covariances."""

from typing import Any

import numpy as np
from scipy.special import expit

from rulefield.estimators.gaussian.base import GaussianCRFBase
from rulefield.estimators.gaussian.inputs import Batched
from rulefield.estimators.gaussian.labels import LabelCodes
from rulefield.exceptions import InputError
from rulefield.inference.gaussian.field import posterior
from rulefield.inference.gaussian.pairs import pair_probabilities
from rulefield.inference.gaussian.sampling import (
    coloured_noise,
    importance_log_likelihood,
    latent_covariance,
    prior_variance,
)
from rulefield.inference.gaussian.softmax import softmax_posterior
from rulefield.problem.gaussian import GaussianPotentials


class JointLabels(GaussianCRFBase):
    """The part of the classifier that deals with several labels at once; see :class:`GaussianCRFClassifier`."""

    _labels: LabelCodes
    method_: str

    def _known_labels(self, data: Batched, Y_known: Any) -> list[np.ndarray | None]:
        """Class numbers of the known labels of each batch; None where nothing is known."""
        if Y_known is None:
            return [None] * len(data.batches)
        return list(self._known(data, self._labels.encode(Y_known, self.layout_.ragged)))

    def _posterior(self, potentials: GaussianPotentials, known: np.ndarray) -> Any:
        if self._labels.kind == "classes":
            return softmax_posterior(potentials, known)
        return posterior(potentials, known, "jj" if self.method_ == "jj" else "vb")

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

    def predict_joint_log_proba(self, X: Any, Y: Any, graphs: Any = None, n_samples: int = 0) -> np.ndarray:
        """Log-probability of each instance's labels together, (n_instances,); NaN labels are summed over.

        A lower bound (exact for ``"map"``); with ``n_samples`` > 0 an importance-sampled estimate (binary outputs).
        """
        data = self._instances(X, graphs)
        parts = []
        for potentials, known in zip(
            self._potentials(data), self._known(data, self._labels.encode(Y, self.layout_.ragged))
        ):
            q = self._joint(potentials, known)
            if n_samples and self._labels.kind == "binary":
                parts.append(importance_log_likelihood(potentials, known, q, n_samples, self.random_state))
            else:
                parts.append(q.bound)
        return data.join(parts, False)

    def sample(
        self, X: Any, n_samples: int = 1, Y_known: Any = None, graphs: Any = None, random_state: int | None = None
    ) -> Any:
        """Draw label vectors jointly, (n_samples, n_instances, n_outputs), given known labels where there are any.

        A list (one array (n_samples, n_nodes) for each instance) where instances differ in size. Binary outputs.
        """
        if self._labels.kind != "binary":
            raise InputError("sample draws binary labels; this field has several classes.")
        data = self._instances(X, graphs)
        rng = np.random.default_rng(random_state)
        known = self._known_labels(data, Y_known)
        parts = []
        for potentials, labels in zip(self._potentials(data), known):
            mean, precision = potentials.mean, np.zeros_like(potentials.mean)
            if labels is not None and potentials.variance > 0:
                q = self._posterior(potentials, labels)
                mean, precision = q.mean, q.sites[1]
            white = rng.normal(size=(n_samples, *mean.shape))
            z = mean + coloured_noise(potentials, precision, white)
            drawn = (rng.random(z.shape) < expit(z)).astype(int)
            if labels is not None:
                drawn = np.where(np.isnan(labels), drawn, np.nan_to_num(labels).astype(int))
            parts.append(np.swapaxes(drawn, 0, 1))
        joined = data.join(parts, self.layout_.ragged)
        return joined if self.layout_.ragged else np.swapaxes(joined, 0, 1)

    def latent(self, X: Any, Y_known: Any = None, graphs: Any = None) -> tuple[Any, Any]:
        """Means and variances of the latent values, (n_instances, n_outputs) each, given known labels."""
        data = self._instances(X, graphs)
        known = self._known_labels(data, Y_known)
        pairs = [self._moments(p, k) for p, k in zip(self._potentials(data), known)]
        means = [m for m, _ in pairs]
        variances = [np.broadcast_to(v, (len(m), m.shape[-1])).copy() for m, v in pairs]
        return data.join(means, self.layout_.ragged), data.join(variances, self.layout_.ragged)

    def predict_covariance(self, X: Any, Y_known: Any = None, graphs: Any = None, of: str = "labels") -> Any:
        """Covariance of the outputs of each instance, given known labels where there are any.

        Parameters
        ----------
        X, Y_known, graphs : as in :meth:`predict_proba`
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
        known = self._known_labels(data, Y_known)
        parts = [self._batch_covariance(p, k, of) for p, k in zip(self._potentials(data), known)]
        return data.join(parts, self.layout_.ragged)

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
