"""Pages as graphs: lines of sight against a picture of the page, separators, regions, scales, relations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rulefield as rf
from rulefield.encode.documents.graphs import DocumentEncoder
from rulefield.encode.documents.layout import BELOW, RIGHT, Layout
from rulefield.encode.documents.scaling import QuantileScale
from rulefield.exceptions import InputError
from rulefield.kernels.pages.sight import visible_pairs


def seen_by_looking(low, high, order):
    """Shared sight by stretches between all ends: behind each box, the last one before it in every stretch."""
    ends = np.unique(np.concatenate([low, high]))
    found = {}
    for a, b in zip(ends[:-1], ends[1:]):
        last = -1
        for v in order:
            if low[v] <= a and high[v] >= b:
                if last >= 0:
                    found[last, v] = found.get((last, v), 0.0) + b - a
                last = v
    return found


@pytest.mark.parametrize("seed", range(30))
def test_the_sweep_sees_what_looking_everywhere_sees(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    low = rng.integers(0, 12, size=n).astype(float)
    high = low + rng.integers(0, 6, size=n)
    order = rng.permutation(n)
    first, second, shared = visible_pairs(low, high, order)
    pairs = list(zip(first.tolist(), second.tolist()))
    assert len(set(pairs)) == len(pairs)
    assert dict(zip(pairs, shared)) == pytest.approx(seen_by_looking(low, high, order))


def table(rows=3, columns=2, lines=2, skew=0.0, **more):
    """A ruled table: every cell has lines below each other; rulings fall by ``skew`` over the width."""
    boxes, labels = [], []
    for row in range(rows):
        for column in range(columns):
            for k in range(lines):
                left, top = 100 * column + 10, 100 * row + 10 + 30 * k + skew * column
                boxes.append([left, top, left + 60, top + 20])
                labels.append("first" if k == 0 else "more")
    across = [[0, 100 * row - 5 + min(skew, 0), 100 * columns, 100 * row - 5 + abs(skew)] for row in range(rows + 1)]
    down = [[100 * column - 1, 0, 100 * column + 1, 100 * rows] for column in range(columns + 1)]
    return rf.formats.Page(boxes, separators=across + down, labels=labels, **more)


@pytest.mark.parametrize("skew", [0.0, 15.0])
def test_separators_cut_a_table_into_its_cells(skew):
    layout = Layout([table(skew=skew)], "line")
    cells = layout.regions.reshape(6, 2)
    assert (cells[:, 0] == cells[:, 1]).all()
    assert len(np.unique(cells)) == 6
    below, right = layout.sights
    assert sorted(zip(below.pairs.tolist(), below.crossed.tolist()))[:2] == [([0, 1], 0), ([1, 4], 1)]
    assert (right.crossed == 1).all()
    assert layout.next_in_region.tolist() == [[2 * k, 2 * k + 1] for k in range(6)]
    whole = Layout([table(skew=skew)], "line", separators=False)
    assert len(np.unique(whole.regions)) == 1
    assert not whole.sights[BELOW].crossed.any()


def test_distances_to_separators_are_those_of_the_page():
    layout = Layout([table()], "line")
    assert layout.unit == 20.0
    assert_allclose(layout.to_separator(BELOW, False)[0][:2] * layout.unit, [25.0, 55.0])
    assert_allclose(layout.to_separator(BELOW, True)[0][:2] * layout.unit, [75.0, 45.0])
    assert_allclose(layout.to_separator(RIGHT, True)[0][:2] * layout.unit, [60.0, 60.0], atol=1.0)
    assert_allclose(layout.to_separator(RIGHT, False)[0][:2] * layout.unit, [40.0, 40.0], atol=1.0)


def test_separators_across_are_nodes_joined_to_what_stands_above_and_below():
    page = table(rows=2)  # boxes 0 to 3 in the first row, two per cell; rulings 0 to 2 across, then those down
    encoder = DocumentEncoder().fit([[page]])
    graph = encoder.graph([page])
    assert graph.n_nodes["separator"] == 3
    pairs, features = graph.edges["line", "separator"]
    first_and_last = {(0, 0), (2, 0), (1, 1), (3, 1), (4, 1), (6, 1), (5, 2), (7, 2)}
    assert set(map(tuple, pairs.tolist())) == first_and_last
    above, below = features[:, -2:].T
    assert {pair for pair, up in zip(map(tuple, pairs.tolist()), above) if up} == {(0, 0), (2, 0), (4, 1), (6, 1)}
    assert (above + below == 1).all()
    bare = encoder.graph([rf.formats.Page(page.boxes)])
    assert bare.n_nodes["separator"] == 0
    assert "separator" not in DocumentEncoder().fit([[rf.formats.Page(page.boxes)]]).graph([page]).nodes


def test_the_foot_of_a_page_sees_the_head_of_the_next():
    layout = Layout([table(), table()], "line", separators=False)
    last, head = 9, 12  # second line of the cell at the bottom left, first line of the next page
    assert [last, head] in layout.sights[BELOW].pairs.tolist()
    assert layout.page[[last, head]].tolist() == [0, 1]
    graph = DocumentEncoder().fit([[table(), table()]]).graph([table(), table()])
    assert (graph.n_nodes["page"], graph.n_nodes["line"]) == (2, 24)
    assert graph.relations["on"][2][-1].tolist() == [23, 1]


def test_neighbors_overlap_enough():
    page = rf.formats.Page([[0, 0, 10, 10], [0, 30, 10, 40], [9, 50, 30, 60]])
    assert Layout([page], "line").sights[BELOW].pairs.tolist() == [[0, 1]]


def test_scales_are_piecewise_linear_and_know_what_is_missing():
    rng = np.random.default_rng(0)
    column = np.append(rng.normal(size=50), np.nan)
    scale = QuantileScale.fit(column[:, None])
    made = scale(column[:, None])
    assert_allclose(made[:-1].sum(axis=1), 1.0)
    assert not made[-1].any()
    assert_allclose(made[:-1] @ scale.knots[0], column[:-1])  # a linear function is one of them
    assert_allclose(scale(np.array([[99.0]])), [[0, 0, 0, 0, 0, 1]])
    with pytest.raises(InputError, match="ascending"):
        QuantileScale((scale.knots[0][::-1],))
    assert QuantileScale.fit(np.full((3, 1), 2.0))(np.array([[7.0]])).tolist() == [[1.0]]


def test_every_column_has_a_name():
    page = table(texts=[f"line {k} of 12" for k in range(12)])
    encoder = DocumentEncoder().fit([[page]])
    graph = encoder.graph([page])
    names = encoder.names("line")
    assert len(names) == graph.nodes["line"].shape[1]
    assert "text 0:w=of" in names
    assert graph.nodes["line"][:, [names.index("text 0:w=of")]].sum() == 12


def test_boxes_inside_boxes_are_relations():
    page = rf.formats.Page(
        [[0, 0, 100, 50], [5, 5, 90, 20], [5, 25, 90, 40]], types=["block", "line", "line"], parents=[-1, 0, 0]
    )
    graph = DocumentEncoder().fit([[page]]).graph([page])
    assert graph.relations["line in block"][2].tolist() == [[0, 0], [1, 0]]
    assert graph.relations["line of block"][:2] == ("block", "line")
    assert "block below" in graph.relations
    assert graph.relations["below"][2].tolist() == [[0, 1]]


@pytest.mark.parametrize("seed", range(10))
def test_only_neighbors_see_no_other_box_and_no_separator(seed):
    """Counted over all lines of sight, on pages of boxes and rulings at random places."""
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 300, (25, 2))
    boxes = np.hstack([corner, corner + rng.integers([20, 8], [90, 15], (25, 2))])
    ruled = [[0, y, 400, y + 1] for y in rng.integers(0, 300, 3).tolist()]
    page = rf.formats.Page(boxes.tolist(), separators=ruled)
    relations = DocumentEncoder().fit([[page]]).graph([page]).relations
    for way, name in ((BELOW, "only below"), (RIGHT, "only right")):
        sight = Layout([page], "line").sights[way]
        seen = sight.pairs.tolist()
        alone = [
            pair
            for pair, cut in zip(seen, sight.crossed)
            if not cut and sum(a == pair[0] for a, _ in seen) == 1 == sum(b == pair[1] for _, b in seen)
        ]
        assert sorted(relations[name][2].tolist()) == sorted(alone)
    cells = DocumentEncoder().fit([[table()]]).graph([table()]).relations["only below"][2]
    assert cells.tolist() == [[2 * k, 2 * k + 1] for k in range(6)]  # no separator cuts a cell


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"boxes": [[0, 0, 1]]}, "shape"),
        ({"boxes": [[5, 0, 1, 1]]}, "left <= right"),
        ({"boxes": [[0, 0, 1, np.nan]]}, "boxes of a page"),
        ({"boxes": [[0, 0, 1, 1]], "labels": ["a", "b"]}, "labels of a page"),
        ({"boxes": [[0, 0, 1, 1]], "parents": [0]}, "parents"),
        ({"boxes": [[0, 0, 1, 1]], "width": -1.0}, "width"),
        ({"boxes": "no"}, "numbers"),
    ],
)
def test_pages_say_what_is_wrong_with_them(given, told):
    with pytest.raises(InputError, match=told):
        rf.formats.Page(**given)
