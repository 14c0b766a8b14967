"""Snake pictures: what they promise, and their graphs."""

import numpy as np
import pytest

from rulefield.datasets.snakes import (
    Picture,
    holds_snake,
    make_snakes,
    read_snakes,
    snake_graph,
    snake_labels,
    turned_snakes,
    window_features,
)
from rulefield.exceptions import InputError

STEPS = {1: (-1, 0), 2: (0, 1), 3: (1, 0), 4: (0, -1)}


def test_colors_lead_from_head_to_tail():
    for picture in make_snakes(20, seed=1):
        assert sorted(picture.labels[picture.labels > 0]) == list(range(1, 11))
        assert ((picture.labels > 0) == (picture.colors > 0)).all()
        for k in range(1, 10):
            (i,), (j,) = np.nonzero(picture.labels == k)
            down, right = STEPS[int(picture.colors[i, j])]
            assert picture.labels[i + down, j + right] == k + 1
        assert holds_snake(picture.colors)


def test_hidden_pictures_hold_a_snake_or_not():
    pictures = make_snakes(10, seed=2, hidden=True)
    assert [p.has_snake for p in pictures] == [True, False] * 5
    for picture in pictures:
        assert holds_snake(picture.colors) == picture.has_snake == bool(picture.labels.any())


def test_the_same_seed_draws_the_same_pictures():
    one, two = make_snakes(3, seed=5), make_snakes(3, seed=5)
    assert all((a.colors == b.colors).all() for a, b in zip(one, two))


def test_windows_are_one_hot_around_the_cell():
    picture = make_snakes(1)[0]
    window = window_features(picture.colors).reshape(*picture.colors.shape, 3, 3, 5)
    assert (window.sum(axis=-1) == 1).all()
    assert (window[:, :, 1, 1].argmax(axis=-1) == picture.colors).all()
    assert (window[:, 1:, 1, 0].argmax(axis=-1) == picture.colors[:, :-1]).all()
    assert (window[0, :, 0, :, 0] == 1).all()


@pytest.mark.parametrize(("edges", "width"), [("directions", 2), ("full", 180)])
def test_graphs_have_the_features_of_the_paper(edges, width):
    picture = make_snakes(1)[0]
    graph = snake_graph(picture, edges, picture_node=True)
    pairs, features = graph.edges["cell", "cell"]
    assert features.shape == (len(pairs), width)
    assert graph.nodes["cell"].shape[1] == 45
    assert graph.nodes["picture"].shape == (1, 7)
    assert graph.edges["cell", "picture"][1].shape[1] == 45
    assert {t: len(y) for t, y in snake_labels(picture, True).items()} == graph.n_nodes


def test_reads_the_layout_of_the_real_sets(tmp_path):
    pictures = make_snakes(4, seed=3, hidden=True)
    color = np.array([[0, 0, 255], [255, 0, 0], [0, 255, 0], [0, 255, 255], [255, 255, 0]], dtype=np.uint8)
    arrays = {}
    for split in ("train", "test"):
        arrays[f"X_{split}"] = np.concatenate([color[p.colors.ravel()] for p in pictures])
        arrays[f"Y_{split}"] = np.concatenate([p.labels.ravel() for p in pictures]).astype(np.uint8)
        arrays[f"shape_{split}"] = np.array([p.colors.shape for p in pictures])
        arrays[f"pict_{split}"] = np.array([p.has_snake for p in pictures])
    np.savez(tmp_path / "snakes.npz", **arrays)
    train, test = read_snakes(tmp_path / "snakes.npz")
    for got, expected in zip(train + test, pictures + pictures):
        assert (got.labels == expected.labels).all()
        assert got.has_snake == expected.has_snake
        assert ((got.colors == 0) == (expected.colors == 0)).all()


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(InputError, match="no file"):
        read_snakes(tmp_path / "none.npz")
    with pytest.raises(InputError, match="directions"):
        snake_graph(make_snakes(1)[0], "diagonal")


def test_turned_pictures_are_snakes_again_and_all_different():
    pictures = make_snakes(12, seed=3, hidden=True)
    turned = turned_snakes(pictures)
    assert len(turned) == 8 * len(pictures)
    assert len(turned_snakes(pictures, mirrored=False)) == 4 * len(pictures)
    for before, after in zip(pictures, turned):
        assert (before.colors == after.colors).all()
        assert (before.labels == after.labels).all()
    for position in range(8):
        for before, after in zip(pictures, turned[position * 12 :]):
            assert before.has_snake == after.has_snake == holds_snake(after.colors)
            assert np.bincount(before.labels.ravel()).tolist() == np.bincount(after.labels.ravel()).tolist()
    for k in range(0, 12, 2):  # labels and colors moved together: following colors still counts up
        for after in turned[k::12]:
            for label in range(1, 10):
                (i,), (j,) = np.nonzero(after.labels == label)
                down, right = STEPS[int(after.colors[i, j])]
                assert after.labels[i + down, j + right] == label + 1
        assert len({after.labels.tobytes() + bytes(after.labels.shape) for after in turned[k::12]}) == 8


def test_colors_without_one_meaning_cannot_be_turned():
    picture = make_snakes(1)[0]
    grey = Picture((picture.colors > 0).astype(np.int64), picture.labels)
    with pytest.raises(InputError, match="four colors"):
        turned_snakes([grey])
