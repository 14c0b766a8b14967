"""Proof files with one thing changed."""

from copy import deepcopy

NUMBERS = (0, 1, -1, 2, 7, 0.5, -0.25, 1e-9, 1e300, None, True, "1", [], {})


def leaves(value, path=()):
    """Paths of all numbers, names and nulls."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from leaves(each, (*path, name))
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from leaves(each, (*path, i))
    else:
        yield path


def altered(text, rng):
    """A copy in which one leaf, or the length of one list, is another."""
    found = deepcopy(text)
    places = list(leaves({name: text[name] for name in ("problem", "witness", "bound", "tree")}))
    path = places[rng.integers(len(places))]
    if rng.random() < 0.3:  # bounds and steps are few among many scores
        steps = [p for p in places if p[0] in ("bound", "tree", "witness")]
        path = steps[rng.integers(len(steps))] if steps else path
    at = found
    for key in path[:-1]:
        at = at[key]
    old, how = at[path[-1]], rng.random()
    if how < 0.1 and isinstance(at, list):
        del at[path[-1]]
    elif how < 0.2 and isinstance(at, list):
        at.insert(path[-1], old)
    elif how < 0.4 or not isinstance(old, int | float) or isinstance(old, bool):
        at[path[-1]] = NUMBERS[rng.integers(len(NUMBERS))]
    elif isinstance(old, float):
        at[path[-1]] = old * float(rng.choice([0.5, 0.999, 1.001, 2.0, -1.0])) + float(
            rng.choice([0.0, 1e-6, -1e-6, 1.0])
        )
    else:
        at[path[-1]] = old + int(rng.choice([-2, -1, 1, 2]))
    return found
