"""Pictures of models and their answers (extra ``plot``), and the figures behind a report."""

from rulefield.report.certainty import certainty
from rulefield.report.effects import rule_effects
from rulefield.report.graphs import draw_page, plot_grid
from rulefield.report.plots import (
    CalibrationDisplay,
    CovarianceDisplay,
    FitLogDisplay,
    RuleEffectsDisplay,
    SpanConfusionDisplay,
    TransitionDisplay,
)
from rulefield.report.study import study

__all__ = [
    "CalibrationDisplay",
    "CovarianceDisplay",
    "FitLogDisplay",
    "RuleEffectsDisplay",
    "SpanConfusionDisplay",
    "TransitionDisplay",
    "certainty",
    "draw_page",
    "plot_grid",
    "rule_effects",
    "study",
]
