"""Snakes: small pictures in which a snake of ten cells must be labeled from head to tail.

Every snake cell has the color of the direction in which the next cell lies, so a cell's number follows only from a
walk along the whole snake (Nowozin et al., Decision tree fields, 2011). In the *hidden* variant some pictures hold a
broken snake: all their cells are background, and a second type of node says whether the picture holds a snake
([Meunier17]).
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from rulefield.data.graphs import TypedGraph
from rulefield.encode.graph_builders import end_features, grid_edges
from rulefield.exceptions import InputError

LENGTH = 10
BACKGROUND = 0
N_COLORS = 5
_STEPS = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])  # up, right, down, left: colors 1 to 4


class Picture(NamedTuple):
    """One picture: colors 0 (background) to 4 (directions), labels 0 (background) and 1 to 10 (from head to tail)."""

    colors: np.ndarray
    labels: np.ndarray
    has_snake: bool = True


# --- generated pictures -----------------------------------------------------------------------


def make_snakes(n: int, seed: int = 0, hidden: bool = False) -> list[Picture]:
    """Draw ``n`` pictures with a snake each; with ``hidden`` every second one is broken and holds none."""
    rng = np.random.default_rng(seed)
    pictures: list[Picture] = []
    while len(pictures) < n:
        picture = _draw(rng)
        if hidden and len(pictures) % 2:
            broken = _break(picture, rng)
            if broken is None:
                continue
            picture = broken
        pictures.append(picture)
    return pictures


def _draw(rng: np.random.Generator) -> Picture:
    """Draw a walk that never meets itself, framed by one cell of background."""
    while True:
        path, directions = [np.array([0, 0])], []
        for direction in rng.integers(4, size=LENGTH - 1):
            path.append(path[-1] + _STEPS[direction])
            directions.append(direction)
        cells = np.array(path)
        if len(np.unique(cells, axis=0)) == LENGTH:
            break
    directions.append(rng.integers(4))
    cells = cells - cells.min(axis=0) + 1
    height, width = cells.max(axis=0) + 2
    colors, labels = np.zeros((height, width), dtype=np.int64), np.zeros((height, width), dtype=np.int64)
    colors[cells[:, 0], cells[:, 1]] = np.array(directions) + 1
    labels[cells[:, 0], cells[:, 1]] = np.arange(1, LENGTH + 1)
    return Picture(colors, labels)


def _break(picture: Picture, rng: np.random.Generator) -> Picture | None:
    """Give one snake cell another one's color; None if the picture still holds a snake."""
    colors = picture.colors.copy()
    cells = np.argwhere(colors != BACKGROUND)
    target, source = (tuple(cells[k]) for k in rng.choice(len(cells), size=2, replace=False))
    colors[target] = colors[source]
    return None if holds_snake(colors) else Picture(colors, np.zeros_like(colors), False)


def holds_snake(colors: np.ndarray) -> bool:
    """Tell whether following colors from some cell visits ten different colored cells."""
    cells = {tuple(cell) for cell in np.argwhere(colors != BACKGROUND).tolist()}
    for start in cells:
        seen, here = {start}, start
        while len(seen) < LENGTH:
            step = _STEPS[colors[here] - 1]
            here = (here[0] + int(step[0]), here[1] + int(step[1]))
            if here not in cells or here in seen:
                break
            seen.add(here)
        if len(seen) == LENGTH:
            return True
    return False


# --- turned pictures --------------------------------------------------------------------------


def turned_snakes(pictures: list[Picture], mirrored: bool = True) -> list[Picture]:
    """Return the pictures in four positions, turned by quarters, or in eight, mirrored as well; colors go with them.

    What a color means is read from the labels, so that pictures with any palette can be turned; all of the first
    position come first. Learning from them says that the rules of snakes are the same in every direction.
    """
    steps = color_steps(pictures)
    sides = (False, True) if mirrored else (False,)
    return [_turn(p, quarters, side, steps) for side in sides for quarters in range(4) for p in pictures]


def color_steps(pictures: list[Picture]) -> dict[int, tuple[int, int]]:
    """Step (rows, columns) from a cell of each color to the next cell of its snake; each color must have one of its own."""
    found: dict[int, set[tuple[int, int]]] = {}
    for picture in pictures:
        if picture.has_snake:
            cells = np.argwhere(picture.labels > BACKGROUND)
            cells = cells[np.argsort(picture.labels[tuple(cells.T)])]
            for here, step in zip(cells[:-1], np.diff(cells, axis=0)):
                found.setdefault(int(picture.colors[tuple(here)]), set()).add((int(step[0]), int(step[1])))
    steps = {color: next(iter(seen)) for color, seen in found.items() if len(seen) == 1}
    if len(set(steps.values())) != len(_STEPS) or len(found) != len(_STEPS):
        raise InputError(f"each of four colors must stand for one of the four directions; got {found}.")
    return steps


