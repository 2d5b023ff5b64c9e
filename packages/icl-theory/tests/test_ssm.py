import warnings

import pytest
import torch
from icl_theory import (
    DeepICL,
    GatedLinearICL,
    MambaBlock,
    MambaLayer,
    PatternBank,
    PromptSpec,
    sample_prompts,
    tasks_all,
    train,
)
from icl_theory.causal_conv import causal_conv
from icl_theory.deep import DEEP_GATES, AttentionICL, MixingLayer
from lemmata_core import InvalidInput

TOKENS = sample_prompts(
    PatternBank(d=12, n_relevant=3, n_irrelevant=2, n_outlier=2), tasks_all(3), PromptSpec(length=7), 4, 0
).tokens


def test_the_block_takes_transformers_weights_and_gives_its_outputs():
    with warnings.catch_warnings():
        # What transformers imports when it finds it installed warns of its own syntax.
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        from transformers.models.mamba.modeling_mamba import MambaMixer

    torch.manual_seed(0)
    peer = MambaMixer(transformers.MambaConfig(hidden_size=24, state_size=8, num_hidden_layers=1), layer_idx=0).eval()
    ours = MambaBlock(24, 8)
    ours.load_state_dict(peer.state_dict())
    x = torch.randn(2, 17, 24)
    y, right = ours(x), peer(x)
    torch.testing.assert_close(y, right, rtol=1e-4, atol=1e-6)
    weight = torch.randn_like(y)
    for name, p in ours.named_parameters():
        (mine,) = torch.autograd.grad((y * weight).sum(), p, retain_graph=True)
        (theirs,) = torch.autograd.grad((right * weight).sum(), dict(peer.named_parameters())[name], retain_graph=True)
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5 * float(theirs.abs().max() + 1))


@pytest.mark.parametrize(("length", "taps"), [(9, 4), (1, 4), (3, 4), (5, 1), (4, 2)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_convolution_is_torchs_own(length, taps, bias):
    conv = torch.nn.Conv1d(5, 5, taps, groups=5, padding=taps - 1, bias=bias, dtype=torch.float64)
    x = torch.randn(3, length, 10, dtype=torch.float64)[..., :5].requires_grad_()
    right = conv(x.transpose(1, 2))[..., :length].transpose(1, 2)
    y = causal_conv(x, conv.weight, conv.bias)
    torch.testing.assert_close(y, right)
    weight, wanted = torch.randn_like(y), [x, *conv.parameters()]
    for mine, theirs in zip(*(torch.autograd.grad((t * weight).sum(), wanted) for t in (y, right))):
        torch.testing.assert_close(mine, theirs)
    assert torch.autograd.gradgradcheck(causal_conv, (x, conv.weight, conv.bias))


def test_the_scan_gives_mambapy_values():
    pscan = pytest.importorskip("mambapy.pscan")
    from icl_theory import selective_scan

    torch.manual_seed(0)
    u, delta, A = torch.randn(2, 32, 5), torch.rand(2, 32, 5), -torch.rand(5, 4)
    B, C = torch.randn(2, 2, 32, 4)
    hs = pscan.pscan(torch.exp(delta[..., None] * A), delta[..., None] * B[:, :, None] * u[..., None])
    torch.testing.assert_close(selective_scan(u, delta, A, B, C), (hs @ C[..., None])[..., 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gate", ["none", "mamba2", "retnet", "gated_retention", "gla"])
def test_the_label_row_of_a_layer_is_the_one_layer_model(gate):
    one = GatedLinearICL(12, gate=gate, rng=3)
    layer = MixingLayer(13, gate)
    with torch.no_grad():
        for p in (one.W_B, one.W_C):
            p.add_(0.1 * torch.randn(13, 13))
        layer.W_B.copy_(one.W_B)
        layer.W_C.copy_(one.W_C)
        if one.w is not None:
            layer.w.copy_(one.w.reshape(layer.w.shape))
    torch.testing.assert_close(layer(TOKENS)[:, -1, -1], one(TOKENS), rtol=1e-4, atol=1e-4)


def test_the_label_channel_of_a_mamba_layer_is_the_one_layer_model():
    one, layer = GatedLinearICL(12, rng=3), MambaLayer(13, rng=5)
    with torch.no_grad():
        layer.W_B.copy_(one.W_B)
        layer.W_C.copy_(one.W_C)
        layer.w[-1].copy_(one.w)
    torch.testing.assert_close(layer(TOKENS)[:, -1, -1], one(TOKENS), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gate", DEEP_GATES)
def test_deep_models_do_not_look_ahead_and_have_gradients(gate):
    model = DeepICL(12, 2, gate)
    layer = model.layers[0]
    changed = TOKENS.clone()
    changed[:, 5:] += 1
    torch.testing.assert_close(layer(TOKENS)[:, :5], layer(changed)[:, :5], rtol=1e-5, atol=1e-5)
    model(TOKENS).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("softmax", [True, False])
def test_attention_baselines_do_not_see_the_order(softmax):
    model = AttentionICL(12, n_heads=2, softmax=softmax)
    turned = TOKENS[:, [6, 2, 0, 1, 5, 4, 3, 7]]
    torch.testing.assert_close(model(TOKENS), model(turned), rtol=1e-4, atol=1e-5)


def test_a_deep_model_learns():
    bank = PatternBank(d=12, n_relevant=3, n_irrelevant=2, n_outlier=2)
    adam = lambda p: torch.optim.Adam(p, lr=3e-3)  # noqa: E731
    result = train(
        DeepICL(12, 2),
        bank,
        tasks_all(3),
        PromptSpec(length=8, outlier_fraction=0.2),
        steps=60,
        batch=32,
        optimizer=adam,
    )
    assert result.losses[-10:].mean() < 0.5 * result.losses[:5].mean()


def test_bad_input_is_named():
    with pytest.raises(InvalidInput, match=r"^gate: expected"):
        DeepICL(3, gate="lstm")
    with pytest.raises(InvalidInput, match=r"^n_layers: expected"):
        DeepICL(3, n_layers=0)


def test_layers_refuse_what_does_not_fit_and_take_nothing():
    for layer in (MambaBlock(8), MambaLayer(8)):
        assert layer(torch.zeros(2, 0, 8)).shape == (2, 0, 8)
        assert layer(torch.zeros(0, 3, 8)).shape == (0, 3, 8)
        for wrong in (torch.zeros(2, 3, 7), torch.zeros(3, 8), [[1.0]]):
            with pytest.raises(InvalidInput, match=r"^input: expected"):
                layer(wrong)
    with pytest.raises(InvalidInput, match=r"^delta: expected"):
        MambaLayer(8, delta=-1.0)
