"""Posterior of small Gaussian fields under logistic observations, one instance after the other."""

import math

import numpy as np

from rulefield.kernels.jit import kernel

# The logistic function as a mixture of eight normal distribution functions (error < 2.2e-9 everywhere):
# J. F. Monahan and L. A. Stefanski, Normal scale mixture approximations to F*(z), 1992, table for k = 8.
MIX_WEIGHT = np.array(
    [
        0.003246343272134,
        0.051517477033972,
        0.195077912673858,
        0.315569823632818,
        0.274149576158423,
        0.131076880695470,
        0.027912418727972,
        0.001449567805354,
    ]
)
MIX_SCALE = np.array(
    [
        1.365340806296348,
        1.059523971016916,
        0.830791313765644,
        0.650732166639391,
        0.508135425366489,
        0.396313345166341,
        0.308904252267995,
        0.238212616409306,
    ]
)
_WEIGHT = MIX_WEIGHT / MIX_WEIGHT.sum()
_VARIANCE = 1.0 / MIX_SCALE**2


@kernel
def expected_sigmoid(mean, variance, out):
    """Fill ``out`` (n, 3) with E sigma(z), E sigma'(z) and E log(1 + e^z) for z ~ N(mean, variance), all (n,)."""
    for i in range(mean.shape[0]):
        p, d, s = 0.0, 0.0, 0.0
        for k in range(8):
            width = math.sqrt(_VARIANCE[k] + variance[i])
            x = mean[i] / width
            cdf = 0.5 * math.erfc(-x * 0.7071067811865476)
            pdf = math.exp(-0.5 * x * x) * 0.3989422804014327
            p += _WEIGHT[k] * cdf
            d += _WEIGHT[k] * pdf / width
            s += _WEIGHT[k] * (mean[i] * cdf + width * pdf)
        out[i, 0] = p
        out[i, 1] = d
        out[i, 2] = s


@kernel
def _invert(matrix, inverse):
    """Overwrite symmetric positive definite ``matrix`` by its Cholesky factor; fill ``inverse``; return log det."""
    n = matrix.shape[0]
    logdet = 0.0
    for j in range(n):
        for i in range(j, n):
            x = matrix[i, j]
            for k in range(j):
                x -= matrix[i, k] * matrix[j, k]
            if i == j:
                matrix[j, j] = math.sqrt(x)
                logdet += 2.0 * math.log(matrix[j, j])
            else:
                matrix[i, j] = x / matrix[j, j]
    for j in range(n):  # the inverse of the factor, in place
        matrix[j, j] = 1.0 / matrix[j, j]
        for i in range(j + 1, n):
            x = 0.0
            for k in range(j, i):
                x -= matrix[i, k] * matrix[k, j]
            matrix[i, j] = x / matrix[i, i]
    for i in range(n):
        for j in range(i + 1):
            x = 0.0
            for k in range(i, n):
                x += matrix[k, i] * matrix[k, j]
            inverse[i, j] = x
            inverse[j, i] = x
    return logdet


@kernel
def _jaakkola_sites(mean, variance, seen, precision):
    """Fill the site precisions 2 lambda(xi) at xi^2 = variance + mean^2; return the sum of the sites' constants."""
    total = 0.0
    for i in range(mean.shape[0]):
        if seen[i]:
            xi = math.sqrt(variance[i] + mean[i] * mean[i])
            if xi < 1e-4:
                precision[i] = 0.25 - xi * xi / 48.0
            else:
                precision[i] = math.tanh(0.5 * xi) / (2.0 * xi)
            total += -xi - math.log1p(math.exp(-xi)) + 0.5 * xi + 0.5 * precision[i] * xi * xi
    return total


@kernel
def _optimal_sites(label, mean, seen, moments, pull, precision):
    """Fill the KL-optimal sites (pull, precision) at these moments; return the expected log-likelihood."""
    total = 0.0
    for i in range(mean.shape[0]):
        if seen[i]:
            precision[i] = moments[i, 1]
            pull[i] = moments[i, 1] * mean[i] + label[i] - moments[i, 0]
            total += label[i] * mean[i] - moments[i, 2]
    return total


