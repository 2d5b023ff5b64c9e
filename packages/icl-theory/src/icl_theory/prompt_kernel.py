"""The compiled sampler of prompts, as indices and coefficients in the basis of patterns."""

from __future__ import annotations

import numpy as np

from icl_theory.compiling import kernel

# Codes shared with prompts.py.
FLIP, TARGET, RANDOM_LABEL = 0, 1, 2
RANDOM_PLACE, FARTHEST, CLOSEST = 0, 1, 2

# Unsigned throughout: numba makes a float of an unsigned and a signed integer.
_17, _19, _23, _11, _32, _41, _45 = (np.uint64(k) for k in (17, 19, 23, 11, 32, 41, 45))


@kernel
def bits(state):
    """Return 64 random bits: xoshiro256++ (Blackman and Vigna), from a state of four words that is not all zero.

    The sampler has a generator of its own, seeded by numpy's: numpy's inside numba takes three seconds to compile.
    """
    total = state[0] + state[3]
    out = ((total << _23) | (total >> _41)) + state[0]
    shifted = state[1] << _17
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << _45) | (state[3] >> _19)
    return out


@kernel
def uniform(state):
    """Return a double in [0, 1), a multiple of 2^-53."""
    return np.float64(bits(state) >> _11) * 2.0**-53


@kernel
def below(state, n):
    """Return an integer in [0, n), n far below 2^32: some come up more often by a part in 2^32 / n."""
    return np.int64(((bits(state) >> _32) * np.uint64(n)) >> _32)


@kernel
def _choose_outliers(state, share, fixed, place, p, outlier):
    """Write 0 where an example of prompt `p` is to be an outlier, else -1; the last entry is the query's."""
    length = outlier.shape[1] - 1
    exact = fixed >= 0
    count = 0
    for i in range(length):
        outlier[p, i] = -1
        if not exact and uniform(state) < share:
            outlier[p, i] = 0
            count += 1
    if exact:
        count = fixed
        if place == RANDOM_PLACE:
            # Selection sampling: each position with the odds that fill what is left.
            need = count
            for i in range(length):
                if uniform(state) * (length - i) < need:
                    outlier[p, i] = 0
                    need -= 1
    if place == FARTHEST:
        for i in range(length):
            outlier[p, i] = 0 if i < count else -1
    elif place == CLOSEST:
        for i in range(length):
            outlier[p, i] = 0 if i >= length - count else -1
    outlier[p, length] = -1


@kernel
def draw(
    state, tasks, n_irrelevant, n_outlier, share, fixed, kappa, rule, target, place,
    relevant, irrelevant, size, outlier, y, z,
):  # fmt: skip
    """Fill relevant, irrelevant, size, outlier (n, length + 1; outlier -1 where clean), y (n, length + 1) and z (n,).

    state: four words of uint64, see `bits`. fixed: outliers a prompt, or -1 for each example by chance. Draws are made
    in one fixed order, so that a state gives the same prompts however they are used.
    """
    n, width = y.shape
    length = width - 1
    for p in range(n):
        task = below(state, tasks.shape[0])
        _choose_outliers(state, share, fixed, place, p, outlier)
        for i in range(width):
            # One number in [0, 2 n_irrelevant): its parity is the label, its half the irrelevant pattern.
            both = below(state, 2 * n_irrelevant)
            sign = both & 1
            relevant[p, i] = tasks[task, sign]
            irrelevant[p, i] = both >> 1
            size[p, i] = kappa * (2.0 * uniform(state) - 1.0)
            label = 1.0 - 2.0 * sign
            if i == length:
                z[p] = label
                y[p, i] = 0.0
            elif outlier[p, i] < 0:
                y[p, i] = label
            else:
                outlier[p, i] = below(state, n_outlier)
                if rule == FLIP:
                    y[p, i] = -label
                elif rule == TARGET:
                    y[p, i] = target
                else:
                    y[p, i] = 1.0 if uniform(state) < 0.5 else -1.0
