"""Irreps parse, print, sort and multiply as e3nn's do."""

import pickle

import pytest
from cg_tensorproduct import InvalidInput, Irrep, Irreps
from e3nn import o3

STRINGS = ["0e", "2x1o+0e", "16x0e + 8x1o+4x2e", "0x3o+1e", "", "1e+1e+0x2o+1e", "128x0e+128x1o+128x2e", "3y+2y"]


@pytest.mark.parametrize("text", STRINGS)
def test_agrees_with_e3nn(text):
    ours, theirs = Irreps(text), o3.Irreps(text)
    assert str(ours) == str(theirs)
    assert ours.dim == theirs.dim
    assert ours.num_irreps == theirs.num_irreps
    assert ours.ls == theirs.ls
    assert str(ours.simplify()) == str(theirs.simplify())
    assert str(ours.sort()[0]) == str(theirs.sort().irreps)
    assert ours.sort()[1] == theirs.sort().p
    assert str(ours.regroup()) == str(theirs.regroup())
    assert ours.slices() == theirs.slices()
    assert Irreps(theirs) == ours
    assert pickle.loads(pickle.dumps(ours)) == ours  # noqa: S301


def test_product_of_irreps():
    assert list(Irrep("1o") * Irrep(2, 1)) == ["1o", "2o", "3o"]
    assert Irrep(Irrep("2e")) == Irrep((2, 1))
    assert 3 * Irrep("1o") + Irreps("0e") == "3x1o+0e"
    assert Irreps([(2, "1o"), "0e", (1, (3, -1))]) == "2x1o+1x0e+1x3o"
    assert Irreps("0e+1o") * 2 == "0e+1o+0e+1o"
    assert Irreps.spherical_harmonics(3) == "0e+1o+2e+3o"
    assert "1o" in Irreps("2x1o")
    assert "nonsense" not in Irreps("2x1o")
    assert Irreps("2x1o+0e+3x1o").count("1o") == 5
    assert Irreps("2x1o+0e")[:1] == "2x1o"


@pytest.mark.parametrize(
    "bad", ["1", "1z", "x1o", "2x", "-1o", "2x-1e", "1o++0e", "1o,0e", "1.5x0e", None, 3, object()]
)
def test_bad_irreps_are_named(bad):
    with pytest.raises(InvalidInput, match="irrep"):
        Irreps(bad)


@pytest.mark.parametrize("bad", [(-1, 1), (1, 0), (1, 2), (1.5, 1), "1x1o"])
def test_bad_irrep_is_named(bad):
    with pytest.raises(InvalidInput, match="irrep"):
        Irrep(bad)


def test_negative_multiplicity_is_refused():
    with pytest.raises(InvalidInput, match="multiplicities"):
        Irreps([(-1, "0e")])


def test_an_irrep_cannot_be_changed():
    with pytest.raises(AttributeError):
        Irrep("1o").l = 2
