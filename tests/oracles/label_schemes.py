"""Independent definitions of label schemes: whole sequences, recursively, with no notion of a step."""

import re

FLAT = {
    "BIO": r"(?:O|B(?:I)*)*",
    "IOB1": None,  # needs types of neighbors; see flat_iob1
    "BIOES": r"(?:O|S|BI*E)*",
    "BILOU": r"(?:O|U|BI*L)*",
    "IOE1": None,  # as IOB1, read backwards
    "IOE2": r"(?:O|I*E)*",
}


def split(label):
    """Components of a label: (prefix, type), or None for outside."""
    parts = [None if p in ("", "O") else tuple(p.split("-", 1)) for p in label.split("/")]
    while parts and parts[-1] is None:
        parts.pop()
    return parts


def flat_segments(components, scheme):
    """Segments [(start, stop, type)] of one level, or None where the level is impossible."""
    if scheme == "IOE1":  # IOB1 read from the end, with E for B
        turned = [c and (c[0].replace("E", "B"), c[1]) for c in reversed(components)]
        found = flat_segments(turned, "IOB1")
        return found and sorted((len(components) - b, len(components) - a, kind) for a, b, kind in found)
    n, found, t = len(components), [], 0
    while t < n:
        if components[t] is None:
            t += 1
            continue
        prefix, kind = components[t]
        stop = t + 1
        if scheme in ("BIO", "IOB1"):
            while stop < n and components[stop] == ("I", kind):
                stop += 1
            if scheme == "BIO" and prefix != "B":
                return None
            if scheme == "IOB1":
                after_same = bool(found) and found[-1][1] == t and found[-1][2] == kind
                if (prefix == "B") != after_same:
                    return None
        elif scheme == "IOE2":
            stop = t
            while stop < n and components[stop] == ("I", kind):
                stop += 1
            if stop == n or components[stop] != ("E", kind):
                return None
            stop += 1
        else:
            last, single = ("E", "S") if scheme == "BIOES" else ("L", "U")
            if prefix == "B":
                while stop < n and components[stop] == ("I", kind):
                    stop += 1
                if stop == n or components[stop] != (last, kind):
                    return None
                stop += 1
            elif prefix != single:
                return None
        found.append((t, stop, kind))
        t = stop
    return found


def possible(labels, scheme):
    """Whether a whole label sequence is possible: first level flat, then the rest inside every piece."""
    return pieces([split(label) for label in labels], scheme) is not None


def pieces(paths, scheme, offset=0, level=0, prefix=()):
    """All segments [(start, stop, level, types)] of a sequence of paths, or None where it is impossible."""
    if not paths or not any(paths):
        return []
    segments = flat_segments([p[0] if p else None for p in paths], scheme)
    if segments is None:
        return None
    found, t = [], 0
    for start, stop, kind in [*segments, (len(paths), len(paths), None)]:
        for a, b, name in ((t, start, None), (start, stop, kind)):
            if a == b:
                continue
            here = (*prefix, name or "")
            inner = pieces([p[1:] for p in paths[a:b]], scheme, offset + a, level + 1, here)
            if inner is None:
                return None
            if name is not None:
                found.append((offset + a, offset + b, level, "/".join(here)))
            found += inner
        t = stop
    return found


def conlleval_chunks(tags):
    """Chunks [(start, stop, type)] as the conlleval script finds them: its two tables, written out."""
    chunks, begin, before = [], None, ("O", "")
    for t, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        p, k = before
        ends = (p, prefix) in {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("B", "S"), ("I", "S")}
        ends |= p in ("E", "S") or (p != "O" and k != kind)
        starts = prefix in ("B", "S") or (p in "ESO" and prefix in ("E", "I")) or (prefix != "O" and k != kind)
        if begin is not None and ends:
            chunks.append((begin, t, k))
            begin = None
        if starts:
            begin = t
        before = (prefix, kind)
    return chunks


def pattern(scheme):
    """Regular expression of the prefixes of possible sequences with one type."""
    return re.compile(FLAT[scheme] + r"\Z")
