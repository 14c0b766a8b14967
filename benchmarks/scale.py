"""Past memory and past one machine: memory against python-crfsuite, corpora on disk, Dask, features, growth.

Sentences beyond CoNLL-2000 are made of real ones: the beginning of one up to a chunk's end, the rest of another, and one
word in a hundred gets a number behind it, so that the vocabulary grows with the corpus (about 0.9 weights per token).
Every figure comes from fresh processes; fits for memory take 12 iterations (a full history), on both sides. scikit-learn
imports pandas where it is installed (some 70 MB that no chain uses): memory is measured as if it were not.

    RULEFIELD_DATA=... python benchmarks/scale.py                          # all; --quick: small sizes, to see that it runs
    RULEFIELD_DATA=... python benchmarks/scale.py --only growth,cluster_equal   # some figures, and what comes with them
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from common import conll2000, crfpp_features, data_folder, peak_megabytes, worker

QUICK = "--quick" in sys.argv
MANY, LARGE, SMALL = (2_000, 6_000, 1_000) if QUICK else (50_000, 200_000, 10_000)
LIMITED = 5_000 if QUICK else 85_000  # 2 million tokens
BASE = 1_000 if QUICK else 0  # 0: CoNLL-2000 itself
ITERATIONS = 12
PART_TOKENS = 20_000 if QUICK else 150_000


def sentences(n: int, seed: int = 0) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Recombined sentences: feature lists and labels."""
    from rulefield.datasets.columns import load_conll2000

    X, y = load_conll2000("train")
    rng = np.random.default_rng(seed)
    cuts = [[t for t in range(1, len(labels)) if not labels[t].startswith("I")] or [len(labels)] for labels in y]
    for _ in range(n):
        a, b = rng.integers(len(X), size=2)
        i, j = cuts[a][rng.integers(len(cuts[a]))], cuts[b][rng.integers(len(cuts[b]))]
        tokens, labels = [*X[a][:i], *X[b][j:]], [*y[a][:i], *y[b][j:]]
        fresh = rng.random(len(tokens)) < 0.01
        tokens = [(f"{w}{rng.integers(10**6)}", p) if new else (w, p) for (w, p), new in zip(tokens, fresh)]
        yield crfpp_features(tokens), labels


# --- jobs of fresh processes ----------------------------------------------------------------------


def fit_crfsuite(n: int, stream: bool) -> dict:
    import pycrfsuite

    source = sentences(n) if n else zip(*conll2000("train"))
    items = source if stream else list(source)
    trainer = pycrfsuite.Trainer(verbose=False)
    for xs, ys in items:
        trainer.append(xs, ys)
    trainer.select("lbfgs")
    trainer.set_params({"c1": 0.0, "c2": 0.5, "max_iterations": ITERATIONS})
    trainer.train(os.path.join(tempfile.mkdtemp(), "model"))
    return {"peak_mb": peak_megabytes()}


def fit_rulefield(n: int, stream: bool) -> dict:
    from rulefield import ChainCRF

    source = sentences(n) if n else zip(*conll2000("train"))
    crf = ChainCRF(start_end=False, max_iter=ITERATIONS)
    if stream:
        crf.fit(iter(source))
    else:
        X, y = map(list, zip(*source))
        crf.fit(X, y)
    return {"peak_mb": peak_megabytes(), "weights": crf.theta_.size}


def write(folder: str, n: int, times: int) -> dict:
    """Write a corpus of n recombined sentences (0: CoNLL-2000 itself), ``times`` over."""
    import rulefield as rf

    begun = time.process_time()
    source = (pair for _ in range(times) for pair in (sentences(n) if n else zip(*conll2000("train"))))
    corpus = rf.write_corpus(source, folder, part_tokens=PART_TOKENS)
    size = sum(file.stat().st_size for file in Path(folder).iterdir())
    return {
        "cpu": time.process_time() - begun,
        "tokens": corpus.n_tokens,
        "parts": len(corpus.parts),
        "bytes_per_token": size / corpus.n_tokens,
        "peak_mb": peak_megabytes(),
    }


def fit_corpus(folder: str, iterations: int, limit_mb: int = 0) -> dict:
    import rulefield as rf

    if limit_mb:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit_mb << 20, limit_mb << 20))
    crf = rf.ChainCRF(start_end=False, max_iter=iterations).fit(rf.open_corpus(folder))
    return {"peak_mb": peak_megabytes(), "objective": crf.log_[-1].objective, "weights": crf.theta_.size}


def fit_in_memory_under(n: int, limit_mb: int) -> dict:
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (limit_mb << 20, limit_mb << 20))
    try:
        return {"fits": 1, **fit_rulefield(n, stream=True)}
    except MemoryError:
        return {"fits": 0}


