"""Log lines
=========

Six marked lines make a parser of logs, from Python and in a pipe; rules tell it what a line can hold.

``tail -f app.log | rulefield parse logs.rf -`` answers line by line with the model file that this story writes.

Run with ``python examples/log_lines.py [FOLDER]``; FOLDER gets the model.
"""

# %% Made-up lines with spans of characters.
import sys
import tempfile
from pathlib import Path

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_log_lines

texts, spans = make_log_lines(6, seed=1, messy=True)
new, gold = make_log_lines(300, seed=100, messy=True)
print(texts[0])

# %% Learn, then say what a line holds: one time, host, service and process; ports come with an address or a user.
parser = rf.TextParser().fit(texts, spans)
rules = [
    r.each_at_most_once().named("each field once"),
    *((r.segments(label) == 1).named(f"one {label}") for label in ("time", "host", "service", "process")),
    r.implies(r.present("port"), r.any_of(r.present("address"), r.present("user"))).named("a port of something"),
    r.before("service", "process").named("the service before its process"),
    r.before("time", "host").named("the time comes first"),
]
plain, ruled = (parser.score(new, gold, rules=acting) for acting in ([], rules))
print(f"F1 of fields without rules {plain:.3f}, with rules {ruled:.3f}")

# %% What rules does the data follow? Nobody needs to write all of them.
found = r.mine(*parser.labeled_tokens(texts, spans), scheme="BIO")
for mined in found[:5]:
    print("found:", mined.name)

# %% The parser under rules, in one file that runs no code when it is opened.
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
parser.model_.rules = rules
parser.save(folder / "logs.rf")
for line in new[:2]:
    print(rf.load(folder / "logs.rf").parse(line).fields)
print("now try: tail -f app.log | rulefield parse logs.rf -")
