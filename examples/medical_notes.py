"""Medical notes
=============

Drugs, doses and problems in short notes: few labels, what the ward knows as rules, and fields that a person has confirmed.

A dose belongs to a drug; a duration to a course. Such knowledge is written once and obeyed, and where a nurse has already
confirmed a field (``known=``) the rest of the note follows.

Run with ``python examples/medical_notes.py``.
"""

# %% Made-up notes: sixteen marked ones to learn from.
import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_notes

texts, spans = make_notes(16, seed=0)
new, gold = make_notes(200, seed=1)
print(texts[0])

# %% Rules at a price that is found: by how much more often the chain breaks them, on notes held out, than people do.
written = [
    r.implies(r.present("dose"), r.present("drug")).soft("auto").named("a dose is a drug's"),
    r.before("problem", "drug").soft("auto").named("problems first"),
    (r.segments("dose") <= r.segments("drug")).soft("auto").named("no more doses than drugs"),
]
chain = rf.ChainCRF(scheme="BIO")
plain = rf.TextParser(model=chain).fit(texts, spans)
ruled = rf.TextParser(model=rf.RuledCRF(chain, rules=written)).fit(texts, spans)
print(f"chain alone: F1 {plain.score(new, gold):.3f}; with rules: F1 {ruled.score(new, gold):.3f}")
print(ruled.model_.report())

# %% One note: fields, how sure each is, and the runner-up.
note = "Seen for cough and fever . Start amoxicillin 500 mg every 8 hours for 7 days and aspirin 81 mg daily ."
parse = ruled.parse(note)
print(parse)
print("runner-up:", [(s.label, s.text) for s in parse.alternatives(2)[-1].spans])

# %% A nurse confirms one field; the model keeps it and fits the rest around it.
start = note.index("aspirin")
confirmed = ruled.parse(note, known=[(start, start + len("aspirin"), "drug")])
print(confirmed.fields)
