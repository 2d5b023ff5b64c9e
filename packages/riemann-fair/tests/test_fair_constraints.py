"""Groups as people have them, and the constraints made of them."""

import numpy as np
import pandas as pd
import pytest
from lemmata_core import InvalidInput
from riemann_fair import constraint_matrix
from riemann_fair.constraints import FairSubspace
from riemann_fair.groups import read_groups


def test_columns_sum_to_zero_and_the_last_group_is_implied():
    info = constraint_matrix(["a", "b", "b", "c"])
    assert info.names == ("a", "b", "c")
    assert info.proportions == pytest.approx([0.25, 0.5, 0.25])
    assert pytest.approx(np.array([[0.75, -0.5], [-0.25, 0.5], [-0.25, 0.5], [-0.25, -0.5]])) == info.F
    assert info.rank == 2
    assert info.C is None


def test_scalings_of_the_three_constraints():
    d = np.array([1.0, 4.0, 4.0, 1.0])
    groups = [0, 0, 1, 1]
    F = np.array([[0.5], [0.5], [-0.5], [-0.5]])
    assert pytest.approx(F / np.sqrt(d)[:, None]) == constraint_matrix(groups, degrees=d).C
    assert pytest.approx(F) == constraint_matrix(groups, degrees=d, constraint="plain").C
    volume = constraint_matrix([0, 1, 1, 1], degrees=d, constraint="volume")
    assert volume.proportions == pytest.approx([0.1, 0.9])
    assert d @ volume.F == pytest.approx([0.0])


def test_a_duplicated_attribute_changes_nothing():
    rng = np.random.default_rng(0)
    g = rng.integers(0, 3, 30)
    d = rng.uniform(1, 5, 30)
    once = FairSubspace(read_groups(g), d)
    twice = FairSubspace(read_groups(np.column_stack([g, g])), d)
    assert once.rank == twice.rank == 2
    X = rng.standard_normal((30, 4))
    assert twice.project(X) == pytest.approx(once.project(X), abs=1e-12)


@pytest.mark.parametrize("attributes", [1, 2, 3])
@pytest.mark.parametrize("constraint", ["count", "plain", "volume"])
def test_the_cell_projection_is_the_projection_on_the_null_space(attributes, constraint):
    rng = np.random.default_rng(attributes)
    g = rng.integers(0, 3, (40, attributes)).astype(object)
    g[rng.random(g.shape) < 0.1] = None
    d = rng.uniform(1, 5, 40)
    space = FairSubspace(read_groups(g, missing="ignore"), d, constraint)
    C = constraint_matrix(g, degrees=d, constraint=constraint, missing="ignore").C
    Q = np.linalg.svd(C, full_matrices=False)[0][:, : np.linalg.matrix_rank(C)]
    X = rng.standard_normal((40, 3))
    assert space.rank == Q.shape[1]
    assert space.project(X) == pytest.approx(X - Q @ (Q.T @ X), abs=1e-12)
    assert space.project(X[:, 0]) == pytest.approx((X - Q @ (Q.T @ X))[:, 0], abs=1e-12)
    assert space.violation(X) == pytest.approx(np.linalg.norm(Q.T @ X))
    B = space.basis()
    assert pytest.approx(Q @ Q.T, abs=1e-12) == B @ B.T
    assert space.project(X.astype(np.float32)).dtype == np.float32


def test_soft_memberships():
    rng = np.random.default_rng(0)
    G = rng.dirichlet(np.ones(3), 20)
    info = constraint_matrix(G)
    assert pytest.approx(G[:, :2] - G[:, :2].mean(axis=0)) == info.F
    space = FairSubspace(read_groups(G), np.full(20, 2.0))
    assert space.rank == 2
    assert np.abs(info.F.T @ space.project(rng.standard_normal((20, 2)))).max() < 1e-12


@pytest.mark.parametrize("absent", [None, np.nan, pd.NA])
def test_missing_labels_are_refused_ignored_or_a_group(absent):
    values = np.array(["a", "b", absent, "b"], dtype=object)
    with pytest.raises(InvalidInput, match="1 missing"):
        read_groups(values)
    ignored = constraint_matrix(values, missing="ignore")
    assert ignored.F[2] == pytest.approx([0.0])
    assert ignored.proportions == pytest.approx([1 / 3, 2 / 3])
    assert ignored.F.sum(axis=0) == pytest.approx([0.0])
    assert read_groups(values, missing="group").labels == (("a", "b", "missing"),)


def test_minus_one_is_missing_only_when_ignored():
    assert read_groups([-1, 0, 1], missing="ignore").codes[:, 0].tolist() == [-1, 0, 1]
    assert read_groups([-1, 0, 1]).codes[:, 0].tolist() == [0, 1, 2]


def test_attributes_side_by_side_or_crossed():
    frame = pd.DataFrame({"sex": list("ffmmfm") * 4, "region": ["n", "s", "n", "s", "s", "n"] * 4})
    side = read_groups(frame)
    assert side.names == ("sex=f", "sex=m", "region=n", "region=s")
    crossed = read_groups(frame, combine="intersect", min_group_size=5)
    assert crossed.labels == (("f & s", "m & n", "other"),)
    assert crossed.merged == ("f & n", "m & s")
    assert crossed.codes[:, 0].tolist()[:6] == [2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (pd.Series(pd.Categorical(["a", "a", "b"], categories=["a", "b", "c"])), "none in c"),
        ([None, None], "missing"),
        ([], "at least one"),
        (np.zeros((3, 2, 2)), "1-D or 2-D"),
        (3, "1-D or 2-D"),
        ([[1.0], [1.0, 2.0]], "unequal length"),
        (np.zeros((0, 3)), "at least one"),
        (np.array([[0.5, 0.6], [0.5, 0.5]]), "sum to 1"),
    ],
)
def test_unusable_groups(groups, words):
    with pytest.raises(InvalidInput, match=words):
        read_groups(groups)


@pytest.mark.parametrize("degrees", [[1.0, 2.0], ["a", "b", "c"], [1.0, np.nan, 1.0], [1.0, -1.0, 1.0]])
def test_degrees_that_cannot_be_used(degrees):
    with pytest.raises(InvalidInput, match="degrees"):
        constraint_matrix([0, 1, 1], degrees=degrees)


def test_length_is_checked_and_named():
    with pytest.raises(InvalidInput, match="groups: expected one label for each of the 4 nodes, got 3"):
        read_groups([0, 1, 0], 4)


@pytest.mark.parametrize(
    "groups", [["x", "y", "x"], pd.Series(["x", "y", "x"]), np.array(["x", "y", "x"]), {"g": ["x", "y", "x"]}]
)
def test_the_same_labels_in_every_container(groups):
    table = read_groups(groups)
    assert table.labels == (("x", "y"),)
    assert table.codes[:, 0].tolist() == [0, 1, 0]


@pytest.mark.parametrize("kind", ["FairStiefel", "FairGrassmann"])
@pytest.mark.parametrize("n", ["3", None, np.nan, np.inf, 0])
def test_a_manifold_has_a_whole_number_of_rows(kind, n):
    import riemann_fair

    with pytest.raises(InvalidInput, match=r"^n:"):
        getattr(riemann_fair, kind)(n, 2, np.ones((6, 1)))
