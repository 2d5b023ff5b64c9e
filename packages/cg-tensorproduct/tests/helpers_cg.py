"""What several tests of this package need."""

import torch


def rotation(seed: int) -> torch.Tensor:
    """A random proper rotation, float64."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=generator))[0]
    return q * torch.det(q)


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)
