"""Fast, complete Clebsch-Gordan tensor products."""

from lemmata_core import InvalidInput

from cg_tensorproduct.convert import ReplaceReport, replace_e3nn
from cg_tensorproduct.coupling import (
    bracket_coefficient,
    clebsch_gordan,
    coupling_coefficient,
    gaunt_coefficient,
)
from cg_tensorproduct.explaining import explain
from cg_tensorproduct.full import FullTensorProduct
from cg_tensorproduct.harmonics import tensor_harmonic_product
from cg_tensorproduct.irreps import Irrep, Irreps
from cg_tensorproduct.rotation import rotation_matrix
from cg_tensorproduct.signals import SignalOutput, SignalTensorProduct, signal_product
from cg_tensorproduct.tensor_product import ElementwiseTensorProduct, FullyConnectedTensorProduct, TensorProduct
from cg_tensorproduct.tuning import AutotuneReport, autotune, choose_algorithm
from cg_tensorproduct.wigner import wigner_3j

__all__ = [
    "AutotuneReport",
    "ElementwiseTensorProduct",
    "FullTensorProduct",
    "FullyConnectedTensorProduct",
    "InvalidInput",
    "Irrep",
    "Irreps",
    "ReplaceReport",
    "SignalOutput",
    "SignalTensorProduct",
    "TensorProduct",
    "autotune",
    "bracket_coefficient",
    "choose_algorithm",
    "clebsch_gordan",
    "coupling_coefficient",
    "explain",
    "gaunt_coefficient",
    "replace_e3nn",
    "rotation_matrix",
    "signal_product",
    "tensor_harmonic_product",
    "wigner_3j",
]
