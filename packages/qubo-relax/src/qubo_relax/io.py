"""Files: quadratics (.qubo, .mtx, .npz), graphs (rudy), TSPLIB, MineLib, OR-Library, linear programs (.lp, .mps)."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.files import DAMAGED, atomic_write
from scipy import sparse

from qubo_relax.constraints import LinearConstraint
from qubo_relax.problems import TSP, BinaryLP, FacilityLocation, MaxCut, MultiKnapsack, OpenPit
from qubo_relax.qubo import Qubo

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

KINDS = ("qubo", "maxcut", "tsp", "pit", "lp", "mkp", "facility")
_BY_SUFFIX = {
    ".qubo": "qubo",
    ".mtx": "qubo",
    ".npz": "qubo",
    ".tsp": "tsp",
    ".atsp": "tsp",
    ".upit": "pit",
    ".lp": "lp",
    ".mps": "lp",
}


def read(path: str | Path, kind: str | None = None, *, prec: str | Path | None = None) -> Any:
    """Read a quadratic or a problem.

    Parameters
    ----------
    path : path-like
    kind : {"qubo", "maxcut", "tsp", "pit", "lp", "mkp", "facility"}, optional
        Chosen by the ending when left out: .qubo, .mtx and .npz give a `Qubo` (``x'Qx``), .tsp and .atsp a `TSP`,
        .upit an `OpenPit`, .lp and .mps a `BinaryLP` (extra `mip`), any other ending a rudy graph, so a `MaxCut`.
    prec : path-like, optional
        The .prec file of a pit; the same name with that ending when left out.

    Returns
    -------
    Qubo or Problem

    Raises
    ------
    InvalidInput
        Naming the file and the line that cannot be read.
    """
    p = Path(path)
    chosen = _BY_SUFFIX.get(p.suffix.lower(), "maxcut") if kind is None else kind
    if chosen not in KINDS:
        raise InvalidInput.argument("kind", expected=f"one of {', '.join(KINDS)}", got=kind)
    if chosen == "qubo":
        return _read_qubo(p)
    if chosen == "pit":
        return read_minelib(p, p.with_suffix(".prec") if prec is None else Path(prec))
    if chosen == "tsp":
        return read_tsplib(p)[0]
    return {"maxcut": read_rudy, "lp": read_lp, "mkp": read_mkp, "facility": read_facility}[chosen](p)


def write(qubo: Qubo, path: str | Path) -> None:
    """Write a quadratic, diagonal and upper triangle; the ending chooses between .qubo, .mtx and .npz.

    The offset is kept in a comment line of .qubo and .mtx. Concavity and blocks are not kept: they belong to the
    relaxation.
    """
    p = Path(path)
    diagonal = qubo.linear if qubo.diagonal is None else qubo.linear + qubo.diagonal
    Q = sparse.coo_array(sparse.triu(qubo.quadratic, 1) + sparse.diags_array(diagonal) if qubo.n else qubo.quadratic)
    if p.suffix == ".npz":
        with atomic_write(p, "wb") as file:
            i, j = Q.coords
            np.savez_compressed(file, n=qubo.n, i=i, j=j, v=Q.data, offset=qubo.offset)
        return
    (i, j), v = Q.coords, Q.data
    if p.suffix == ".qubo":
        own = i == j
        lines = [f"c offset {qubo.offset!r}", f"p qubo 0 {qubo.n} {int(own.sum())} {int((~own).sum())}"]
        for part in (own, ~own):
            lines += [f"{a} {b} {float(x)!r}" for a, b, x in zip(i[part], j[part], v[part])]
    elif p.suffix == ".mtx":
        lines = ["%%MatrixMarket matrix coordinate real general", f"% offset {qubo.offset!r}"]
        lines += [f"{qubo.n} {qubo.n} {v.size}"]
        lines += [f"{a + 1} {b + 1} {float(x)!r}" for a, b, x in zip(i, j, v)]
    else:
        raise InvalidInput.argument("path", expected="a name ending in .qubo, .mtx or .npz", got=str(p))
    with atomic_write(p) as file:
        file.write("\n".join(lines) + "\n")


def _bad(path: Path, line: int, text: str, expected: str) -> InvalidInput:
    return InvalidInput(f"{path.name}, line {line}: expected {expected}, got {text.strip()[:80]!r}")


def _text(p: Path) -> str:
    try:
        return p.read_text("utf-8-sig")
    except UnicodeDecodeError as err:
        raise InvalidInput(f"{p.name}: expected text in UTF-8, got {err}") from None


def _read_npz(p: Path) -> Qubo:
    with p.open("rb") as file:
        try:
            with np.load(file) as z:
                n, i, j, v, offset = (z[name] for name in ("n", "i", "j", "v", "offset"))
            return Qubo.from_coo(int(n), i, j, v, offset=float(offset))
        except DAMAGED as err:
            raise InvalidInput(f"{p.name}: expected arrays n, i, j, v, offset as written by write, got {err}") from None


def _read_qubo(p: Path) -> Qubo:
    if p.suffix == ".npz":
        return _read_npz(p)
    market = p.suffix == ".mtx"
    n, offset, symmetric = -1, 0.0, False
    i, j, v = [], [], []
    for number, line in enumerate(_text(p).splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if words[0] in ("c", "%") or line.startswith("%"):
            if len(words) == 3 and words[1] == "offset":
                try:
                    offset = float(words[2])
                except ValueError:
                    raise _bad(p, number, line, "a number as the offset") from None
            symmetric |= market and words[-1] == "symmetric" and line.startswith("%%")
            continue
        try:
            if n < 0:
                n = int(words[0]) if market else int(words[3])
                if not market and words[:2] != ["p", "qubo"]:
                    raise ValueError
                continue
            shift = 1 if market else 0
            i.append(int(words[0]) - shift)
            j.append(int(words[1]) - shift)
            v.append(float(words[2]))
        except (ValueError, IndexError):
            want = "'p qubo 0 n diagonals elements' first, then 'i j value'" if not market else "'i j value'"
            raise _bad(p, number, line, want) from None
    if n < 0:
        raise InvalidInput(f"{p.name}: expected a header with the number of variables, got none")
    a, b, w = np.array(i, dtype=np.int64), np.array(j, dtype=np.int64), np.array(v)
    # A symmetric Matrix Market file stores each pair once and means it twice.
    return Qubo.from_coo(n, a, b, np.where(symmetric & (a != b), 2 * w, w), offset=offset)


def read_rudy(path: str | Path) -> MaxCut:
    """A graph as ``n m`` and lines ``i j weight`` counted from 1 (Gset, Biq Mac): the max-cut problem on it."""
    p = Path(path)
    n, edges = -1, []
    for number, line in enumerate(_text(p).splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            if n < 0:
                n = int(words[0])
                continue
            edges.append((int(words[0]) - 1, int(words[1]) - 1, float(words[2]) if len(words) > 2 else 1.0))
        except (ValueError, IndexError):
            raise _bad(p, number, line, "'i j weight'") from None
    if n < 0:
        raise InvalidInput(f"{p.name}: expected 'n m' first, got an empty file")
    return MaxCut((n, edges))


def read_tsplib(path: str | Path) -> tuple[TSP, Floats | None]:
    """A TSPLIB file: the problem, and the coordinates of its cities where it has them.

    Explicit matrices (full, upper or lower, with or without diagonal) and EUC_2D, CEIL_2D, ATT and GEO coordinates.
    """
    p = Path(path)
    head: dict[str, str] = {}
    numbers: dict[str, list[float]] = {}
    section = ""
    for number, line in enumerate(_text(p).splitlines(), 1):
        text = line.strip()
        if not text or text == "EOF":
            continue
        if ":" in text and not section:
            key, _, value = text.partition(":")
            head[key.strip()] = value.strip()
        elif text.rstrip(":").strip().endswith("_SECTION"):
            section = text.rstrip(":").strip()
            numbers[section] = []
        elif section:
            try:
                numbers[section] += [float(w) for w in text.split()]
            except ValueError:
                if ":" not in text:
                    raise _bad(p, number, line, "numbers") from None
                section = ""
    try:
        n = int(head["DIMENSION"])
        points = numbers.get("NODE_COORD_SECTION") or numbers.get("DISPLAY_DATA_SECTION")
        xy = None if points is None else np.array(points).reshape(n, 3)[:, 1:]
        kind = head["EDGE_WEIGHT_TYPE"]
        if kind == "EXPLICIT":
            d = _explicit(numbers["EDGE_WEIGHT_SECTION"], n, head["EDGE_WEIGHT_FORMAT"])
        else:
            d = _distances(np.array(numbers["NODE_COORD_SECTION"]).reshape(n, 3)[:, 1:], kind)
    except (KeyError, ValueError) as err:
        raise InvalidInput(f"{p.name}: expected a TSPLIB file of a known kind, got {err}") from None
    return TSP(d), xy


def _explicit(values: list[float], n: int, form: str) -> Floats:
    a = np.array(values)
    if form == "FULL_MATRIX":
        return a.reshape(n, n)
    d = np.zeros((n, n))
    shift = 0 if "DIAG" in form else 1
    lower = np.tril_indices(n, -shift)
    index = (lower[0], lower[1]) if form.startswith("LOWER") else np.triu_indices(n, shift)
    d[index] = a
    return d + d.T


def _distances(xy: Floats, kind: str) -> Floats:
    if kind == "GEO":
        whole = np.trunc(xy)
        radians = math.pi * (whole + 5.0 * (xy - whole) / 3.0) / 180.0
        lat, lon = radians.T
        q1 = np.cos(lon[:, None] - lon)
        q2, q3 = np.cos(lat[:, None] - lat), np.cos(lat[:, None] + lat)
        d = np.floor(6378.388 * np.arccos(np.clip(0.5 * ((1 + q1) * q2 - (1 - q1) * q3), -1, 1)) + 1.0)
    else:
        r = np.sqrt(((xy[:, None] - xy) ** 2).sum(axis=-1))
        if kind == "EUC_2D":
            d = np.floor(r + 0.5)
        elif kind == "CEIL_2D":
            d = np.ceil(r)
        elif kind == "ATT":
            d = np.ceil(r / math.sqrt(10.0))
        else:
            raise ValueError(f"the edge weight type {kind}")
    np.fill_diagonal(d, 0.0)
    return np.asarray(d)


def read_minelib(upit: str | Path, prec: str | Path) -> OpenPit:
    """A MineLib ultimate pit: ``block value`` lines (with or without the header) and ``block n p1 .. pn`` lines."""
    values: dict[int, float] = {}
    p = Path(upit)
    lines = _text(p).splitlines()
    begun = not any(line.strip().startswith("OBJECTIVE_FUNCTION") for line in lines)
    for number, line in enumerate(lines, 1):
        words = line.split()
        if line.strip().startswith("OBJECTIVE_FUNCTION"):
            begun = True
        elif begun and words and words[0] != "EOF":
            try:
                values[int(words[0])] = float(words[1])
            except (ValueError, IndexError):
                raise _bad(p, number, line, "'block value'") from None
    q = Path(prec)
    arcs = []
    for number, line in enumerate(_text(q).splitlines(), 1):
        words = line.split()
        if not words:
            continue
        try:
            block, count = int(words[0]), int(words[1])
            arcs += [(block, int(w)) for w in words[2 : 2 + count]]
        except (ValueError, IndexError):
            raise _bad(q, number, line, "'block n p1 .. pn'") from None
    if sorted(values) != list(range(len(values))):
        raise InvalidInput(f"{p.name}: expected blocks 0..{len(values) - 1}, got others")
    return OpenPit([values[k] for k in range(len(values))], np.array(arcs, dtype=np.int64).reshape(-1, 2))


def read_mkp(path: str | Path, number: int = 0) -> MultiKnapsack:
    """A multi-dimensional knapsack of OR-Library: ``n m optimum``, values, m rows of weights, capacities.

    Files with several problems begin with their number; `number` picks one.
    """
    p = Path(path)
    try:
        words = [float(w) for w in _text(p).split()]
        n, m = int(words[0]), int(words[1])
        if len(words) == 3 + n + n * m + m:
            words = [1.0, *words]
        at = 1
        for _ in range(number):
            at += 3 + int(words[at]) * (1 + int(words[at + 1])) + int(words[at + 1])
        n, m = int(words[at]), int(words[at + 1])
        a = np.array(words[at + 3 : at + 3 + n + n * m + m])
        return MultiKnapsack(a[:n], a[n : n + n * m].reshape(m, n), a[n + n * m :])
    except (ValueError, IndexError, OverflowError) as err:
        raise InvalidInput(f"{p.name}: expected OR-Library's multi-dimensional knapsack, got {err}") from None


def read_facility(path: str | Path) -> FacilityLocation:
    """A warehouse location file of OR-Library (cap*), capacities ignored: the uncapacitated problem."""
    p = Path(path)
    try:
        words = [float(w) for w in _text(p).split()]
        m, c = int(words[0]), int(words[1])
        opening = words[3 : 2 + 2 * m : 2]
        rest = np.array(words[2 + 2 * m : 2 + 2 * m + c * (m + 1)]).reshape(c, m + 1)
        return FacilityLocation(rest[:, 1:], opening)
    except (ValueError, IndexError, OverflowError) as err:
        raise InvalidInput(f"{p.name}: expected OR-Library's warehouse location, got {err}") from None


def read_lp(path: str | Path) -> BinaryLP:
    """A linear program in binaries from .lp or .mps, by HiGHS (extra `mip`); maximisation changes the sign of c."""
    try:
        import highspy
    except ImportError as err:
        raise InvalidInput.argument("path", expected="the extra qubo-relax[mip] for this", got="no highspy") from err
    p = Path(path)
    if not p.is_file():
        raise FileNotFoundError(2, "No such file", str(p))
    # The class itself prints a banner on stdout before it can be silenced, which would spoil --json; its base does not.
    solver: Any = highspy.Highs.__base__()
    solver.setOptionValue("output_flag", False)
    if solver.readModel(str(p)) != highspy.HighsStatus.kOk:
        raise InvalidInput(f"{p.name}: expected a model that HiGHS can read")
    lp = solver.getLp()
    n, low, high = lp.num_col_, np.array(lp.col_lower_), np.array(lp.col_upper_)
    if (low != 0).any() or (high != 1).any():
        raise InvalidInput(f"{p.name}: expected binary variables only, got other bounds")
    m = lp.a_matrix_
    build = sparse.csc_array if m.format_ == highspy.MatrixFormat.kColwise else sparse.csr_array
    A = sparse.csr_array(build((np.array(m.value_), np.array(m.index_), np.array(m.start_)), shape=(lp.num_row_, n)))
    lower, upper = np.array(lp.row_lower_), np.array(lp.row_upper_)
    rows, b, sense = [], [], []
    for k in range(lp.num_row_):
        if lower[k] == upper[k]:
            parts = [("==", upper[k])]
        else:
            parts = [(s, v) for s, v in (("<=", upper[k]), (">=", lower[k])) if abs(v) < 1e29]
        for s, v in parts:
            rows.append(k)
            sense.append(s)
            b.append(float(v))
    c = np.array(lp.col_cost_)
    sign = -1.0 if lp.sense_ == highspy.ObjSense.kMaximize else 1.0
    return BinaryLP(sign * c, A[rows] if rows else np.zeros((0, n)), b, sense)


def read_constraints(path: str | Path) -> list[LinearConstraint]:
    """Rows from a CSV file: a column a variable, the sense, the right side; a header line may come first."""
    p = Path(path)
    rows = []
    for number, cells in enumerate(csv.reader(io.StringIO(_text(p), newline="")), 1):
        header = number == 1 and len(cells) > 2 and cells[-2].strip() not in ("<=", ">=", "==")
        if not cells or header:
            continue
        try:
            a = [float(c or 0) for c in cells[:-2]]
            rows.append(LinearConstraint(a, cells[-2].strip(), float(cells[-1]), f"line {number}"))
        except (ValueError, IndexError):
            raise _bad(p, number, ",".join(cells), "coefficients, sense, right side") from None
    if not rows:
        raise InvalidInput(f"{p.name}: expected at least one row of coefficients, sense, right side, got none")
    return rows
