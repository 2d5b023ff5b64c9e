"""The compiled sampler of prompts, as indices and coefficients in the basis of patterns."""

from __future__ import annotations

from icl_theory.compiling import kernel

# Codes shared with prompts.py.
FLIP, TARGET, RANDOM_LABEL = 0, 1, 2
RANDOM_PLACE, FARTHEST, CLOSEST = 0, 1, 2


@kernel
def draw(
    rng,
    tasks,
    n_irrelevant,
    n_outlier,
    share,
    exact,
    kappa,
    rule,
    target,
    place,
    relevant,
    irrelevant,
    size,
    outlier,
    y,
    z,
):
    """Fill relevant, irrelevant, size, outlier (n, length + 1; outlier -1 where clean), y (n, length + 1) and z (n,).

    Draws are made in one fixed order, so that a generator gives the same prompts however they are used.
    """
    n, width = y.shape
    length = width - 1
    fixed = int(share * length + 0.5)
    for p in range(n):
        task = rng.integers(0, tasks.shape[0])
        count = 0
        for i in range(length):
            outlier[p, i] = -1
            if not exact and rng.random() < share:
                outlier[p, i] = 0
                count += 1
        if exact:
            count = fixed
            if place == RANDOM_PLACE:
                # Selection sampling: each position with the odds that fill what is left.
                need = count
                for i in range(length):
                    if rng.random() * (length - i) < need:
                        outlier[p, i] = 0
                        need -= 1
        if place == FARTHEST:
            for i in range(length):
                outlier[p, i] = 0 if i < count else -1
        elif place == CLOSEST:
            for i in range(length):
                outlier[p, i] = 0 if i >= length - count else -1
        outlier[p, length] = -1
        for i in range(width):
            # One number in [0, 2 n_irrelevant): its parity is the label, its half the irrelevant pattern.
            both = rng.integers(0, 2 * n_irrelevant)
            sign = both & 1
            relevant[p, i] = tasks[task, sign]
            irrelevant[p, i] = both >> 1
            size[p, i] = kappa * (2.0 * rng.random() - 1.0)
            label = 1.0 - 2.0 * sign
            if i == length:
                z[p] = label
                y[p, i] = 0.0
            elif outlier[p, i] < 0:
                y[p, i] = label
            else:
                outlier[p, i] = rng.integers(0, n_outlier)
                if rule == FLIP:
                    y[p, i] = -label
                elif rule == TARGET:
                    y[p, i] = target
                else:
                    y[p, i] = 1.0 if rng.random() < 0.5 else -1.0