def _turn(picture: Picture, quarters: int, mirror: bool, steps: dict[int, tuple[int, int]]) -> Picture:
    """Turn a picture against the clock, then mirror it left to right."""
    color_of = {step: color for color, step in steps.items()}
    palette = np.zeros(max(steps) + 1, dtype=np.int64)
    for color, (down, right) in steps.items():
        for _ in range(quarters):
            down, right = -right, down
        palette[color] = color_of[down, -right if mirror else right]

    def moved(array: np.ndarray) -> np.ndarray:
        quarter = np.rot90(array, quarters)
        return np.ascontiguousarray(quarter[:, ::-1] if mirror else quarter)

    return Picture(palette[moved(picture.colors)], moved(picture.labels), picture.has_snake)


# --- real pictures ----------------------------------------------------------------------------


def read_snakes(path: str | Path) -> tuple[list[Picture], list[Picture]]:
    """Read training and test pictures of ``snakes.npz`` or ``hidden_snakes.npz`` (arrays X, Y, shape, pict)."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    with np.load(path, allow_pickle=False) as file:
        data = {name: file[name] for name in file.files}
    palette = _palette(data["X_train"])
    train, test = (_read_split(data, split, palette) for split in ("train", "test"))
    return train, test


def _palette(pixels: np.ndarray) -> np.ndarray:
    colors, count = np.unique(pixels, axis=0, return_counts=True)
    return colors[np.argsort(-count, kind="stable")]


def _read_split(data: dict[str, np.ndarray], split: str, palette: np.ndarray) -> list[Picture]:
    shapes = data[f"shape_{split}"].astype(np.int64)
    numbers = (data[f"X_{split}"][:, None, :] == palette).all(axis=2).argmax(axis=1)
    cuts = np.cumsum(shapes.prod(axis=1))[:-1]
    colors, labels = np.split(numbers, cuts), np.split(data[f"Y_{split}"].astype(np.int64), cuts)
    snake = data.get(f"pict_{split}", np.ones(len(shapes)))
    return [Picture(c.reshape(s), y.reshape(s), bool(p)) for c, y, s, p in zip(colors, labels, shapes, snake)]


# --- pictures as graphs -----------------------------------------------------------------------


def window_features(colors: np.ndarray, n_colors: int = N_COLORS) -> np.ndarray:
    """One-hot colors of the 3x3 window around each cell (outside is background): (cells, 9 * n_colors)."""
    height, width = colors.shape
    framed = np.pad(colors, 1, constant_values=BACKGROUND)
    around = [framed[i : i + height, j : j + width].ravel() for i in range(3) for j in range(3)]
    return np.eye(n_colors)[np.stack(around, axis=1)].reshape(height * width, 9 * n_colors)


def snake_graph(picture: Picture, edges: str = "directions", picture_node: bool = False) -> TypedGraph:
    """Build the graph of a picture: cells with the colors around them, joined to their four neighbors.

    The features of ``edges`` are "directions" (right and down) or "full": the windows of both ends for each direction, too
    (180, CSR). With ``picture_node`` a node ``picture`` (color counts, height, width in tens: 7 features) is joined to every
    cell by an edge that carries the cell's window (45).
    """
    if edges not in ("directions", "full"):
        raise InputError(f'edges must be "directions" or "full"; got {edges!r}.')
    shape = picture.colors.shape
    window = window_features(picture.colors)
    cells = sparse.csr_array(window)
    pairs, direction = grid_edges(*shape)
    between: Any = end_features(cells, pairs, direction, 2) if edges == "full" else np.eye(2)[direction]
    nodes: dict[str, Any] = {"cell": window}
    links: dict[tuple[str, str], Any] = {("cell", "cell"): (pairs, between)}
    if picture_node:
        counts = np.bincount(picture.colors.ravel(), minlength=N_COLORS)
        nodes["picture"] = np.array([[*counts, *shape]]) / 10.0  # of the size of the other features
        to_picture = np.stack([np.arange(len(window)), np.zeros(len(window), dtype=np.int64)], axis=1)
        links["cell", "picture"] = (to_picture, cells)
    return TypedGraph(nodes, links)


def snake_labels(picture: Picture, picture_node: bool = False) -> dict[str, np.ndarray]:
    """Labels of the graph of a picture: cells 0 to 10, the picture node 0 or 1."""
    labels = {"cell": picture.labels.ravel()}
    return {**labels, "picture": np.array([int(picture.has_snake)])} if picture_node else labels
