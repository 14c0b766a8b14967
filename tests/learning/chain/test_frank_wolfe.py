"""The structured SVM: its step and objectives by definition, its certificate, a general solver's optimum."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from oracles.chain_data import chain_data
from rulefield.exceptions import InputError
from rulefield.learning.chain.frank_wolfe import FrankWolfe

CASES = ["seen", "all", "dense", "scheme", "conditioned", "one label"]


def features(model, data, i, labeling):
    """Feature counts of one labeling, (size,)."""
    phi = model.zeros()
    model.add_features(phi, data, i, np.array(labeling, int))
    return phi


def rivals(model, data, labels):
    """For each sequence phi(gold) - phi(y) and the Hamming loss of every permitted y."""
    found = []
    for i in range(len(data)):
        gold = labels.ids[data.offsets[i] : data.offsets[i + 1]]
        p = model.potentials(model.zeros(), data, i)
        ys = [y for y in product(range(model.n_labels), repeat=len(gold)) if p.score(np.array(y, int)) > -np.inf]
        psi = features(model, data, i, gold) - np.array([features(model, data, i, y) for y in ys])
        found.append((psi, np.array([(np.array(y) != gold).sum() for y in ys])))
    return found


def objective(found, theta, weight, l2):
    """The primal objective by its definition."""
    hinges = [(loss - psi @ theta).max() for psi, loss in found]
    return 0.5 * l2 * theta @ theta + weight @ np.array(hinges)


@pytest.mark.parametrize("case", CASES)
def test_certificate_brackets_the_optimum(case):
    model, data, labels = chain_data(case, n=6)
    weight = np.random.default_rng(0).choice([0.0, 0.5, 2.0], len(data))
    found = rivals(model, data, labels)
    svm = FrankWolfe(model, data, labels, l2=0.7, max_iter=40, sample_weight=weight)
    duals = []
    for _ in range(40):
        estimate = svm.epoch()
        duals.append(svm.certify(averaged=False).dual)
    assert np.all(np.diff(duals) >= -1e-9)  # exact line search never loses
    for averaged, theta in ((True, svm.theta), (False, svm.last_theta)):
        certificate = svm.certify(averaged)
        assert_allclose(certificate.primal, objective(found, theta, weight, 0.7), rtol=1e-9, atol=1e-9)
        assert certificate.dual <= certificate.primal + 1e-9
    assert svm.certify(averaged=False).gap <= 0.05 * (1 + svm.certify().primal)
    assert estimate >= 0
    best = general_solver(found, weight, 0.7, model.size)
    assert svm.certify(averaged=False).dual <= best + 1e-6
    assert svm.certify().primal >= best - 1e-6


def general_solver(found, weight, l2, size):
    """Optimum of the quadratic program with one slack a sequence, by SLSQP."""
    n = len(found)

    def value(z):
        return 0.5 * l2 * z[:size] @ z[:size] + weight @ z[size:]

    def slope(z):
        return np.concatenate([l2 * z[:size], weight])

    rows, bounds = [], []
    for i, (psi, loss) in enumerate(found):
        slack = np.zeros((len(loss), n))
        slack[:, i] = 1
        rows.append(np.hstack([psi, slack]))
        bounds.append(loss)
    A, b = np.vstack(rows), np.concatenate(bounds)
    begin = np.concatenate([np.zeros(size), [loss.max() for _, loss in found]])
    constraint = {"type": "ineq", "fun": lambda z: A @ z - b, "jac": lambda z: A}
    return minimize(value, begin, jac=slope, constraints=[constraint], method="SLSQP", options={"maxiter": 300}).fun


def test_average_weighs_iterate_k_by_k():
    model, data, labels = chain_data("seen")
    data, labels = data[2:3], labels[2:3]  # one sequence: an epoch is a step
    svm = FrankWolfe(model, data, labels, l2=0.5, max_iter=6)
    thetas, losses = [], []
    for _ in range(6):
        svm.epoch()
        thetas.append(svm.last_theta)
        losses.append(svm.certify(averaged=False).dual + 0.25 * thetas[-1] @ thetas[-1])
    k = np.arange(1, 7)
    mean = (k @ np.array(thetas)) / k.sum()
    assert_allclose(svm.theta, mean, atol=1e-12)
    assert_allclose(svm.certify().dual, (k @ losses) / k.sum() - 0.25 * mean @ mean, atol=1e-12)


def test_a_step_goes_to_the_best_point_of_its_line():
    model, data, labels = chain_data("seen")
    data, labels, l2 = data[2:3], labels[2:3], 0.05  # little regularization: no step is cut off at the corner
    svm = FrankWolfe(model, data, labels, l2=l2, max_iter=3)

    def point():
        theta = svm.last_theta
        return np.append(theta, svm.certify(averaged=False).dual + 0.5 * l2 * theta @ theta)

    def dual(z):
        return z[-1] - 0.5 * l2 * z[:-1] @ z[:-1]

    for _ in range(3):
        before = point()
        svm.epoch()
        step = point() - before
        assert abs(step).max() > 0
        for share in (0.95, 1.05):
            assert dual(before + share * step) < dual(before + step)


def test_the_same_seed_gives_the_same_weights():
    model, data, labels = chain_data("seen")
    thetas = []
    for seed in (3, 3, 4):
        svm = FrankWolfe(model, data, labels, max_iter=2, seed=seed)
        svm.epoch()
        thetas.append(svm.theta)
    assert np.array_equal(thetas[0], thetas[1])
    assert not np.array_equal(thetas[0], thetas[2])


def test_what_cannot_work_is_refused():
    model, data, labels = chain_data("seen")
    with pytest.raises(InputError, match="l2 must be a positive number"):
        FrankWolfe(model, data, labels, l2=0.0)
    svm = FrankWolfe(model, data, labels, max_iter=1)
    svm.epoch()
    with pytest.raises(InputError, match="max_iter"):
        svm.epoch()
