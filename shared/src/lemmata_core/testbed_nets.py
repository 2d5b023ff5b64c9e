"""The nets of `lemmata_core.testbeds`: small, and made of matrices. Needs torch."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """A pre-norm transformer block: fused query, key and value; a perceptron four times as wide."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, length, width) in and out."""
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))  # type: ignore[no-any-return]


class GPT(nn.Module):
    """A GPT with learned positions and an untied head, weights drawn with standard deviation 0.02.

    Parameters
    ----------
    vocabulary : int
        Number of tokens.
    width, layers, heads, context : int
    """

    def __init__(self, vocabulary: int, *, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        _initialise(self, layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (batch, length) in, logits (batch, length, vocabulary) out."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


class PatchTransformer(nn.Module):
    """The GPT's blocks without mask on 16 patches of 2 x 2 pixels, averaged, ten classes."""

    def __init__(self, width: int = 64, layers: int = 2, heads: int = 2) -> None:
        super().__init__()
        self.patches = nn.Linear(4, width)
        self.positions = nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal=False) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)
        _initialise(self, layers)
        # With the GPT's 0.02 it does not learn where a patch lies.
        nn.init.normal_(self.patches.weight, std=0.5)
        nn.init.normal_(self.positions.weight, std=0.5)

    def forward(self, images: Tensor) -> Tensor:
        """Images (batch, 8, 8) with values in [-1, 1] in, logits (batch, 10) out."""
        patches = images.unfold(1, 2, 2).unfold(2, 2, 2).reshape(-1, 16, 4)
        x = self.patches(patches) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x.mean(dim=1)))  # type: ignore[no-any-return]


class MatrixConv(nn.Module):
    """A 3 x 3 convolution whose weight is the matrix (outputs, 9 inputs), so that optimizers of matrices take it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, 9 * inputs) * math.sqrt(2 / (9 * inputs)))
        self.norm = nn.GroupNorm(4, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Convolution, normalisation in groups, and the positive part."""
        weight = self.weight.view(self.weight.shape[0], -1, 3, 3)
        return functional.relu(self.norm(functional.conv2d(x, weight, padding=1)))


class ConvNet(nn.Module):
    """Three convolutions with two poolings between them and a head of ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            MatrixConv(1, 32), MatrixConv(32, 64), nn.MaxPool2d(2), MatrixConv(64, 64), nn.MaxPool2d(2), nn.Flatten()
        )
        self.head = nn.Linear(64 * 4, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Images (batch, 8, 8) in, logits (batch, 10) out."""
        return self.head(self.layers(images.unsqueeze(1)))  # type: ignore[no-any-return]


def _initialise(net: nn.Module, layers: int) -> None:
    for module in net.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, Block):
            # 2 L residual outputs are added up.
            for last in (module.out, module.down):
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * layers))
