"""Classes of tokens recognized by their characters: numbers, years, initials, addresses of several kinds."""

import re
from functools import lru_cache
from itertools import groupby
from string import ascii_letters

from rulefield.regexes import limited

REMEMBERED = 20_000
"""Distinct tokens whose description is kept."""
MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec"
# What little data cannot teach: words that tell the parts of addresses and names apart.
STREETS = (
    "aly|alley|arcade|ave?|avenue|bend|blvd|boulevard|bridge|broadway|bypass|causeway|cir|circle|court|cove|cres|crescent|"
    "crossing|ct|cv|dr|drive|expressway|expy|freeway|fwy|highway|hwy|junction|lane|ln|loop|parkway|pass|path|pike|pkwy|"
    "pl|place|plaza|plz|point|rd|road|route|row|rte|run|sq|square|st|street|ter|terrace|tpke|trace|trail|trl|turnpike|"
    "walk|way|xing"
)
DIRECTIONS = "[nsew]|[ns][ew]|(north|south)-?(east|west)?|east|west"
STATE_NAMES = dict(
    entry.split(maxsplit=1)
    for entry in (
        "al alabama; ak alaska; az arizona; ar arkansas; ca california; co colorado; ct connecticut; de delaware; "
        "fl florida; ga georgia; hi hawaii; ia iowa; id idaho; il illinois; in indiana; ks kansas; ky kentucky; la "
        "louisiana; ma massachusetts; md maryland; me maine; mi michigan; mn minnesota; mo missouri; ms "
        "mississippi; mt montana; nc north carolina; nd north dakota; ne nebraska; nh new hampshire; nj new "
        "jersey; nm new mexico; nv nevada; ny new york; oh ohio; ok oklahoma; or oregon; pa pennsylvania; ri rhode "
        "island; sc south carolina; sd south dakota; tn tennessee; tx texas; ut utah; va virginia; vt vermont; wa "
        "washington; wi wisconsin; wv west virginia; wy wyoming"
    ).split("; ")
)
"""Names of states, in lower case, by their codes."""
STATES = "|".join([*STATE_NAMES, "dc", *(name for name in STATE_NAMES.values() if " " not in name)])
PHRASES = (
    *((name, "state") for name in STATE_NAMES.values() if " " in name),
    *((name, "box") for name in ("p o", "rural route")),
    *((name, "place") for name in ("business park", "city hall", "court house", "industrial park", "office park")),
    *((name, "place") for name in ("high school", "town square", "trailer park")),
)
"""Two words of a class in which the first alone is not, and the class."""
UNITS = "#|apt|apartment|bldg|building|dept|fl|floor|lot|rm|room|ste|suite|trlr|unit"
BOXES = "box|hc|p[.]?o|pob|rfd|rr|rural"
PLACES = (
    "airport|arena|building|campus|castle|center|chapel|church|clinic|club|college|complex|courthouse|fairgrounds|"
    "hall|hospital|hotel|house|inn|institute|library|lodge|mall|market|medical|museum|office|plaza|resort|school|shopping|"
    "stadium|station|terminal|theater|tower|towers|university|village"
)
LEGAL_FORMS = (
    "ag|bv|co|company|corp|corporation|gmbh|inc|incorporated|limited|l[.]?l[.]?c|llp|lp|ltd|nv|pc|plc|pllc|sa|trust"
)

# A token may be in several classes. Surrounding punctuation is taken off first, except where a class says so. Every
# pattern takes linear time: no two neighboring repetitions match the same signs.
TOKEN_CLASSES: dict[str, str] = {
    "number": r"\d+([.,]\d+)*",
    "digits": r".*\d.*",
    "year": r"(1[6-9]|20)\d\d[a-z]?",
    "ordinal": r"\d+(st|nd|rd|th)",
    "range": r"\w*\d\s*(-+|–|—|:)\s*\w*\d",
    "roman": r"[IVXLC]{2,}",
    "initial": r"[A-Z]",
    "initials": r"([A-Z]\.[-]?){2,}|[A-Z]\.-?[A-Z]",
    "month": rf"(?i:({MONTHS})[a-z]*)",
    "zip": r"\d{5}(-\d{4})?",
    "two-capitals": r"[A-Z]{2}",
    "all-capitals": r"[A-Z][A-Z&-]+",
    "capitalized": r"[A-Z][a-z'’-]+",
    "camel": r"[A-Z]?[a-z]+[A-Z]\w*",
    "lower": r"[a-z]+",
    "letters": r"[^\W\d_]+",
    "hyphenated": r"\w+(-\w+)+",
    "email": r"[^@\s]+@[^@\s]+\.\w+",
    "url": r"(?i:(https?|ftp)://\S+|www\.\S+)",
    "doi": r"(?i:(doi:)?10\.\d{4,}/\S+)",
    "money": r"[$€£]\d[\d.,]*|\d[\d.,]*[$€£%]",
    "no-vowels": r"(?i:[b-df-hj-np-tv-xz]{2,})",
    "street": rf"(?i:{STREETS})",
    "direction": rf"(?i:{DIRECTIONS})",
    "state": rf"(?i:{STATES})",
    "unit": rf"(?i:{UNITS})",
    "box": rf"(?i:{BOXES})",
    "place": rf"(?i:{PLACES})",
    "legal-form": rf"(?i:{LEGAL_FORMS})",
}
PUNCTUATION: dict[str, str] = {
    "punctuation": r"[^\w\s]+",
    "ends-comma": r".+,",
    "ends-stop": r".+\.",
    "ends-colon": r".+[:;]",
    "opens": r"[\"'“‘(\[{<`].*",
    "closes": r".*[\"'”’)\]}>][.,:;]?",
}
_BEFORE, _BEHIND = re.compile(r"[^\w$€£@]*"), re.compile(r"[^\w%€£$]*")


