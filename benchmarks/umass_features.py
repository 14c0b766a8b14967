"""UMass citations as windowed word, shape and affix features: the many-labels set."""

import re

from common import data_folder


def shape(word: str) -> str:
    """Aa1- classes with runs squeezed: ``B.V.`` is ``A.A.``, ``1979`` is ``1111``."""
    word = re.sub(r"[A-Z]", "A", word)
    word = re.sub(r"[a-z]", "a", word)
    word = re.sub(r"[0-9]", "1", word)
    return re.sub(r"a+", "a", word)


def word_features(word: str) -> list[str]:
    low = word.lower()
    return [f"w={low}", f"s={shape(word)}", f"p={low[:3]}", f"x={low[-3:]}"]


def features(tokens: list[str]) -> list[list[str]]:
    """Features of each token: its own, and those of the two before and after."""
    own = [word_features(token) for token in tokens]
    n = len(tokens)
    out = []
    for t in range(n):
        row = [*own[t], f"pos={10 * t // n}"]
        for d in (-2, -1, 1, 2):
            row += [f"{d}{f}" for f in own[t + d]] if 0 <= t + d < n else [f"{d}none"]
        out.append(row)
    return out


def umass(part: str) -> tuple[list[list[list[str]]], list[list[str]]]:
    """Feature lists and hierarchical labels of one part (training, dev, testing)."""
    from rulefield.datasets.tagged import load_umass

    data_folder()
    tokens, labels = load_umass(part)
    return [features(t) for t in tokens], labels
