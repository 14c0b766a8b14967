"""Pictures of labeled grids say what the labeling says."""

import matplotlib as mpl
import numpy as np
import pytest

from rulefield.exceptions import InputError
from rulefield.report.graphs import plot_grid

mpl.use("Agg")


def test_grid_shows_every_label_and_frames_mistakes():
    labels = np.array([[0, 1, 2], [0, 0, 3]])
    axes = plot_grid(labels, truth=np.array([[0, 1, 1], [0, 0, 3]]))
    assert sorted(text.get_text() for text in axes.texts) == ["0", "0", "0", "1", "2", "3"]
    assert len(axes.patches) == 1
    assert axes.patches[0].get_xy() == (1.5, -0.5)
    assert "83.3%" in axes.get_title()


def test_mistakes_are_explained():
    with pytest.raises(InputError, match="reshape"):
        plot_grid([1, 2])
    with pytest.raises(InputError, match="truth"):
        plot_grid([[1, 2]], truth=[[1], [2]])