@kernel
def _place(coupling, variance, prior, pull, precision, work, inverse, mean, spread):
    """Gaussian with these sites: fill mean and spread (variances); return log|A + vD|."""
    n = prior.shape[0]
    for i in range(n):
        for j in range(n):
            work[i, j] = coupling[i, j]
        work[i, i] += variance * precision[i]
    logdet = _invert(work, inverse)
    for i in range(n):
        x = 0.0
        for j in range(n):
            x += inverse[i, j] * (pull[j] - precision[j] * prior[j])
        mean[i] = prior[i] + variance * x
        spread[i] = variance * inverse[i, i]
    return logdet


@kernel
def field_posteriors(
    coupling,
    logdet,
    variance,
    prior,
    label,
    seen,
    weight,
    optimal,
    pull,
    precision,
    mean,
    spread,
    bound,
    inverses,
    tol,
    limit,
):
    """Best Gaussian posterior of every instance, and its bound on log p(label).

    Parameters
    ----------
    coupling : (1 or n_instances, n, n)
    logdet : (1 or n_instances,)
        log|A| of each coupling.
    prior, label : (n_instances, n)
    seen : (n_instances, n), uint8
    weight : (n_instances,)
        Of each instance in ``inverses``.
    optimal : int
        1: KL-optimal sites; 0: Jaakkola-Jordan sites.
    pull, precision : (n_instances, n), in and out
        Site i says pull * z - precision * z^2 / 2; zero where the label is unknown.
    mean, spread, bound : out
        Posterior means; diagonals of (A + v D)^-1, that is posterior variances divided by v; bounds.
    inverses : (1 or n_instances, n, n), out
        Weighted sum over the instances of a coupling of (A + v D)^-1.

    Returns
    -------
    int
        Number of instances whose fixed point was not reached within ``limit`` steps.
    """
    n = prior.shape[1]
    work = np.empty((n, n))
    inverse = np.empty((n, n))
    moments = np.empty((n, 3))
    old_pull = np.empty(n)
    old_precision = np.empty(n)
    new_pull = np.empty(n)
    new_precision = np.zeros(n)
    failed = 0
    for j in range(prior.shape[0]):
        c = j if coupling.shape[0] > 1 else 0
        r = pull[j]
        d = precision[j]
        m = mean[j]
        s = spread[j]
        step = 1.0
        best = -np.inf
        done = False
        if optimal == 0:
            _place(coupling[c], variance, prior[j], r, d, work, inverse, m, s)
            site = _jaakkola_sites(m, s, seen[j], d)
        for _ in range(limit):
            volume = _place(coupling[c], variance, prior[j], r, d, work, inverse, m, s) - logdet[c]
            change = 0.0
            if optimal == 1:
                expected_sigmoid(m, s, moments)
                value = _optimal_sites(label[j], m, seen[j], moments, new_pull, new_precision) - 0.5 * volume
                for i in range(n):
                    value += 0.5 * d[i] * s[i] - 0.5 * (m[i] - prior[j, i]) * (r[i] - d[i] * m[i])
                if value < best - 1e-10 * (1.0 + abs(best)) and step > 1e-3:
                    step *= 0.5  # overshot: half-way back
                    for i in range(n):
                        r[i] = 0.5 * (r[i] + old_pull[i])
                        d[i] = 0.5 * (d[i] + old_precision[i])
                    continue
                best = value
                for i in range(n):
                    if seen[j, i]:
                        change = max(change, abs(new_pull[i] - r[i]), abs(new_precision[i] - d[i]))
            else:
                best = site - 0.5 * volume
                for i in range(n):
                    best += 0.5 * r[i] * (m[i] + prior[j, i]) - 0.5 * prior[j, i] * d[i] * m[i]
                site = _jaakkola_sites(m, s, seen[j], new_precision)
                for i in range(n):
                    if seen[j, i]:
                        change = max(change, abs(new_precision[i] - d[i]))
            if change < tol:
                done = True
                break
            for i in range(n):
                if seen[j, i]:
                    old_precision[i] = d[i]
                    d[i] += step * (new_precision[i] - d[i])
                    if optimal == 1:
                        old_pull[i] = r[i]
                        r[i] += step * (new_pull[i] - r[i])
                else:
                    old_precision[i] = d[i]
                    old_pull[i] = r[i]
        if not done:
            failed += 1
        bound[j] = best
        for i in range(n):
            s[i] = inverse[i, i]
            for k in range(n):
                inverses[c, i, k] += weight[j] * inverse[i, k]
    return failed
