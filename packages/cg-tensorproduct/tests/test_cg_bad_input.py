"""Whatever cannot be right is refused before any work, by name."""

import numpy as np
import pytest
import torch
from cg_tensorproduct import (
    ElementwiseTensorProduct,
    FullTensorProduct,
    FullyConnectedTensorProduct,
    InvalidInput,
    Irrep,
    Irreps,
    SignalTensorProduct,
    TensorProduct,
    autotune,
    choose_algorithm,
    explain,
    plans,
    signal_product,
    tensor_harmonic_product,
    wigner_3j,
)
from e3nn import o3

X, Y = torch.ones(5, 7), torch.ones(5, 3)
FULL = FullTensorProduct("2x1o+0e", "1e")
MIXED = FullyConnectedTensorProduct("2x1o", "1o", "3x1e+0e")
SIGNAL = SignalTensorProduct(2, 2, weights="path", channels=2)
BAD_TENSORS = [X.numpy(), X.tolist(), 3.0, X.long(), X.cfloat(), X > 0, X.to_sparse(), torch.tensor(1.0)]


@pytest.mark.parametrize("bad", BAD_TENSORS, ids=lambda b: f"{type(b).__name__}-{getattr(b, 'dtype', '')}")
def test_what_is_no_dense_floating_tensor_is_refused(bad):
    for call in (
        lambda: FULL(bad, Y),
        lambda: FULL(X, bad),
        lambda: MIXED(bad, Y),
        lambda: MIXED(torch.ones(5, 6), Y, bad),
        lambda: SIGNAL(bad, torch.ones(5, 2, 9)),
        lambda: signal_product(torch.ones(9), bad),
        lambda: tensor_harmonic_product(bad, Y[0], 1, 1, 1),
        lambda: FULL.inverse(bad),
    ):
        with pytest.raises(InvalidInput):
            call()


