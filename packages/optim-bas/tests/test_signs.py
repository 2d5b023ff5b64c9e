"""Bits: packing, unpacking, and the majority."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from optim_bas import pack_signs, unpack_signs
from optim_bas.signs import majority


@given(st.lists(st.floats(-2, 2).filter(bool), max_size=40))
@settings(max_examples=50, deadline=None)
def test_unpacking_gives_the_signs_back(values):
    x = torch.tensor(values, dtype=torch.float64)
    packed = pack_signs(x)
    assert packed.dtype == torch.uint8
    assert packed.shape == (-(-len(values) // 8),)
    assert torch.equal(unpack_signs(packed, len(values)), x.sign().to(torch.int8))


def test_the_layout_of_the_bits():
    x = torch.tensor([1.0, -1, -1, 1, -1, -1, -1, -1, -1, 2])
    assert pack_signs(x).tolist() == [0b00001001, 0b00000010]


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.int64,
        torch.float16,
        torch.float8_e4m3fn,
    ],
)
def test_every_real_dtype_has_signs(dtype):
    assert pack_signs(torch.tensor([1, 0, 1]).to(dtype)).tolist() == [0b101]


def test_a_matrix_is_flattened():
    x = torch.randn(3, 7)
    assert torch.equal(pack_signs(x), pack_signs(x.flatten()))


def test_the_number_of_bytes_is_checked():
    with pytest.raises(InvalidInput, match="packed: expected 2 bytes"):
        unpack_signs(torch.zeros(1, dtype=torch.uint8), 9)


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_the_majority_is_numpys(workers):
    signs = torch.randint(-1, 2, (workers, 1000), generator=torch.Generator().manual_seed(workers)).to(torch.int8)
    assert np.array_equal(majority(signs).numpy(), np.sign(signs.numpy().sum(axis=0, dtype=np.int64)))
