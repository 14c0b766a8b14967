"""Pictures of labeled grids and pages (matplotlib, an optional extra)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulefield.data.pages import Page
from rulefield.exceptions import InputError

NOT_INSTALLED = "drawing needs matplotlib; install it with: pip install 'rulefield[plot]'."


def plot_grid(labels: Any, *, truth: Any = None, title: str | None = None, ax: Any = None) -> Any:
    """Draw the labels (height, width) of a picture's cells and return the axes; with ``truth`` wrong cells are framed."""
    names = np.asarray(labels)
    if names.ndim != 2:
        raise InputError(f"labels of a grid must have shape (height, width); got {names.shape}: reshape them first.")
    right = None if truth is None else np.asarray(truth)
    if right is not None and right.shape != names.shape:
        raise InputError(f"truth must have the shape of labels, {names.shape}; got {right.shape}.")
    axes = axes_or_new(ax)
    known = names if right is None else np.concatenate([names, right])
    classes, numbers = np.unique(known, return_inverse=True)
    shown = numbers.reshape(known.shape)[: len(names)]
    axes.imshow(shown, cmap="tab20", vmin=0, vmax=max(len(classes) - 1, 1))
    for (i, j), name in np.ndenumerate(names):
        axes.text(j, i, str(name), ha="center", va="center", fontsize=8)
    if right is not None:
        for i, j in np.argwhere(names != right):
            axes.add_patch(_frame(i, j))
        title = title or f"{(names == right).mean():.1%} right"
    axes.set(xticks=[], yticks=[], title=title or "")
    return axes


def draw_page(
    page: Page, labels: Sequence[Any] | None = None, *, gold: Sequence[Any] | None = None, ax: Any = None
) -> Any:
    """Draw a page with its boxes in the colors of ``labels``, by default its own; returns the matplotlib Axes.

    Boxes whose label differs from ``gold`` get a red frame.
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch, Rectangle

    shown = page.labels if labels is None else tuple(labels)
    for name, given in (("labels", shown), ("gold", gold)):
        if given is not None and len(given) != page.n_boxes:
            raise InputError(f"{name} must hold one entry for each of {page.n_boxes} boxes; got {len(given)}.")
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 8 * page.height / page.width), layout="constrained")
    names = sorted({str(label) for label in shown or () if label is not None})
    colors = {name: plt.get_cmap("tab10")(k % 10) for k, name in enumerate(names)}
    for k, (left, top, right, bottom) in enumerate(page.boxes.tolist()):
        label = None if shown is None or shown[k] is None else str(shown[k])
        wrong = gold is not None and gold[k] is not None and str(gold[k]) != label
        color = "none" if label is None else (*colors[label][:3], 0.45)
        frame = "red" if wrong else "0.6"
        ax.add_patch(
            Rectangle(
                (left, top),
                right - left,
                bottom - top,
                facecolor=color,
                edgecolor=frame,
                linewidth=2 if wrong else 0.5,
            )
        )
    for left, top, right, bottom in page.separators.tolist():
        across = right - left >= bottom - top
        middle = np.mean([top, bottom]) if across else np.mean([left, right])
        ends = ([left, right], [middle, middle]) if across else ([middle, middle], [top, bottom])
        ax.plot(*ends, color="0.3", linewidth=1)
    ax.set_xlim(0, page.width)
    ax.set_ylim(page.height, 0)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_title(page.name)
    if names:
        patches = [Patch(color=colors[name], label=name) for name in names]
        ax.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)  # beside the page
    return ax


def axes_or_new(ax: Any) -> Any:
    """Return the axes given, or new ones."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise InputError(NOT_INSTALLED) from None
    return pyplot.subplots()[1]


def _frame(i: int, j: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor="black", linewidth=2.5)