def test_a_missing_input_is_refused():
    with pytest.raises(InvalidInput, match=r"x1: expected a torch\.Tensor, got NoneType"):
        FULL(None, Y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FullTensorProduct("1o", "1o", 3), "filter_ir_out: expected"),
        (lambda: FullTensorProduct("1o", "1o", dtype=torch.int64), "dtype: expected"),
        (lambda: FullTensorProduct("1o", "1o", dtype="float32"), "dtype: expected"),
        (lambda: FullTensorProduct("1o", "1o", device="nowhere"), "device: expected"),
        (lambda: TensorProduct("1o", "1o", "1e", 5), "instructions: expected"),
        (lambda: TensorProduct("1o", "1o", "1e", [5]), r"instructions\[0\]: expected"),
        (lambda: TensorProduct("1o", "1o", "1e", [(0, 0, 0, "uuu", True)], in1_var=[-1.0]), "in1_var: expected"),
        (lambda: TensorProduct("1o", "1o", "1e", [(0, 0, 0, "uuu", True, np.inf)]), r"instructions\[0\]: expected"),
        (lambda: ElementwiseTensorProduct("1o", "1o", ["5e"]), "filter_ir_out: expected"),
        (lambda: ElementwiseTensorProduct("1o", "1o", "1e"), "filter_ir_out: expected"),
        (lambda: MIXED(torch.ones(5, 6), Y, []), "weight: expected"),
        (lambda: MIXED(torch.ones(5, 6), Y, [torch.ones(2)] * 2), "weight: expected"),
        (lambda: SIGNAL.load_path_weights([[1.0]]), "W: expected"),
        (lambda: SIGNAL.load_path_weights(torch.full((3, 3, 5), torch.nan)), "W: expected"),
        (
            lambda: SIGNAL.load_path_weights(torch.full((3, 3, 5), 1e101, dtype=torch.float64)),
            r"W: expected values up to 1e\+100",
        ),
        (lambda: SIGNAL.load_path_weights(torch.full((3, 3, 5), 1j)), "W: expected a floating dtype"),
        (lambda: SIGNAL.load_path_weights(torch.ones(3, 3, 5).to_sparse()), "W: expected a dense tensor"),
        (lambda: SIGNAL.load_path_weights(torch.ones(3, 3, 5), tol=-1), "tol: expected"),
        (lambda: SIGNAL.load_path_weights(torch.ones(3, 3, 5), tol="1e-9"), "tol: expected"),
        (lambda: SignalTensorProduct(3000, 3000), "lmax1, lmax2, lmax_out: expected"),
        (lambda: SignalTensorProduct(150, 150, transform="dense"), "lmax1, lmax2, lmax_out: expected"),
        (lambda: FullTensorProduct("600e", "600e", ["0e"], algorithm="signal"), "algorithm: expected"),
        (lambda: wigner_3j(1, 1, 1, dtype=torch.int32), "dtype: expected"),
        (lambda: tensor_harmonic_product(X[0, :3], X[0, :3], 1, 1, 1, s="111"), "s, offsets: expected"),
        (lambda: autotune(FULL, 4, dtype=torch.int32, cache=False), "dtype: expected"),
        (lambda: autotune(torch.nn.Linear(1, 1), 4), "module: expected"),
        (lambda: choose_algorithm("x", 1), "plan: expected"),
        (lambda: choose_algorithm(FULL, 1, "nowhere"), "device: expected"),
        (lambda: explain(torch.nn.Linear(1, 1)), "module: expected"),
        (lambda: explain(FULL, -1), "batch: expected"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


EMPTY = ["", "0x1o", "0x1o+0x0e", [], Irreps(""), o3.Irreps("0x2e")]
PATH = [(0, 0, 0, "uvw", True)]


@pytest.mark.parametrize("empty", EMPTY, ids=repr)
def test_empty_irreps_are_refused_by_name(empty):
    for name, make in (
        ("irreps_in1", lambda: FullTensorProduct(empty, "1o")),
        ("irreps_in2", lambda: FullTensorProduct("1o", empty)),
        ("irreps_in1", lambda: FullyConnectedTensorProduct(empty, "1o", "1e")),
        ("irreps_in2", lambda: FullyConnectedTensorProduct("1o", empty, "1e")),
        ("irreps_out", lambda: FullyConnectedTensorProduct("1o", "1o", empty)),
        ("irreps_in1", lambda: TensorProduct(empty, "1o", "1e", PATH)),
        ("irreps_in2", lambda: TensorProduct("1o", empty, "1e", PATH)),
        ("irreps_out", lambda: TensorProduct("1o", "1o", empty, [])),
        ("irreps_in1", lambda: ElementwiseTensorProduct(empty, "1o")),
        ("irreps_in2", lambda: ElementwiseTensorProduct("1o", empty)),
    ):
        with pytest.raises(InvalidInput, match=f"{name}: expected at least one irrep"):
            make()
    assert Irreps(empty).dim == 0  # by themselves they are fine


@pytest.mark.parametrize("kind", [FullTensorProduct, ElementwiseTensorProduct])
@pytest.mark.parametrize("keep", [[], (), Irreps(""), Irreps("0x1e"), iter(())])
def test_a_filter_that_leaves_no_path_is_refused(kind, keep):
    with pytest.raises(InvalidInput, match="filter_ir_out: expected at least one irrep"):
        kind("1o", "1o", keep)


@pytest.mark.parametrize("kind", [FullTensorProduct, ElementwiseTensorProduct])
def test_irreps_that_do_not_parse_are_named_after_their_argument(kind):
    with pytest.raises(InvalidInput, match="irreps_in1: expected irreps such as"):
        kind("1z", "1o")
    with pytest.raises(InvalidInput, match="irreps_in2: expected multiplicities"):
        kind("1o", [(-1, "1o")])
    with pytest.raises(InvalidInput, match="irreps_in2: expected an irrep such as"):
        kind("1o", [(1, (-1, 1))])


def test_signals_without_components_are_refused():
    with pytest.raises(InvalidInput, match="lmax1: expected"):
        SignalTensorProduct(-1, 2)
    with pytest.raises(InvalidInput, match=r"y: expected \(L \+ 1\)\^2 columns, got 0 columns"):
        signal_product(torch.ones(2, 4), torch.ones(2, 0))


def test_the_weighted_kernel_without_numba_names_the_extra(monkeypatch):
    from cg_tensorproduct import tables

    monkeypatch.setattr(plans, "HAS_NUMBA", False)
    monkeypatch.setattr(tables, "HAS_NUMBA", False)
    with pytest.raises(InvalidInput, match=r"cg-tensorproduct\[cpu\]"):
        TensorProduct("2x1o", "1o", "2x1e", [(0, 0, 0, "uvu", True)], algorithm="kernel")


def test_weights_on_another_device_are_named():
    with pytest.raises(InvalidInput, match="x1: expected a tensor on cpu"):
        MIXED(torch.ones(5, 6, device="meta"), Y.to("meta"))


@pytest.mark.parametrize("algorithm", ["auto", "dense", "blocked", "signal", "sparse"])
def test_shapes_follow_on_the_meta_device(algorithm):
    product = FullTensorProduct("2x1o+0e", "1e", algorithm=algorithm)
    assert product(X.to("meta"), Y.to("meta")).shape == (5, 21)


@pytest.mark.parametrize("keep", [o3.Irreps("1o"), Irreps("1o"), [o3.Irrep("1o")], [Irrep("1o")], ["1o"], ((1, -1),)])
def test_filters_come_as_any_collection_of_irreps(keep):
    assert FullTensorProduct(o3.Irreps("2x1o+0e"), "1e", keep).irreps_out == "2x1o"


def test_objects_of_e3nn_are_understood():
    assert Irrep(o3.Irrep("1o")) == "1o"
    assert Irreps(o3.Irrep("1o")) == "1x1o"
    assert Irreps([o3.Irrep("1o"), (2, o3.Irrep("0e"))]) == "1o+2x0e"
    assert Irreps("1o+2x0e") == o3.Irreps("1o+2x0e")