def same_parts_in_memory(folder: str, iterations: int) -> dict:
    """L-BFGS from zeros with the parts of a corpus held in memory, and with the corpus itself: both final objectives."""
    import rulefield as rf
    from rulefield.learning.chain.likelihood import ChainLikelihood
    from rulefield.learning.chain.parts import CorpusLikelihood, scratch_folder
    from rulefield.learning.lbfgs import minimize_lbfgs
    from rulefield.models.chain_transfer import restricted
    from rulefield.parallel import Threads

    corpus = rf.open_corpus(folder)
    model = rf.ChainCRF(start_end=False, max_iter=1).fit(corpus).model_

    class InMemory:
        def __init__(self):
            self.parts = []
            for part in corpus:
                own, index = restricted(model, part.columns.astype(np.int64))
                bounds = np.array([0, len(part.labels)], np.uint64)
                self.parts.append((ChainLikelihood(own, part.sequences, part.labels, bounds=bounds), index))

        def value_and_gradient(self, theta):
            value, gradient = 0.5 * float(theta @ theta), theta.copy()
            for likelihood, index in self.parts:
                v, g = likelihood.value_and_gradient(theta[index])
                value += v
                gradient[index] += g
            return value, gradient

    here = minimize_lbfgs(InMemory(), model.zeros(), max_iter=iterations)
    with scratch_folder(corpus.folder) as scratch, Threads(1) as threads:
        f = CorpusLikelihood(corpus, model, scratch, threads, l2=1.0)
        there = minimize_lbfgs(f, model.zeros(), max_iter=iterations)
    return {"memory": here.objective, "disk": there.objective, "iterations": there.n_iter}


def evaluation_cost(folder: str) -> dict:
    """CPU seconds per token of one evaluation, least of three."""
    import rulefield as rf
    from rulefield.learning.chain.parts import CorpusLikelihood, scratch_folder
    from rulefield.parallel import Threads

    corpus = rf.open_corpus(folder)
    model = rf.ChainCRF(start_end=False, max_iter=1).fit(corpus).model_
    theta = 0.1 * np.random.default_rng(0).normal(size=model.size)
    with scratch_folder(corpus.folder) as scratch, Threads(1) as threads:
        f = CorpusLikelihood(corpus, model, scratch, threads, l2=1.0)
        f.value_and_gradient(theta)
        costs = []
        for _ in range(3):
            begun = time.process_time()
            f.value_and_gradient(theta)
            costs.append(time.process_time() - begun)
    return {"ns_per_token": 1e9 * min(costs) / corpus.n_tokens, "weights": model.size, "tokens": corpus.n_tokens}


