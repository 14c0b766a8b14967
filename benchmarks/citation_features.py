"""Features of citation tokens for the paper benchmarks: built-in ones, word lists, and a rule-based segmenter."""

import re

from rulefield import TokenFeatures
from rulefield.datasets.words import word_lists

MONTHS = (
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
CUES = {
    "venue": "proc proceedings conference symposium workshop lecture notes in lncs international annual acm ieee",
    "journal": "journal transactions letters review annals bulletin magazine phys rev lett j trans",
    "publisher": "press springer elsevier wiley kluwer verlag north-holland mit cambridge oxford academic prentice hall",
    "institution": "university institute department laboratory school college dept univ lab center center",
    "report": "technical report tech rep tr memo thesis phd dissertation master preprint manuscript",
    "editor": "editor editors eds ed edited",
    "pages": "pages pp page p",
    "volume": "volume vol",
    "number": "number no issue",
    "month": MONTHS,
    "status": "press submitted appear preparation accepted published",
}
STARTS = re.compile(
    r"^(in|in:|proc\.?|proceedings|vol\.?|volume|pp\.?|pages|eds?\.?|editors?|technical|tech|phd|university|arxiv)$",
    re.I,
)


class CitationFeatures:
    """Built-in token features with word lists, plus where a simple segmenter would cut."""

    def __init__(self) -> None:
        lists = {name: set(words) for name, words in word_lists().items()}
        lists |= {name: set(words.split()) for name, words in CUES.items()}
        self.base = TokenFeatures(lexicons=lists)

    def transform(self, X):
        return [[[*f, *s] for f, s in zip(fs, segment(tokens))] for tokens, fs in zip(X, self.base.transform(X))]


def segment(tokens: list[str]) -> list[list[str]]:
    """Cuts after full stops and quotes and before cue words; each token's place in its piece, and the pieces before."""
    out, piece, place = [], 0, 0
    for t, token in enumerate(tokens):
        cut = t > 0 and (STARTS.match(token) is not None or _ends(tokens[t - 1]))
        if cut:
            piece, place = piece + 1, 0
        out.append([f"piece={min(piece, 8)}", f"place={min(place, 5)}", *(["cut"] if cut else [])])
        place += 1
    return out


def _ends(token: str) -> bool:
    """Whether a token ends a sentence: a full stop after more than an initial."""
    return token == "." or (len(token) > 3 and token.endswith(".")) or token.endswith(('"', "''"))
