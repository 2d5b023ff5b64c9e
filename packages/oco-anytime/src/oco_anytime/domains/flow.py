"""Flows from a source to a sink: the domain of routing, with an exact projection for every arc vector."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.rng import generator

from oco_anytime.domains.base import Domain, ProjectionFailed, ends, positive, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Vector

_TOL = 1e-9


class FlowPolytope(Domain):
    """{0 <= x <= capacity, outflow - inflow = demand at the source, -demand at the sink, 0 elsewhere}.

    Parameters
    ----------
    arcs : sequence of (tail, head)
        Directed; parallel arcs, self-loops, and parts that touch neither source nor sink are allowed. Nodes are any
        hashable labels.
    source, sink : hashable
        Two different nodes.
    demand : float
        Positive, at most the maximum flow.
    capacity : float or array_like, shape (m,)
        Finite, not negative.

    Attributes
    ----------
    arcs : list of tuple
        As given.
    nodes : list
        Labels in order of appearance.
    diameter : float
        sqrt(sum capacity^2): flows may hold circulations, so the paths' distance is not an upper bound.

    Raises
    ------
    InvalidInput
        If source = sink, one of them is on no arc, or the demand exceeds the maximum flow.

    Notes
    -----
    Projection: damped Newton on the node potentials [N] (`oco_anytime.flow_newton`), then far points in steps, then
    DAQP. Nothing leaves `project` with a residual above 1e-9.
    """

    def __init__(
        self,
        arcs: Sequence[tuple[Hashable, Hashable]],
        source: Hashable,
        sink: Hashable,
        demand: float = 1.0,
        capacity: ArrayLike = 1.0,
    ) -> None:
        try:
            self.arcs = [(t, h) for t, h in arcs]
        except (TypeError, ValueError):
            raise InvalidInput.argument("arcs", expected="pairs (tail, head)", got=arcs) from None
        if not self.arcs:
            raise InvalidInput.argument("arcs", expected="at least one arc", got="none")
        self.demand = positive(demand, "demand")
        index: dict[Any, int] = {}
        try:
            for arc in self.arcs:
                for node in arc:
                    index.setdefault(node, len(index))
        except TypeError as err:
            raise InvalidInput.argument("arcs", expected="hashable nodes", got=str(err)) from None
        terminals: tuple[tuple[str, Any], ...] = (("source", source), ("sink", sink))
        for name, node in terminals:
            if not isinstance(node, Hashable) or node not in index:
                raise InvalidInput.argument(name, expected="a node of some arc", got=node)
        if source == sink:
            raise InvalidInput.argument("sink", expected="another node than the source", got=sink)
        self.nodes, self.source, self.sink = list(index), source, sink
        self._s, self._t = index[source], index[sink]
        m = self.dim = len(self.arcs)
        self._tail = np.array([index[t] for t, _ in self.arcs])
        self._head = np.array([index[h] for _, h in self.arcs])
        self.capacity = ends("capacity", capacity, m)
        if not np.isfinite(self.capacity).all() or (self.capacity < 0).any():
            raise InvalidInput.argument("capacity", expected="finite numbers of at least 0", got=str(capacity))
        self.diameter = max(float(np.linalg.norm(self.capacity)), np.finfo(float).tiny)
        self._scale = max(1.0, self.demand)
        self._supply = np.zeros(len(index))
        self._supply[self._s], self._supply[self._t] = self.demand, -self.demand
        self._check_feasible()
        self._structure = _structure(len(index), self._tail, self._head, self._supply)
        self._basis: Vector | None = None

    def _incidence(self) -> Any:
        from scipy import sparse

        m, n = self.dim, len(self.nodes)
        ones = np.ones(m)
        entries = np.concatenate([ones, -ones])
        rows = np.concatenate([self._tail, self._head])
        return sparse.csr_array((entries, (rows, np.tile(np.arange(m), 2))), shape=(n, m))

    def _check_feasible(self) -> None:
        from scipy import sparse
        from scipy.optimize import linprog

        n, m = len(self.nodes), self.dim
        value = np.zeros(n)
        value[self._s], value[self._t] = -1.0, 1.0
        A = sparse.hstack([self._incidence(), sparse.csr_array(value[:, None])]).tocsr()
        cost = np.zeros(m + 1)
        cost[-1] = -1.0
        bounds = [*((0.0, c) for c in self.capacity), (0.0, None)]
        found = linprog(cost, A_eq=A, b_eq=np.zeros(n), bounds=bounds, method="highs")
        # The solver's zero may be negative, and would be printed so.
        most = abs(float(found.x[-1])) if found.x is not None else 0.0
        if most < self.demand * (1.0 - 1e-10):
            got = f"{self.demand:g}, but the maximum flow is {most:g}"
            raise InvalidInput.argument("demand", expected="at most the maximum flow", got=got)

    def _project(self, y: Vector) -> Vector:
        from oco_anytime import flow_newton

        x = np.empty(self.dim)
        project: Any = flow_newton.project
        _, residual = project(*self._structure, self.capacity, self._scale, y, x)
        if residual <= _TOL * self._scale:
            return x
        x = self._by_daqp(y)
        if self._violation(x) > _TOL:
            raise ProjectionFailed(f"flow residual {self._violation(x):.1e} after all methods")
        return x

    def _by_daqp(self, y: Vector) -> Vector:
        import daqp

        B = self._incidence().toarray()
        keep = self._kept_nodes()
        upper = np.concatenate([self.capacity, self._supply[keep]])
        lower = np.concatenate([np.zeros(self.dim), self._supply[keep]])
        sense = np.zeros(upper.size, dtype=np.int32)
        sense[self.dim :] = 5
        tol = 1e-11 + 1e-15 * float(np.abs(y).max())
        x, *_ = daqp.solve(
            np.eye(self.dim), -y, np.ascontiguousarray(B[keep]), upper, lower, sense, primal_tol=tol, dual_tol=tol
        )
        return np.asarray(np.clip(x, 0.0, self.capacity), dtype=float)

    def _kept_nodes(self) -> np.ndarray:
        return np.flatnonzero(_numbering(len(self.nodes), self._tail, self._head) >= 0)

    def _violation(self, x: Vector) -> float:
        loops = self._tail == self._head
        flow = np.where(loops, 0.0, x)
        n = len(self.nodes)
        out = np.bincount(self._tail, flow, n) - np.bincount(self._head, flow, n)
        degree = np.bincount(self._tail, ~loops, n) + np.bincount(self._head, ~loops, n)
        off = np.abs(out - self._supply) / np.sqrt(np.maximum(degree, 1.0))
        worst = max(float(off.max()), float((-x).max()), float((x - self.capacity).max()), 0.0)
        return worst / max(1.0, self.demand, float(self.capacity.max()))

    def center(self) -> Vector:
        """The flow of smallest norm."""
        return self._project(np.zeros(self.dim))

    def _support(self, c: Vector) -> Vector:
        from scipy.optimize import linprog

        size = float(np.abs(c).max()) or 1.0
        bounds = np.column_stack([np.zeros(self.dim), self.capacity])
        found = linprog(c / size, A_eq=self._incidence(), b_eq=self._supply, bounds=bounds, method="highs-ds")
        return np.asarray(np.clip(found.x, 0.0, self.capacity), dtype=float)

    def _tangent(self, G: Vector) -> Vector:
        if self._basis is None:
            B = self._incidence().toarray()[self._kept_nodes()]
            self._basis = np.linalg.qr(B.T)[0]
        return G - (G @ self._basis) @ self._basis.T

    def polyhedron(self) -> tuple[Vector, Vector, Vector, Vector, Vector, Vector]:
        """The set as (A_ub, b_ub, A_eq, b_eq, lower, upper)."""
        keep = self._kept_nodes()
        return (
            np.empty((0, self.dim)),
            np.empty(0),
            self._incidence().toarray()[keep],
            self._supply[keep],
            np.zeros(self.dim),
            self.capacity,
        )

    def decompose(self, x: ArrayLike) -> list[tuple[tuple[int, ...], float]]:
        """Split a flow into paths from source to sink.

        Parameters
        ----------
        x : array_like, shape (m,)
            A point of the domain (to 1e-6).

        Returns
        -------
        list of (path, weight)
            `path` is a tuple of arc indices in order; at most m of them, weights sum to the demand (to rounding).
            Cycles carry nothing to the sink and are left out.

        Raises
        ------
        InvalidInput
            If `x` is not a flow of this domain.
        """
        point = vector(x, "x", self.dim)
        if not self.contains(point, 1e-6):
            raise InvalidInput.argument("x", expected="a flow of this domain", got="another vector")
        left = np.maximum(point, 0.0)
        left[self._tail == self._head] = 0.0
        out: list[list[int]] = [[] for _ in self.nodes]
        for a, t in enumerate(self._tail):
            out[t].append(a)
        paths: list[tuple[tuple[int, ...], float]] = []
        tiny = 1e-12 * self._scale
        # what is left once the demand is met circulates through source and sink
        due = self.demand
        while due > tiny:
            path = self._walk(left, out, tiny)
            if path is None:
                break
            weight = min(float(left[path].min()), due)
            due -= weight
            left[path] -= weight
            left[left <= tiny] = 0.0
            paths.append((tuple(path), weight))
        return paths

    def _walk(self, left: Vector, out: list[list[int]], tiny: float) -> list[int] | None:
        """A path along positive arcs, cancelling the cycles met on the way."""
        path: list[int] = []
        seen = {self._s: 0}
        node = self._s
        while node != self._t:
            arc = max(out[node], key=lambda a: left[a], default=None)
            if arc is None or left[arc] <= tiny:
                return None
            path.append(arc)
            node = int(self._head[arc])
            if node in seen:
                cycle = path[seen[node] :]
                left[cycle] -= left[cycle].min()
                left[left <= tiny] = 0.0
                # an arc before the cycle may have been chosen for what the cycle carried: from the source again
                path, seen, node = [], {self._s: 0}, self._s
            else:
                seen[node] = len(path)
        return path

    def sample_path(self, x: ArrayLike, rng: Any = None) -> tuple[int, ...]:
        """A route drawn with the weights of `decompose`: its expectation is x/demand without the cycles.

        Parameters
        ----------
        x : array_like, shape (m,)
        rng : numpy.random.Generator, int or None

        Returns
        -------
        tuple of int
            Arc indices from source to sink.
        """
        paths = self.decompose(x)
        weights = np.array([w for _, w in paths])
        return paths[int(generator(rng).choice(len(paths), p=weights / weights.sum()))][0]


def _numbering(n: int, tail: np.ndarray, head: np.ndarray) -> np.ndarray:
    """Which nodes are unknowns (0) and which are fixed (-1): one of highest degree a component."""
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    graph = sparse.csr_array((np.ones(tail.size), (tail, head)), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    degree = np.bincount(tail, minlength=n) + np.bincount(head, minlength=n)
    number = np.zeros(n, dtype=np.int64)
    for part in range(label.max() + 1):
        members = np.flatnonzero(label == part)
        number[members[np.argmax(degree[members])]] = -1
    return number


def _structure(n: int, tail: np.ndarray, head: np.ndarray, supply: Vector) -> tuple[Any, ...]:
    """Elimination order, fill pattern and update targets, fixed once for all projections."""
    number = _numbering(n, tail, head)
    unknown = np.flatnonzero(number >= 0)
    order = unknown[_minimum_degree(n, unknown, tail, head)]
    number[order] = np.arange(order.size)
    ends = np.array([number[tail], number[head]])
    columns: list[set[int]] = [set() for _ in order]
    for t, h in ends.T:
        if t >= 0 and h >= 0 and t != h:
            columns[min(t, h)].add(int(max(t, h)))
    for column in columns:
        if column:
            parent = min(column)
            columns[parent] |= column - {parent}
    rows = [sorted(c) for c in columns]
    ptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    row = np.array([i for r in rows for i in r], dtype=np.int64)
    where = [{i: int(ptr[j]) + k for k, i in enumerate(r)} for j, r in enumerate(rows)]
    spot = np.full(tail.size, -1, dtype=np.int64)
    for a, (t, h) in enumerate(ends.T):
        if t >= 0 and h >= 0 and t != h:
            spot[a] = where[min(t, h)][int(max(t, h))]
    target: list[int] = []
    tptr, run = np.zeros(row.size, dtype=np.int64), np.zeros(row.size, dtype=np.bool_)
    for j, r in enumerate(rows):
        for k, i in enumerate(r):
            places = [where[i][other] for other in r[k + 1 :]]
            p = int(ptr[j]) + k
            tptr[p] = len(target)
            run[p] = all(b - a == 1 for a, b in itertools.pairwise(places))
            target += places
    return ends, spot, ptr, row, tptr, np.array(target, dtype=np.int64), run, supply[order]


def _minimum_degree(n: int, unknown: np.ndarray, tail: np.ndarray, head: np.ndarray) -> np.ndarray:
    """A fill-reducing order, by SuperLU's minimum degree on A + A^T."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    if unknown.size < 3:
        return np.arange(unknown.size)
    graph = sparse.csr_array((np.ones(tail.size), (tail, head)), shape=(n, n))
    A = (abs(graph + graph.T) + sparse.eye_array(n) * (2.0 * tail.size + 1.0)).tocsc()[unknown][:, unknown]
    lu = splu(A.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    order = np.empty(unknown.size, dtype=np.int64)
    order[lu.perm_c] = np.arange(unknown.size)
    return order