def cluster_overhead(folder: str) -> dict:
    """Wall seconds of one evaluation, least of three: two threads, two workers."""
    from distributed import Client, LocalCluster

    import rulefield as rf
    from rulefield.learning.chain.parts import CorpusLikelihood, scratch_folder
    from rulefield.parallel import Threads, Workers

    corpus = rf.open_corpus(folder)
    model = rf.ChainCRF(start_end=False, max_iter=1).fit(corpus).model_
    theta = 0.1 * np.random.default_rng(0).normal(size=model.size)
    seconds, gradients = {}, []
    with (
        scratch_folder(corpus.folder) as scratch,
        Threads(2) as threads,
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        for name, executor in (("threads", threads), ("workers", Workers(client))):
            f = CorpusLikelihood(corpus, model, scratch, executor, l2=1.0)
            gradients.append(f.value_and_gradient(theta)[1])
            walls = []
            for _ in range(3):
                begun = time.perf_counter()
                f.value_and_gradient(theta)
                walls.append(time.perf_counter() - begun)
            seconds[name] = min(walls)
    return {**seconds, "equal": int(np.array_equal(*gradients)), "weights": model.size}


def cluster_equal(folder: str) -> dict:
    """Whether 1, 2 and 4 workers, and 2 of which one is killed, give the weights that threads give."""
    from distributed import Client, LocalCluster

    import rulefield as rf

    corpus = rf.open_corpus(folder)

    def fit(client=None, after=None) -> np.ndarray:
        crf = rf.ChainCRF(start_end=False, max_iter=15)
        if after is not None:
            threading.Timer(2.0, after).start()
        return crf.fit(corpus, client=client).theta_

    expected = fit()
    equal = {}
    for n in (1, 2, 4):
        with (
            LocalCluster(n_workers=n, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            client.wait_for_workers(n)
            equal[f"workers_{n}"] = int(np.array_equal(fit(client), expected))
            if n == 2:
                victim = next(iter(client.run(os.getpid).values()))
                theta = fit(client, lambda victim=victim: os.kill(victim, signal.SIGKILL))
                equal["killed"] = int(np.array_equal(theta, expected))
    return equal


def tokens_to_labels() -> dict:
    """CPU seconds from plain Spanish tokens to labels, by keys and by the definition in Python, both from a fresh model.

    ``wall_us``: of one thread and of two, which says something on an idle machine only.
    """
    import rulefield as rf
    from rulefield.datasets.columns import load_conll2002
    from rulefield.encode.features import FeatureEncoder
    from rulefield.encode.tokens import TokenFeatures
    from rulefield.estimators import inputs
    from rulefield.metrics import span_f1

    (X, y), (Z, gold) = (
        (([w[0] for w in x] for x in X), y) for X, y in (load_conll2002("train"), load_conll2002("testb"))
    )
    X, Z = list(X), list(Z)
    X, y = (X[:500], y[:500]) if QUICK else (X, y)
    begun = time.process_time()
    crf = rf.ChainCRF(max_iter=60).fit(X, y)
    fit = time.process_time() - begun
    begun = time.process_time()
    encoder = inputs.InputEncoder()
    encoder.fit_transform(X)
    encoding = time.process_time() - begun
    saved = crf.to_bytes()
    n = sum(map(len, Z))
    fresh = rf.load(saved)
    fresh.predict(Z[:3])
    begun = time.process_time()
    predicted = fresh.predict(Z)
    cold = time.process_time() - begun
    begun = time.process_time()
    fresh.predict(Z)
    warm = time.process_time() - begun
    names = FeatureEncoder(fresh._encoder.names)
    definition = TokenFeatures()
    begun = time.process_time()
    data = names.transform(definition.transform(Z))
    ids = fresh._decoder().best(data)
    labels = inputs_labels(fresh, ids, data.lengths)
    python = time.process_time() - begun
    assert labels == predicted.tolist()
    wall = {}
    for jobs in (1, 2, 1, 2, 1, 2):
        fresh = rf.load(saved).set_params(n_jobs=jobs)
        fresh.predict(Z[:3])
        begun = time.perf_counter()
        assert fresh.predict(Z).tolist() == labels
        wall[jobs] = min(wall.get(jobs, np.inf), time.perf_counter() - begun)
    return {
        "wall_us": [1e6 * wall[jobs] / n for jobs in (1, 2)],
        "cold_us": 1e6 * cold / n,
        "warm_us": 1e6 * warm / n,
        "python_us": 1e6 * python / n,
        "encoding_share": encoding / fit,
        "span_f1": 100 * span_f1(gold, labels, scheme="BIO"),
    }


def inputs_labels(crf, ids, lengths):
    from rulefield.estimators.sequences import label_lists

    return label_lists(crf._labels_encoder, ids, lengths)


# --- sections -------------------------------------------------------------------------------------


def job(*arguments: object) -> dict:
    return worker(__file__, "job", *map(str, arguments), *(["--quick"] if QUICK else []))


def ratio_of_peaks(key: str, n: int, stream: int) -> dict:
    theirs, ours = job("fit_crfsuite", n, stream), job("fit_rulefield", n, stream)
    print(
        f"{key}: crfsuite {theirs['peak_mb']:.0f} MB, rulefield {ours['peak_mb']:.0f} MB, {ours['weights']} weights"
    )
    return {key: ours["peak_mb"] / theirs["peak_mb"]}


def run_lists(folder: str) -> dict:
    return ratio_of_peaks("memory_ratio_50k", MANY, 0)


def run_stream(folder: str) -> dict:
    return ratio_of_peaks("memory_ratio_stream", MANY, 1)


def run_disk(folder: str) -> dict:
    one, eight = f"{folder}/one", f"{folder}/eight"
    print("written:", job("write", one, BASE, 1), job("write", eight, BASE, 8))
    theirs, ours = job("fit_crfsuite", BASE, 0), job("fit_corpus", one, ITERATIONS)
    larger = job("fit_corpus", eight, ITERATIONS)
    print(f"corpus: crfsuite {theirs['peak_mb']:.0f} MB, 1x {ours['peak_mb']:.0f} MB, 8x {larger['peak_mb']:.0f} MB")
    return {
        "memory_ratio_corpus": ours["peak_mb"] / theirs["peak_mb"],
        "out_of_core_memory_ratio": larger["peak_mb"] / ours["peak_mb"],
    }


def run_excess(folder: str) -> dict:
    print("written:", job("write", f"{folder}/one", BASE, 1))
    same = job("same_parts_in_memory", f"{folder}/one", 60)
    print("same parts:", same)
    return {"out_of_core_excess": abs(same["disk"] / same["memory"] - 1)}


def run_limit(folder: str) -> dict:
    there = f"{folder}/limited"
    print("written:", job("write", there, LIMITED, 1))
    free = job("fit_corpus", there, ITERATIONS)
    limit = int(1.3 * free["peak_mb"]) + 100  # of data, touched or not
    under = job("fit_corpus", there, ITERATIONS, limit)
    memory = job("fit_in_memory_under", LIMITED, limit)
    print(f"limit {limit} MB: corpus {under}, memory {memory}")
    return {"under_limit": int(under["objective"] == free["objective"] and not memory["fits"])}


def run_equal(folder: str) -> dict:
    print("written:", worker(__file__, "job", "write", f"{folder}/small", "1000", "1", "--quick"))
    equal = job("cluster_equal", f"{folder}/small")
    print("cluster:", equal)
    return {"cluster_equal": int(all(equal.values()))}


def run_overhead(folder: str) -> dict:
    print("written:", job("write", f"{folder}/many", MANY, 1))
    overhead = job("cluster_overhead", f"{folder}/many")
    print("cluster:", overhead)
    assert overhead["equal"]
    return {"cluster_overhead": overhead["workers"] / overhead["threads"]}


def run_growth(folder: str) -> dict:
    cost = {}
    for n in (SMALL, LARGE):
        print("written:", job("write", f"{folder}/growth-{n}", n, 1))
        cost[n] = job("evaluation_cost", f"{folder}/growth-{n}")
    print("growth:", cost)
    return {"growth": cost[LARGE]["ns_per_token"] / cost[SMALL]["ns_per_token"]}


def run_tokens(folder: str) -> dict:
    got = job("tokens_to_labels")
    print("tokens:", got)
    return {
        "tokens_to_labels_speedup": got["python_us"] / got["cold_us"],
        "tokens_to_labels_speedup_warm": got["python_us"] / got["warm_us"],
        "encoding_share": got["encoding_share"],
        "tokens_two_threads": got["wall_us"][0] / got["wall_us"][1],
    }


def run_compare(folder: str) -> dict:
    if QUICK:
        print("compare: whole fits only, not --quick")
        return {}
    from chain_vs_crfsuite import compare_conll

    return compare_conll()


COMPARED = ("fit_speedup_1", "fit_speedup_2", "tag_speedup", "memory_ratio", "objective_excess", "span_f1")
SECTIONS = {
    ("tokens_to_labels_speedup", "tokens_to_labels_speedup_warm", "encoding_share", "tokens_two_threads"): run_tokens,
    COMPARED: run_compare,
    ("memory_ratio_corpus", "out_of_core_memory_ratio"): run_disk,
    ("out_of_core_excess",): run_excess,
    ("cluster_equal",): run_equal,
    ("cluster_overhead",): run_overhead,
    ("memory_ratio_stream",): run_stream,
    ("memory_ratio_50k",): run_lists,
    ("under_limit",): run_limit,
    ("growth",): run_growth,
}
"""What each part of this benchmark measures, quick ones first."""
JOBS = {
    f.__name__: f
    for f in (
        fit_crfsuite,
        fit_rulefield,
        write,
        fit_corpus,
        fit_in_memory_under,
        same_parts_in_memory,
        evaluation_cost,
        cluster_overhead,
        cluster_equal,
        tokens_to_labels,
    )
}


def run_job(name: str, *given: str) -> None:
    """Do one job in this process, and print its figures."""
    if name in ("fit_rulefield", "fit_corpus", "fit_in_memory_under"):
        sys.modules["pandas"] = None  # type: ignore[assignment]
    print(json.dumps(JOBS[name](*(int(a) if a.isdigit() else a for a in given))))


def main() -> None:
    data_folder()
    if sys.argv[1:2] == ["job"]:
        run_job(*(a for a in sys.argv[2:] if not a.startswith("--")))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="figures, with commas between them")
    parser.add_argument("--quick", action="store_true")
    wanted = set(filter(None, parser.parse_args().only.split(",")))
    unknown = wanted.difference(*SECTIONS)
    if unknown:
        parser.error(f"there is no figure {sorted(unknown)[0]!r}; there are {', '.join(sum(SECTIONS, ()))}.")
    figures: dict[str, float] = {}
    for keys, section in SECTIONS.items():
        if wanted and not wanted & set(keys):
            continue
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                figures |= section(folder)
            except SystemExit as failed:  # of a fresh process: the other sections go on
                print(f"{', '.join(keys)} failed: {failed}", flush=True)
        print(f"({time.perf_counter() - begun:.0f} s)", flush=True)
    print(json.dumps({key: round(value, 12 if "excess" in key else 4) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
