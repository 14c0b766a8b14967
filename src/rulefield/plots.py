"""Pictures of models and their answers (extra ``plot``), and the figures behind a report.

A display in scikit-learn's style holds the numbers, and ``plot(ax=)`` draws them. Learning curves are scikit-learn's own:
``LearningCurveDisplay.from_estimator(crf, X, y)`` takes every model here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import calibration

from rulefield.metrics import span_pairs
from rulefield.report.certainty import certainty
from rulefield.report.effects import rule_effects
from rulefield.report.graphs import axes_or_new, draw_page, plot_grid
from rulefield.report.study import acting_rules, chain_of, confusion_of, scheme_of, study

__all__ = [
    "CalibrationDisplay",
    "SpanConfusionDisplay",
    "TransitionDisplay",
    "certainty",
    "draw_page",
    "plot_grid",
    "rule_effects",
    "study",
]

MOST_NUMBERS = 30
"""Rows of a table of colors in which numbers can still be read."""


class Display:
    """What displays share: after ``plot``, ``ax_`` and ``figure_`` hold what was drawn on."""

    ax_: Any = None
    figure_: Any = None

    def plot(self, ax: Any = None) -> Any:
        """Draw."""
        self.ax_ = axes_or_new(ax)
        self.figure_ = self.ax_.figure
        self._draw(self.ax_)
        return self

    def _draw(self, axes: Any) -> None:
        raise NotImplementedError


@dataclass
class SpanConfusionDisplay(Display):
    """Gold segments (rows of ``matrix``) and what was found in their place; the last name is that of nothing."""

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

    def _draw(self, axes: Any) -> None:
        shares = self.matrix / np.maximum(self.matrix.sum(axis=1, keepdims=True), 1)
        _draw_table(axes, shares, self.names, "Blues", (0, 1))
        axes.set(xlabel="predicted", ylabel="gold")
        for i, j in np.argwhere(self.matrix) if len(self.names) <= MOST_NUMBERS else ():
            color = "w" if shares[i, j] > 0.6 else "k"
            axes.text(j, i, str(self.matrix[i, j]), ha="center", va="center", fontsize=7, color=color)


class CalibrationDisplay(calibration.CalibrationDisplay):
    """scikit-learn's display, of tokens: how many labels of which probability are right."""

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, rules: Any = None, ax: Any = None) -> Any:
        """Predict, compare probabilities with gold labels, and draw."""
        predicted = list(estimator.predict(X, rules=rules))
        probabilities = certainty(estimator, list(X), predicted, acting_rules(estimator, rules)).tokens
        right = [int(a == b) for p, g in zip(predicted, y) for a, b in zip(p, g)]
        return cls.from_predictions(right, np.concatenate(probabilities), n_bins=10, name="tokens", ax=ax)


@dataclass
class TransitionDisplay(Display):
    """Weights from one label (row) to the next; ``-inf`` if the scheme forbids it."""

    weights: np.ndarray
    names: list[str]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Any:
        """Read the weights of a chain and draw them."""
        chain = chain_of(estimator)
        weights = chain.model_.pairwise(chain.theta_)
        return cls(weights, [str(label) for label in chain.classes_]).plot(ax=ax)

    def _draw(self, axes: Any) -> None:
        possible = np.where(np.isfinite(self.weights), self.weights, np.nan)  # the others stay white
        largest = max(float(np.nanmax(np.abs(possible), initial=0.0)), 1e-9)
        picture = _draw_table(axes, possible, self.names, "RdBu", (-largest, largest))
        axes.figure.colorbar(picture, ax=axes, label="weight")
        axes.set(xlabel="to", ylabel="from")


def _draw_table(axes: Any, values: np.ndarray, names: Sequence[str], colors: str, bounds: tuple[float, float]) -> Any:
    """Draw a table of colors; return the picture."""
    picture = axes.imshow(values, cmap=colors, vmin=bounds[0], vmax=bounds[1])
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    return picture
