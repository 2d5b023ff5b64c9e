"""How the weighted modes run: each is a few matrix products, and no (batch, u, v, i, j) outer product exists.

Every function takes features [B, mul, 2 l + 1], a coupling c [i, j, k] with the path weight folded in, and weights,
shared or one set a sample; and returns [B, 2 l3 + 1, mul_out]. Ordinary torch operations: every transform works.
"""

from __future__ import annotations

import torch

Tensor = torch.Tensor


def uvw(x: Tensor, y: Tensor, c: Tensor, w: Tensor) -> Tensor:
    """Fully connected: ``out[w] = sum W[u, v, w] x[u] (x) y[v]``, w [(B,) u, v, w].

    The weights meet the smallest dimension: C^3 sum of min(2 l + 1) multiply-adds instead of C^3 sum of (2 l3 + 1).
    """
    batch, u, i = x.shape
    _, v, j = y.shape
    k, mul = c.shape[2], w.shape[-1]
    if k <= i and k <= j:
        G = (x.reshape(batch * u, i) @ c.transpose(1, 2).reshape(i, k * j)).view(batch, u, k, j)
        Z = torch.bmm(G.transpose(1, 2).reshape(batch, k * u, j), y.transpose(1, 2))
        return Z.view(batch, k, u * v) @ w.reshape(*w.shape[:-3], u * v, mul)
    if i > j:
        return _fold_first(y, x, c.transpose(0, 1), w.transpose(-3, -2))
    return _fold_first(x, y, c, w)


def _fold_first(x: Tensor, y: Tensor, c: Tensor, w: Tensor) -> Tensor:
    batch, u, i = x.shape
    _, v, j = y.shape
    k, mul = c.shape[2], w.shape[-1]
    X = x.transpose(1, 2) @ w.reshape(*w.shape[:-3], u, v * mul)
    G = (y.reshape(batch * v, j) @ c.permute(1, 2, 0).reshape(j, k * i)).view(batch, v, k * i)
    return torch.bmm(G.transpose(1, 2).reshape(batch, k, i * v), X.view(batch, i * v, mul))


def uvu(x: Tensor, y: Tensor, c: Tensor, w: Tensor | None) -> Tensor:
    """``out[u] = sum over v of W[u, v] x[u] (x) y[v]``, w [(B,) u, v]."""
    batch, _, i = x.shape
    _, v, j = y.shape
    k = c.shape[2]
    if w is None:
        y, v = y.sum(1, keepdim=True), 1
    G = (y.reshape(batch * v, j) @ c.permute(1, 2, 0).reshape(j, k * i)).view(batch, v * k, i)
    t = torch.bmm(G, x.transpose(1, 2)).view(batch, v, k, x.shape[1])  # [B, v, k, u]
    if w is None:
        return t.squeeze(1)
    return (t * w.transpose(-1, -2).unsqueeze(-2)).sum(1)


def uvuv(x: Tensor, y: Tensor, c: Tensor, w: Tensor | None) -> Tensor:
    """``out[u v] = W[u, v] x[u] (x) y[v]``, w [(B,) u, v]."""
    batch, u, i = x.shape
    _, v, j = y.shape
    k = c.shape[2]
    G = (y.reshape(batch * v, j) @ c.permute(1, 2, 0).reshape(j, k * i)).view(batch, v * k, i)
    t = torch.bmm(G, x.transpose(1, 2)).view(batch, v, k, u).permute(0, 2, 3, 1)  # [B, k, u, v]
    if w is not None:
        t = t * w.unsqueeze(-3)
    return t.reshape(batch, k, u * v)


def pairwise(x: Tensor, y: Tensor, c: Tensor) -> Tensor:
    """``x[q] (x) y[q]`` for paired copies, [B, k, q]."""
    batch, copies, i = x.shape
    outer = (x.unsqueeze(3) * y.unsqueeze(2)).reshape(batch * copies, i * y.shape[2])
    return (outer @ c.flatten(0, 1)).view(batch, copies, c.shape[2]).transpose(1, 2)


def one(mode: str, x: Tensor, y: Tensor, c: Tensor, w: Tensor | None) -> Tensor:
    """One instruction of any mode."""
    if mode == "uvw":
        assert w is not None  # noqa: S101 - checked at construction
        return uvw(x, y, c, w)
    if mode == "uvu":
        return uvu(x, y, c, w)
    if mode == "uvv":
        return uvu(y, x, c.transpose(0, 1), None if w is None else w.transpose(-1, -2))
    if mode == "uvuv":
        return uvuv(x, y, c, w)
    if mode in ("uvu<v", "u<vw"):
        first, second = torch.triu_indices(x.shape[1], x.shape[1], 1, device=x.device)
        t = pairwise(x.index_select(1, first), y.index_select(1, second), c)
    else:
        t = pairwise(x, y, c)
    if mode in ("uuw", "u<vw"):
        return t.sum(2, keepdim=True) if w is None else t @ w
    return t if w is None else t * w.unsqueeze(-2)


def multiply_adds(mode: str, first: tuple[int, int], second: tuple[int, int], third: tuple[int, int]) -> int:
    """Multiply-adds of one instruction and sample, from (copies, 2 l + 1) of both inputs and the output.

    Counts what the functions above do; the native kernel of uvu does the same without the zeros of the coupling.
    """
    (u, i), (v, j), (w, k) = first, second, third
    if mode == "uvw":
        if k <= i and k <= j:
            return u * k * i * j + k * u * j * v + k * u * v * w
        if i > j:
            u, i, v, j = v, j, u, i
        return i * u * v * w + v * i * j * k + k * i * v * w
    if mode == "uvv":
        u, i, v, j = v, j, u, i
    if mode in ("uvu", "uvv", "uvuv"):
        return v * i * j * k + v * k * i * u
    pairs = u * (u - 1) // 2 if mode in ("uvu<v", "u<vw") else u
    return pairs * (i * j + i * j * k) + (pairs * k * w if mode in ("uuw", "u<vw") else 0)
