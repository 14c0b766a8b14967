"""``rulefield warm-up``: small jobs that compile what larger ones need."""

from time import perf_counter

from rulefield.cli.options import command


@command("warm-up", "RUN pip install rulefield && rulefield warm-up")
def warm_up() -> None:
    """Compile what training, parsing and serving need, and keep it: for images of containers, before the first use."""
    from rulefield.datasets import make_addresses
    from rulefield.estimators.text.parser import TextParser
    from rulefield.kernels.jit import Kernel, compile_seconds
    from rulefield.rules import before, segments

    begin = perf_counter()
    texts, spans = make_addresses(150, 0, messy=True)
    parser = TextParser().fit(texts, spans)
    rules = [segments("zip") <= 1, (segments("city") <= 1).soft(1.0), before("state", "zip").soft(1.0)]
    parser.predict(texts)
    parser.parse_json(texts)
    parser.parse_all(texts[:40], rules=rules)
    parser.predict(texts, rules=rules)
    model, tokens = parser.model_, parser.tokens(texts[:20])
    for acting in ([], rules):
        model.decode(tokens, rules=acting, probability=True)
        model.predict_marginals(tokens, rules=acting)
        model.predict_kbest(tokens, rules=acting, k=3)
    kept = "" if Kernel.keeps_code else "; no folder can be written, so nothing is kept"
    print(f"compiled for {compile_seconds():.0f} of {perf_counter() - begin:.0f} s{kept}")
