"""Pictures in scikit-learn's style: a Display holds the numbers, ``plot(ax=)`` draws them (matplotlib, extra ``plot``).

Learning curves are scikit-learn's own: ``LearningCurveDisplay.from_estimator(crf, X, y)`` takes every model here.
Graphs and grids are in :mod:`rulefield.report.graphs`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rulefield.metrics import span_pairs
from rulefield.report.certainty import certainty
from rulefield.report.effects import RuleEffect, rule_effects
from rulefield.report.graphs import axes_or_new
from rulefield.report.study import Bin, acting_rules, calibration_bins, chain_of, confusion_of, label_set, scheme_of

BLUE, RED, GREEN, GREY = "#4c7dd0", "#c9483f", "#3a9a62", "0.6"


class Display:
    """What displays share: after ``plot``, ``ax_`` and ``figure_`` hold what was drawn on."""

    ax_: Any = None
    figure_: Any = None

    def _begin(self, ax: Any) -> Any:
        self.ax_ = axes_or_new(ax)
        self.figure_ = self.ax_.figure
        return self.ax_


@dataclass
class SpanConfusionDisplay(Display):
    """Gold segments and what was found in their place.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Row: gold; column: predicted; the last of each: nothing.
    names : list of str
    """

    matrix: np.ndarray
    names: list[str]

    @classmethod
    def from_predictions(cls, y_true: Any, y_pred: Any, *, scheme: str | None = "auto", ax: Any = None) -> Any:
        """Count and draw."""
        names, table = confusion_of(span_pairs(y_true, y_pred, scheme=scheme))
        return cls(table, names).plot(ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, rules: Any = None, ax: Any = None) -> Any:
        """Predict, count and draw."""
        scheme = scheme_of(estimator) or "auto"
        return cls.from_predictions(y, estimator.predict(X, rules=rules), scheme=scheme, ax=ax)

    def plot(self, ax: Any = None) -> "SpanConfusionDisplay":
        """Draw; colors are shares of the row."""
        totals = self.matrix.sum(axis=1, keepdims=True)
        shares = np.divide(self.matrix, totals, out=np.zeros(self.matrix.shape), where=totals > 0)
        _table(self._begin(ax), shares, self.names, "Blues", (0, 1), self.matrix)
        self.ax_.set(xlabel="predicted", ylabel="gold")
        return self


@dataclass
class CalibrationDisplay(Display):
    """Of the labels that the model holds to be p likely, how many are right.

    Parameters
    ----------
    bins : list of Bin
    """

    bins: list[Bin]

    @classmethod
    def from_predictions(cls, right: Any, probability: Any, *, ax: Any = None) -> "CalibrationDisplay":
        """From whether each token is right, and the probability of its label."""
        return cls(calibration_bins(np.asarray(probability, float), np.asarray(right, bool))).plot(ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, rules: Any = None, ax: Any = None) -> Any:
        """Predict, and compare probabilities with gold labels."""
        predicted = list(estimator.predict(X, rules=rules))
        sure = certainty(estimator, list(X), predicted, acting_rules(estimator, rules)).tokens
        right = [a == b for p, g in zip(predicted, y) for a, b in zip(p, g)]
        return cls.from_predictions(right, np.concatenate(sure), ax=ax)

    def plot(self, ax: Any = None) -> "CalibrationDisplay":
        """Draw; the size of a point grows with its number of tokens."""
        axes = self._begin(ax)
        sure, right, n = (np.array([getattr(b, name) for b in self.bins]) for name in ("confidence", "accuracy", "n"))
        axes.plot([0, 1], [0, 1], "--", color=GREY, linewidth=1)
        axes.plot(sure, right, color=BLUE)
        axes.scatter(sure, right, s=20 + 180 * n / max(n.max(initial=1), 1), color=BLUE)
        axes.set(xlabel="probability", ylabel="share that is right", xlim=(0, 1.02), ylim=(0, 1.02))
        return self


@dataclass
class TransitionDisplay(Display):
    """Weights from one label to the next.

    Parameters
    ----------
    weights : ndarray of shape (n, n)
        ``-inf`` if the scheme forbids it.
    names : list of str
    """

    weights: np.ndarray
    names: list[str]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> "TransitionDisplay":
        """Read the weights of a chain."""
        chain = chain_of(estimator)
        weights = chain.model_.pairwise(chain.theta_)
        return cls(weights, [str(label) for label in chain.classes_]).plot(ax=ax)

    def plot(self, ax: Any = None) -> "TransitionDisplay":
        """Draw; impossible steps stay white."""
        seen = np.where(np.isfinite(self.weights), self.weights, np.nan)
        most = max(float(np.nanmax(np.abs(seen), initial=0.0)), 1e-9)
        picture = _table(self._begin(ax), seen, self.names, "RdBu", (-most, most))
        self.figure_.colorbar(picture, ax=self.ax_, label="weight")
        self.ax_.set(xlabel="to", ylabel="from")
        return self


@dataclass
class FitLogDisplay(Display):
    """How a fit went: the objective by iteration."""

    iterations: np.ndarray
    objective: np.ndarray

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> "FitLogDisplay":
        """Read ``log_``."""
        log = estimator.log_
        return cls(*(np.array([getattr(r, name) for r in log]) for name in ("iteration", "objective"))).plot(ax=ax)

    def plot(self, ax: Any = None) -> "FitLogDisplay":
        """Draw."""
        axes = self._begin(ax)
        axes.plot(self.iterations, self.objective, color=BLUE)
        axes.set(xlabel="iteration", ylabel="objective")
        return self


@dataclass
class RuleEffectsDisplay(Display):
    """Tokens that each rule fixes (right) and breaks (left)."""

    effects: Sequence[RuleEffect] = field(default_factory=list)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, rules: Any = None, ax: Any = None) -> Any:
        """Take each rule away in turn, and compare with gold labels."""
        acting = acting_rules(estimator, rules)
        names = label_set(estimator) | {str(label) for row in y for label in row}
        how: dict[str, Any] = {"scheme": scheme_of(estimator) or "auto", "labels": sorted(names)}
        return cls(rule_effects(estimator, list(X), list(y), acting, **how)).plot(ax=ax)

    def plot(self, ax: Any = None) -> "RuleEffectsDisplay":
        """Draw."""
        axes = self._begin(ax)
        places = np.arange(len(self.effects))
        axes.barh(places, [e.fixed for e in self.effects], color=GREEN, label="fixed")
        axes.barh(places, [-e.broken for e in self.effects], color=RED, label="broken")
        axes.set_yticks(places, [f"{e.rule.label:.40}" for e in self.effects])
        axes.axvline(0, color=GREY, linewidth=1)
        axes.invert_yaxis()
        axes.set(xlabel="tokens")
        axes.legend(frameon=False)
        return self


@dataclass
class CovarianceDisplay(Display):
    """How the outputs of one instance of a Gaussian field move together.

    Parameters
    ----------
    covariance : ndarray of shape (n, n)
    names : list of str
    """

    covariance: np.ndarray
    names: list[str]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, instance: int = 0, ax: Any = None) -> "CovarianceDisplay":
        """Predict the covariance of one instance of ``X``."""
        found = np.asarray(estimator.predict_covariance(X)[instance])
        return cls(found, [str(k) for k in range(len(found))]).plot(ax=ax)

    def plot(self, ax: Any = None) -> "CovarianceDisplay":
        """Draw the correlations."""
        scale = np.sqrt(np.maximum(np.diag(self.covariance), 1e-300))
        picture = _table(self._begin(ax), self.covariance / np.outer(scale, scale), self.names, "RdBu", (-1, 1))
        self.figure_.colorbar(picture, ax=self.ax_, label="correlation")
        return self


def _table(
    axes: Any,
    values: np.ndarray,
    names: Sequence[str],
    colors: str,
    bounds: tuple[float, float],
    written: np.ndarray | None = None,
) -> Any:
    """Draw a table of colors, with numbers in it where they are given and few; return the picture."""
    picture = axes.imshow(values, cmap=colors, vmin=bounds[0], vmax=bounds[1])
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    if written is None or len(names) > 30:
        return picture
    for (i, j), number in np.ndenumerate(written):
        if number:
            axes.text(
                j, i, str(number), ha="center", va="center", fontsize=7, color="w" if values[i, j] > 0.6 else "k"
            )
    return picture
