"""The fields of a made-up citation, as tagged text."""

from typing import Any

from rulefield.datasets import words as w
from rulefield.datasets.draw import Draw

HIERARCHY = {"author": "authors", "editor": "editors"}
SMALL = {"of", "in", "for", "and", "the", "on"}


class CitationParts:
    """Writes fields in one citation's style.

    Parameters
    ----------
    draw : Draw
    style : object
        See ``citations.Style``.
    noise : float
        Markers ("In", "pp.", "editors") are missing with this probability.
    hierarchical : bool
        Tag people inside authors and editors, and fields inside a venue.
    """

    def __init__(self, draw: Draw, style: Any, noise: float, hierarchical: bool):
        self.draw, self.style, self.noise, self.hierarchical = draw, style, noise, hierarchical

    # --- tags -------------------------------------------------------------------------------------

    def field(self, name: str, text: str) -> str:
        """Tag a field."""
        name = HIERARCHY.get(name, name) if self.hierarchical else name
        return f"<{name}> {text} </{name}>"

    def inside(self, name: str, text: str) -> str:
        """Tag a part of a field, in a hierarchy only."""
        return f"<{name}> {text} </{name}>" if self.hierarchical else text

    def marker(self, text: str) -> str:
        """Write a word that gives a field away, unless noise takes it."""
        return "" if self.draw.chance(self.noise) else text

    # --- people -----------------------------------------------------------------------------------

    def person(self, end: str) -> str:
        """Write one person in the citation's name style; ``end`` is punctuation after the last word."""
        draw, style = self.draw, self.style
        first, last = draw.one(w.FIRST), draw.one(w.LAST)
        if draw.chance(0.05):
            last = f"{draw.one(w.PARTICLES)} {last}"
        if draw.chance(0.05):
            last = f"{last}-{draw.one(w.LAST)}"
        middle = f"{draw.one(w.FIRST)[0]}." if draw.chance(0.3) else ""
        given = first if style.names == "First Last" else f"{first[0]}."
        if style.names == "Last F":
            given, middle = f"{first[0]}{middle[:1]}", ""
        behind = style.names in ("Last, F.", "Last F")
        comma = "," if style.names == "Last, F." else ""
        pieces = [("first", given), ("middle", middle)]
        pieces = [("last", last + comma), *pieces] if behind else [*pieces, ("last", last)]
        pieces = [(name, text) for name, text in pieces if text]
        name, text = pieces[-1]
        pieces[-1] = (name, text if text.endswith(".") and end == "." else text + end)
        return self.inside("person", " ".join(self.inside(name, text) for name, text in pieces))

    def people(self, end: str) -> str:
        """Write some people, the last followed by ``end``."""
        draw = self.draw
        n = draw.one([1, 2, 3, 4, 6], [3, 4, 3, 1.5, 0.5])
        et_al = n > 2 and draw.chance(0.15)
        joint = draw.one(["and", "&", ""], [5, 1, 1])
        made = []
        for i in range(n):
            last = i == n - 1 and not et_al
            if i == n - 1 and n > 1 and joint and not et_al:
                made.append(joint)
            before_and = i == n - 2 and n == 2 and joint
            made.append(self.person(end if last else "" if before_and else ","))
        return " ".join([*made, f"et al{end or '.'}"] if et_al else made)

    def authors(self) -> str:
        """Write the authors."""
        end = "" if self.style.date_first else self.style.stop
        return self.field("author", self.people(end))

    def editors(self, in_book: bool = True) -> str:
        """Write editors, inside a book or in the place of authors."""
        sign = self.draw.one(["editors,", "eds.,", "(eds.),", "editor,", "Eds."])
        text = f"{self.marker('In') if in_book else ''} {self.people(',')} {self.marker(sign)}"
        return self.field("editor", text.strip())

    # --- titles and venues ------------------------------------------------------------------------

    def phrase(self) -> str:
        """Write a few words of a title."""
        draw = self.draw
        adjective, noun, other = draw.one(w.ADJECTIVES), draw.one(w.NOUNS), draw.one(w.NOUNS)
        shapes = [
            f"{adjective} {noun}",
            f"{draw.one(w.VERBS)} {adjective} {noun}",
            f"{adjective} {noun} for {draw.one(w.ADJECTIVES)} {other}",
            f"{draw.one(w.VERBS)} {noun} in {other}",
            f"the {noun} of {other}",
            f"{noun} and {other}",
            f"{draw.one(w.LAST)}'s {noun} revisited",
            f"{noun} in {draw.one(w.DOMAINS)}",
            f"{noun} in {draw.one(w.CITIES)}, {draw.between(1850, 1940)}-{draw.between(1950, 1990)}",
        ]
        return draw.one(shapes, [4, 3, 4, 3, 3, 3, 0.7, 1.2, 0.4])

    def title(self, book: bool = False) -> str:
        """Write the title; it may look like a report, a proceedings or a journal."""
        draw, style = self.draw, self.style
        text = self.phrase()
        if draw.chance(0.35):
            leads = [
                "on",
                "toward",
                "notes on",
                "a report on",
                "an introduction to",
                "experiments in",
                "proceedings in",
            ]
            text = f"{draw.one(leads)} {text}"
        if draw.chance(0.22):
            second = draw.one(["a survey of", "the case of", "part II", "", "some"])
            text = f"{text}{draw.one([':', '.', '?', ' -'])} {second} {self.phrase()}"
        if book and draw.chance(0.3):
            text += draw.one([", second edition", ", volume II", ": a handbook"])
        words = text.split()
        if style.title_case:
            words = [word if word in SMALL else word[:1].upper() + word[1:] for word in words]
        words[0] = words[0][:1].upper() + words[0][1:]
        close = {"": "", '"': '"', "``": "''"}[style.quote]
        return self.field("title", style.quote + " ".join(words) + style.stop + close)

    def domain(self) -> str:
        """Name a field of study, sometimes two."""
        text = self.draw.one(w.DOMAINS)
        return f"{text} and {self.draw.one(w.DOMAINS)}" if self.draw.chance(0.12) else text

    def journal_name(self) -> str:
        """Name a journal, perhaps in short form."""
        domain = self.domain()
        if self.style.short:
            short = " ".join(word[:4].rstrip("aeiou") + "." if len(word) > 5 else word for word in domain.split())
            return self.draw.one(["J. {}", "{} Lett.", "IEEE Trans. {}", "Ann. {}", "Acta {}"]).format(short)
        names = ["Journal of {}", "{} Letters", "IEEE Transactions on {}", "Annals of {}", "{}", "{} Review"]
        names += ["Advances in {}", "The {} Journal", "International Journal of {}", "{} Magazine", "Notices in {}"]
        return self.draw.one(names).format(domain)

    def proceedings_name(self) -> str:
        """Name the proceedings of a conference, or a collection."""
        draw, domain = self.draw, self.domain()
        nth = draw.one(["First", "Second", "Third", "5th", "12th", "Twelfth", "1993", "21st"])
        meeting = draw.one(["Conference", "Symposium", "Workshop", "Meeting", "International Conference"])
        if self.style.short:
            acronym = f"{domain[:4].upper()}-{draw.between(80, 99)}"
            return "Proc. " + draw.one([f"{nth} {meeting} {domain}", f"of {domain}", acronym])
        names = [f"Proceedings of the {nth} {meeting} on {domain}", f"{nth} {meeting} on {domain}"]
        names += [f"{domain}: Proceedings of the {nth} {meeting}", f"Lecture Notes in {domain}"]
        return draw.one([*names, f"Handbook of {domain}", f"Advances in {domain}"], [6, 2, 1, 1, 1, 2])

    # --- small fields -----------------------------------------------------------------------------

    def date(self, parenthesis: bool, month_only: bool = False) -> str:
        """Write a year, perhaps with a month."""
        draw = self.draw
        year = str(draw.between(1962, 2023))
        month = draw.one(w.MONTHS)
        month = month[:3] + "." if self.style.short and len(month) > 4 else month
        if month_only:
            return self.field("date", self.inside("month", f"{month},"))
        if parenthesis:
            return self.field("date", self.inside("year", f"({year})" + draw.one(["", ".", ":"])))
        end = draw.one([".", "", ","], [6, 1, 1])
        text = self.inside("year", year + end)
        if draw.chance(0.25):
            text = f"{self.inside('month', month)} {text}"
        return self.field("date", text)

    def pages(self) -> str:
        """Write the first and last page."""
        first = self.draw.between(1, 900)
        text = f"{first}{self.draw.one(['-', '--', '–'])}{first + self.draw.between(2, 40)}"
        marker = self.marker(self.draw.one(["pp.", "pages", "p.", ""]))
        return self.field("pages", f"{marker} {text}{self.draw.one([',', '.', ''], [4, 2, 1])}".strip())

    def volume(self) -> str:
        """Write a volume, and perhaps a number."""
        draw, style = self.draw, self.style
        volume, number = draw.between(1, 120), draw.between(1, 12)
        if style.number_style == "1(2)":
            return f"{self.field('volume', str(volume))} {self.field('number', f'({number}),')}"
        if style.number_style.startswith("vol."):
            made = self.field("volume", f"{self.marker(draw.one(['vol.', 'Vol.', 'volume']))} {volume},".strip())
            if draw.chance(0.6):
                marker = self.marker(draw.one(["no.", "No.", "number"]))
                made += " " + self.field("number", f"{marker} {number},".strip())
            return made
        return self.field("volume", str(volume) + draw.one([":", ",", ""]))

    def publisher(self) -> str:
        """Write a publisher."""
        return self.field("publisher", self.draw.one(w.PUBLISHERS) + ",")

    def location(self) -> str:
        """Write a city, perhaps with a state or country."""
        draw = self.draw
        text = draw.one(w.CITIES)
        if draw.chance(0.45):
            text += f", {draw.one([*w.COUNTRIES, *(state[:2] for state in w.STATES)])}"
        return self.field("location", text + draw.one([",", ".", ":"], [5, 1, 1]))

    def institution(self) -> str:
        """Write a university, department or laboratory."""
        draw = self.draw
        city = draw.one(w.CITIES)
        names = ["University of {}", "{} University", "{} Institute of Technology"]
        school = draw.one([*(name.format(city) for name in names), f"{draw.one(w.LAST)} Laboratories"])
        if draw.chance(0.35):
            school = f"Department of {draw.one(w.DOMAINS)}, {school}"
        return self.field("institution", school + ",")

    def tech(self) -> str:
        """Write what kind of report or thesis it is."""
        draw = self.draw
        code = f"{draw.one(['TR', 'CS', 'AIM', 'RR'])}-{draw.between(70, 99)}-{draw.between(1, 99)}"
        kinds = [f"Technical Report {code}", f"Technical report {draw.between(1, 999)}", f"Research Report {code}"]
        return self.field("tech", draw.one([*kinds, "PhD thesis", "Master's thesis"]) + ",")

    def note(self) -> str:
        """Write a remark."""
        notes = ["To appear.", "Submitted.", "In preparation.", "In press.", "Invited paper.", "Revised edition."]
        notes += [f"Cited on page {self.draw.between(1, 300)}.", "Available from the author.", "Unpublished."]
        return self.field("note", self.draw.one(notes))

    # --- kinds of citation: the fields between title and date -----------------------------------------

    def article(self) -> list[str]:
        """Write a journal article."""
        made = [self.field("journal", self.journal_name() + ",")]
        if self.draw.chance(0.93):
            made.append(self.volume())
        return [*made, self.pages()] if self.draw.chance(0.8) else made

    def inproceedings(self) -> list[str]:
        """Write a conference paper."""
        draw = self.draw
        made = [self.editors()] if draw.chance(0.15) else []
        marker = "" if made else self.marker(draw.one(["In", "in", "In:", ""], [6, 1, 1, 1]))
        made.append(self.field("booktitle", f"{marker} {self.proceedings_name()},".strip()))
        made += [self.volume()] if draw.chance(0.08) else []
        optional = [(self.pages, 0.5), (self.location, 0.35), (self.publisher, 0.2)]
        return made + [write() for write, chance in optional if draw.chance(chance)]

    def chapter(self) -> list[str]:
        """Write a chapter of a book with editors."""
        draw = self.draw
        made = [self.editors(), self.field("booktitle", f"{self.phrase().capitalize()}, ".strip())]
        optional = [(self.pages, 0.6), (self.publisher, 0.85), (self.location, 0.5)]
        return made + [write() for write, chance in optional if draw.chance(chance)]

    def book(self) -> list[str]:
        """Write a book."""
        made = [self.publisher()]
        if self.draw.chance(0.6):
            made.insert(self.draw.between(0, 1), self.location())
        return made

    def report(self) -> list[str]:
        """Write a technical report or thesis."""
        made = [self.tech(), self.institution()]
        if self.draw.chance(0.15):
            made.reverse()
        return [*made, self.location()] if self.draw.chance(0.3) else made

    def draft(self) -> list[str]:
        """Write an unpublished paper."""
        return [self.note()] if self.draw.chance(0.7) else [self.institution(), self.note()]
