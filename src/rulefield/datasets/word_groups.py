"""Groups of words that occur between the same neighbors, from texts without labels; for ``TokenFeatures(lexicons=...)``."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from rulefield.exceptions import InputError

CONTEXT_WORDS = 1_000
"""Most frequent words that count as neighbors."""
DIMENSIONS = 50
"""Of the vectors that are grouped."""
MAX_PASSES = 50
"""Of k-means."""


def word_clusters(
    texts: Iterable[Sequence[str]],
    sizes: Sequence[int] = (30, 100, 300),
    *,
    min_count: int = 5,
    random_state: int = 0,
) -> dict[str, list[str]]:
    """Return lexicons of words that occur between the same neighbors in texts that need no labels.

    A word is described by how much more often each frequent word stands directly before or after it than by chance
    (positive pointwise mutual information), reduced to few dimensions and grouped by k-means. A chain that was trained on few
    labeled texts then knows something of words that it has not seen.

    Parameters
    ----------
    texts : iterable of sequences of tokens
        Thousands of them, unlabeled; a token that is a tuple counts by its first column.
    sizes : sequence of int
        Numbers of groups: coarse and fine ones, each a set of lexicons of its own.
    min_count : int
        Rarer words are left out.
    random_state : int

    Returns
    -------
    dict of str to list of str
        For ``TokenFeatures(lexicons=...)``.

    Examples
    --------
    >>> texts = [["red", "car"], ["blue", "car"], ["two", "dogs"], ["three", "dogs"]] * 5
    >>> sorted(map(sorted, word_clusters(texts, [4]).values()))
    [['blue', 'red'], ['car'], ['dogs'], ['three', 'two']]
    """
    rows = [[(token if isinstance(token, str) else token[0]).lower() for token in text] for text in texts]
    counts = Counter(word for row in rows for word in row)
    words = [word for word, count in counts.most_common() if count >= min_count]
    if len(words) < 2:
        raise InputError(
            f"word_clusters needs two words that occur {min_count} times or more; give more texts, or a smaller min_count."
        )
    vectors = _vectors(rows, words, random_state)
    lexicons: dict[str, list[str]] = {}
    for size in sizes:
        for word, group in zip(words, _groups(vectors, min(size, len(words)), random_state)):
            lexicons.setdefault(f"{size} groups: {group}", []).append(word)
    return lexicons


def _vectors(rows: list[list[str]], words: list[str], random_state: int) -> np.ndarray:
    """Return a vector of length 1 per word."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import svds

    number = {word: i for i, word in enumerate(words)}
    frequent = min(CONTEXT_WORDS, len(words))
    pairs: Counter[tuple[int, int]] = Counter()
    for row in rows:
        ids = [number.get(word, -1) for word in row]
        for left, right in zip(ids, ids[1:]):
            if right >= 0 and 0 <= left < frequent:
                pairs[right, left] += 1
            if left >= 0 and 0 <= right < frequent:
                pairs[left, frequent + right] += 1
    if not pairs:
        return np.ones((len(words), 1))
    word, context = np.array(list(pairs)).T
    count = np.array(list(pairs.values()), dtype=np.float64)
    by_word, by_context = np.bincount(word, count) + 1.0, np.bincount(context, count) + 1.0
    information = np.maximum(np.log(count * count.sum() / (by_word[word] * by_context[context])), 0.0)
    table = csr_array((information, (word, context)), shape=(len(words), 2 * frequent))
    rank = min(DIMENSIONS, min(table.shape) - 1)
    left_vectors, strength, _ = svds(table, rank, random_state=random_state)
    vectors = left_vectors * np.sqrt(strength)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _groups(vectors: np.ndarray, size: int, random_state: int) -> np.ndarray:
    from sklearn.cluster import KMeans

    return KMeans(size, n_init=4, max_iter=MAX_PASSES, random_state=random_state).fit_predict(vectors)