_DIGIT = re.compile(r"\d")
_TABLES = (STREETS, STATES, UNITS, BOXES, PLACES, LEGAL_FORMS)
MONTH_BEGINS = frozenset(MONTHS.split("|"))

LISTED_WORDS = frozenset(word for table in _TABLES for word in table.split("|")) | frozenset(
    "av ave llc n e s w ne nw se sw north south northeast northwest southeast southwest east west po".split()
)
"""All words of letters alone that a class lists, in lower case."""


class TokenClasses:
    """Names of the classes of a token, from tables of regular expressions that must match all of it.

    Parameters
    ----------
    extra : dict of str to str, optional
        Further classes: name and regular expression, matched against the token as it is.
    """

    def __init__(self, extra: dict[str, str] | None = None):
        self.inner = [(name, re.compile(pattern)) for name, pattern in TOKEN_CLASSES.items()]
        self.whole = [(name, re.compile(pattern)) for name, pattern in PUNCTUATION.items()]
        self.memory: dict[str, list[str]] = {}
        self.extra = [(name, limited(pattern)) for name, pattern in (extra or {}).items()]

    def __call__(self, token: str) -> list[str]:
        """Classes of one token, in the order of the tables."""
        found = self.memory.get(token)
        if found is None:
            if len(self.memory) >= REMEMBERED:
                self.memory.clear()
            alike = token if self.extra else stand_in(token)
            found = self.memory.get(alike) or self._of(alike)
            self.memory[token] = self.memory[alike] = found
        return found

    def _of(self, token: str) -> list[str]:
        core = without_edges(token, _BEFORE, _BEHIND) or token
        found = [name for name, pattern in self.inner if pattern.fullmatch(core)]
        if not (token[:1].isalnum() and token[-1:].isalnum()):  # all of these begin or end with another sign
            found += [name for name, pattern in self.whole if pattern.fullmatch(token)]
        return found + [name for name, pattern in self.extra if pattern.fullmatch(token)]


_CASES = str.maketrans(ascii_letters, "b" * 26 + "B" * 26)
_VOWEL = re.compile(r"[AEIOUYaeiouy]")


def stand_in(token: str) -> str:
    """Return a token of the same classes that stands for many: digits, or letters that no class lists."""
    if not token.isascii():
        return token
    if token.isdecimal():  # its length counts, and how a year would begin
        return token[:2] + "0" * (len(token) - 2)
    low = token.lower()
    if not token.isalpha() or low in LISTED_WORDS or low[:3] in MONTH_BEGINS or not token.strip("IVXLC"):
        return token
    made = token.translate(_CASES)  # case counts, and whether there is a vowel
    return made[:-1] + ("A" if made[-1] == "B" else "a") if _VOWEL.search(token) else made


def without_edges(token: str, before: re.Pattern[str], behind: re.Pattern[str]) -> str:
    """Take off what matches ``before`` at the beginning and (read backwards) ``behind`` at the end, in linear time.

    A pattern with ``$`` would be tried at every place of the token.
    """
    rest = token[found.end() :] if (found := before.match(token)) else token
    return rest[: len(rest) - found.end()] if (found := behind.match(rest[::-1])) else rest


_SHAPES = str.maketrans(
    {chr(c): "X" if chr(c).isupper() else "x" if chr(c).islower() else "9" for c in range(128) if chr(c).isalnum()}
)


def shape(token: str) -> str:
    """Write capitals as X, small letters as x, digits as 9; other letters keep their case: ``Ab12`` is ``Xx99``."""
    made = token.translate(_SHAPES)
    if made.isascii():
        return made
    made = _DIGIT.sub("9", made)
    return "".join(("X" if c.isupper() else "x") if c.isalpha() and not c.isascii() else c for c in made)


def short_shape(token: str) -> str:
    """Shape with runs shortened to one sign: ``Washington,`` is ``Xx,``."""
    return without_runs(shape(token))


@lru_cache(maxsize=REMEMBERED)
def without_runs(outline: str) -> str:
    """Return a shape with runs shortened to one sign."""
    return "".join(sign for sign, _ in groupby(outline))
