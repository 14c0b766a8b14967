"""Structured against dense inference at 9 x 12 = 108 joint states, one thread, generated data.

886 made-up sentences as long as those of CoNLL-2002. CPU seconds, best of several runs:

- structured: log partition functions, marginals and expected transitions from factored transitions plus a few joint moves;
- dense: the same sums from the chain training kernel over the product's 108 labels and 108 x 108 transitions;
- gradient: one evaluation of the latent likelihood and its gradient, features included, each sentence annotated for one
  task;
- predict: labels of 2,000 tokens with 60 x 60 = 3,600 joint states, scores included, by the factored maximum and (once) by
  Viterbi over the dense product.

    python benchmarks/joint_kernel.py [--repeats 12]
"""

import argparse
import json
import time

import numpy as np
from scipy import sparse

from rulefield.data.sequences import Labels, Sequences
from rulefield.inference.sequences.exact import viterbi_batch
from rulefield.inference.sequences.joint.exact import joint_marginals, joint_viterbi
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.expectations.corpus import JointCorpus, JointLikelihood
from rulefield.models.chain import ChainModel
from rulefield.models.joint import JointModel
from rulefield.problem.joint import JointPotentials

SIZES = (9, 12)
SENTENCES, MEAN_LENGTH = 886, 31
FEATURES, PER_TOKEN = 30_000, 16
MOVES = 10
LARGE_SIZES, LARGE_LENGTHS = (60, 60), [50] * 40


def corpus(rng) -> tuple[Sequences, tuple[Labels, Labels]]:
    """Sentences with features as frequent as words are (Zipf), and the labels of one task each."""
    lengths = np.clip(rng.gamma(2.0, MEAN_LENGTH / 2, SENTENCES).astype(int), 2, 120)
    n = int(lengths.sum())
    columns = np.minimum(FEATURES - 1, (FEATURES ** rng.random(n * PER_TOKEN)).astype(int))
    rows = np.repeat(np.arange(n), PER_TOKEN)
    matrix = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, FEATURES))
    matrix.data[:] = 1.0
    first = np.repeat(np.arange(SENTENCES) % 2 == 0, lengths)
    labels = tuple(half_known(rng, n, m, lengths, first == (k == 0)) for k, m in enumerate(SIZES))
    return Sequences(matrix, lengths), labels


def half_known(rng, n: int, m: int, lengths: np.ndarray, known: np.ndarray) -> Labels:
    gold = rng.integers(m, size=n)
    allowed = np.where(known[:, None], gold[:, None] == np.arange(m), True).astype(np.uint8)
    return Labels(np.where(known, gold, -1), lengths, m, allowed)


