"""What several tests of this package need, as fixtures (test modules cannot import one another)."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def rotation():
    """seed -> a random proper rotation, float64."""

    def make(seed):
        generator = torch.Generator().manual_seed(seed)
        q = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=generator))[0]
        return q * torch.det(q)

    return make


@pytest.fixture
def normal():
    """(seed, *shape) -> standard normal numbers."""

    def make(seed, *shape, dtype=torch.float64):
        return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)

    return make
