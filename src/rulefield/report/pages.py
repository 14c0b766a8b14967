"""Pictures of labeled pages: boxes in the colors of their labels, ruled lines, arrows to what breaks a rule."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.pages import Page
from rulefield.exceptions import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_page(
    page: Page, labels: Sequence[Any] | None = None, *, gold: Sequence[Any] | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw a page with its boxes in the colors of their labels.

    Parameters
    ----------
    page : Page
    labels : sequence, optional
        A label for each box; by default the page's own.
    gold : sequence, optional
        True labels: boxes whose label differs get a red frame.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
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