def problem(rng) -> tuple[JointModel, Sequences, tuple[Labels, Labels], np.ndarray]:
    data, labels = corpus(rng)
    tasks = tuple(ChainModel.build(data, known, all_transitions=True) for known in labels)
    S = int(np.prod(SIZES))
    moves = rng.choice(S * S, MOVES, replace=False)
    model = JointModel.of(tasks, moves=(moves // S, moves % S))
    return model, data, labels, rng.normal(size=model.size)


def dense_likelihood(p: JointPotentials) -> tuple[ChainLikelihood, np.ndarray]:
    """The product as one chain of S labels: feature s has weight 1 with label s, transitions are all there."""
    S = p.n_states
    data = Sequences(sparse.csr_matrix(p.psi), np.diff(p.offsets))
    every = Labels(np.tile(np.arange(S), 1), np.array([S]), S)
    eye = Sequences(sparse.identity(S, format="csr"), np.array([S]))
    model = ChainModel.build(eye, every, all_transitions=True, start_end=False)
    theta = model.zeros()
    model.layout.state(theta)[:] = 1.0
    model.layout.transition(theta)[:] = p.pairwise.ravel()
    return ChainLikelihood(model, data, None), theta


def predict_large(rng, repeats: int) -> tuple[float, float, bool]:
    """CPU seconds of the factored and of the dense maximum over 3,600 joint states, and whether the labels are the same."""
    n = sum(LARGE_LENGTHS)
    columns = rng.integers(1_000, size=(n, PER_TOKEN))
    rows = np.repeat(np.arange(n), PER_TOKEN)
    matrix = sparse.csr_matrix((np.ones(columns.size), (rows, columns.ravel())), shape=(n, 1_000))
    data = Sequences(matrix, np.array(LARGE_LENGTHS))
    gold = [Labels(rng.integers(m, size=n), np.array(LARGE_LENGTHS), m) for m in LARGE_SIZES]
    model = JointModel.of(tuple(ChainModel.build(data, known, all_transitions=True) for known in gold))
    theta = rng.normal(size=model.size)

    def dense() -> np.ndarray:
        p = model.potentials(theta, data)
        return viterbi_batch(p.psi, p.pairwise, p.offsets)[0]

    def factored() -> np.ndarray:
        return joint_viterbi(model.potentials(theta, data))[0]

    joint_viterbi(model.potentials(theta, data[:1]))  # compiles
    factored_s, labels = timed(factored)
    for _ in range(min(repeats, 3)):
        factored_s = min(factored_s, timed(factored)[0])
    dense_s, same = timed(dense)
    return factored_s, dense_s, bool((labels == same).all())


def timed(work) -> tuple[float, np.ndarray]:
    begun = time.process_time()
    answer = work()
    return time.process_time() - begun, answer


def best_of(repeats: int, work) -> tuple[float, object]:
    answer = work()  # compiles
    seconds = []
    for _ in range(repeats):
        begun = time.process_time()
        answer = work()
        seconds.append(time.process_time() - begun)
    return min(seconds), answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=12)
    repeats = parser.parse_args().repeats
    model, data, labels, theta = problem(np.random.default_rng(0))
    potentials = model.potentials(theta, data)
    structured_s, sums = best_of(repeats, lambda: joint_marginals(potentials))
    dense, weights = dense_likelihood(potentials)
    dense_s, (total, gradient) = best_of(repeats, lambda: dense.value_and_gradient(weights))
    steps = dense.model.layout.transition(gradient).reshape(potentials.n_states, potentials.n_states)
    apart = [abs(sums.log_partition.sum() / total - 1)]
    for labels_of, m, edges in zip(potentials.task_labels, SIZES, sums.edges):
        own = (labels_of[:, None] == np.arange(m)).astype(float)
        apart.append(float(np.abs(own.T @ steps @ own - edges).max() / edges.max()))
    apart.append(float(np.abs(steps[model.move_from, model.move_to] - sums.moves).max()))
    likelihood = JointLikelihood(JointCorpus(model, data, labels), 1.0)
    gradient_s, _ = best_of(repeats, lambda: likelihood.value_and_gradient(theta))
    print(f"{SENTENCES} sentences, {data.n_tokens} tokens, {SIZES[0]} x {SIZES[1]} joint states, one thread")
    print(f"structured {structured_s:.3f} s, dense product {dense_s:.3f} s: {dense_s / structured_s:.2f}x faster")
    print(f"largest difference of sums {max(apart):.1e}; latent gradient pass {gradient_s:.3f} s")
    predict_s, dense_predict_s, same = predict_large(np.random.default_rng(1), repeats)
    print(
        f"predict, 60 x 60 labels, 2,000 tokens: {predict_s:.2f} s, dense {dense_predict_s:.2f} s, same labels: {same}"
    )
    figures = {
        "structured_s": round(structured_s, 4),
        "dense_s": round(dense_s, 4),
        "structured_speedup": round(dense_s / structured_s, 2),
        "largest_difference": max(apart),
        "gradient_pass_s": round(gradient_s, 4),
        "predict_60x60_cpu_s": round(predict_s, 3),
        "predict_60x60_speedup": round(dense_predict_s / predict_s, 1),
        "predict_60x60_same_labels": same,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
