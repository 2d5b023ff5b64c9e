"""Which tensor is a matrix, which way round, and what `describe` says about it."""

import warnings

import pytest
import torch
from lemmata_core import InvalidInput
from optim_rmnp import RMNP, describe, param_groups, row_normalize
from optim_rmnp.layout import matrix_views, read_layout
from torch import nn


def _old_weight_norm(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(module)


class Conv1D(nn.Module):
    """As in Hugging Face's GPT-2: weight (in, out)."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.randn(nx, nf))
        self.bias = nn.Parameter(torch.zeros(nf))


class Zoo(nn.Module):
    def __init__(self, tied=False):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.attention = nn.MultiheadAttention(8, 2)
        self.qkv = nn.Linear(8, 24)
        self.gpt = Conv1D(24, 8)
        self.conv = nn.Conv2d(4, 6, 3)
        self.up = nn.ConvTranspose2d(4, 5, 2)
        self.experts = nn.Parameter(torch.randn(3, 8, 16))
        self.bilinear = nn.Bilinear(2, 3, 4)
        self.rnn = nn.LSTM(8, 4)
        self.norm = nn.LayerNorm((4, 8))
        self.scale = nn.Parameter(torch.ones(()))
        self.lm_head = nn.Linear(8, 11, bias=False)
        if tied:
            self.lm_head.weight = self.embed.weight


def rows(groups):
    return {row.name: row for row in describe(groups)}


def test_module_types_decide_which_algorithm_and_which_way_round():
    table = rows(param_groups(Zoo(), stacked={"qkv.weight": 3, "gpt.weight": 3}))
    matrices = {name: (r.stacked, r.rows, r.fan_in) for name, r in table.items() if r.algorithm == "rmnp"}
    assert matrices == {
        "attention.in_proj_weight": (3, 8, 8),
        "attention.out_proj.weight": (1, 8, 8),
        "qkv.weight": (3, 8, 8),
        "gpt.weight": (3, 8, 8),
        "conv.weight": (1, 6, 36),
        "up.weight": (1, 20, 4),
        "experts": (1, 8, 16),
        "bilinear.weight": (1, 4, 6),
        "rnn.weight_ih_l0": (4, 4, 8),
        "rnn.weight_hh_l0": (4, 4, 4),
    }
    aux = {name: r.weight_decay for name, r in table.items() if r.algorithm == "adamw"}
    assert aux.pop("embed.weight") == aux.pop("lm_head.weight") == 0.1
    assert set(aux.values()) == {0.0}
    assert {"norm.weight", "scale", "qkv.bias", "gpt.bias"} <= set(aux)


def test_every_parameter_is_in_exactly_one_group():
    model = Zoo(tied=True)
    groups = param_groups(model)
    listed = [id(p) for g in groups for p in g["params"]]
    assert sorted(listed) == sorted({id(p) for p in model.parameters()})
    assert all(len(g["params"]) == len(g["param_names"]) for g in groups)


def test_tied_weights_appear_once_as_the_embedding():
    table = rows(param_groups(Zoo(tied=True)))
    assert "lm_head.weight" not in table
    assert table["embed.weight"].algorithm == "adamw"


def test_a_tied_weight_registered_first_as_the_head_is_still_the_embedding():
    model = nn.ModuleDict({"out": nn.Linear(8, 11, bias=False), "embed": nn.Embedding(11, 8)})
    model["out"].weight = model["embed"].weight
    assert [r.name for r in describe(param_groups(model))] == ["embed.weight"]


def test_policy_all_gives_the_embedding_and_the_head_to_rmnp_and_norms_to_adamw():
    table = rows(param_groups(Zoo(), policy="all"))
    assert table["embed.weight"].algorithm == table["lm_head.weight"].algorithm == "rmnp"
    assert table["norm.weight"].algorithm == "adamw"


@pytest.mark.parametrize("name", ["lm_head", "head", "output", "classifier", "score", "cls_head"])
def test_the_last_linear_with_a_heads_name_is_the_head(name):
    model = nn.ModuleDict({"head_of_school": nn.Linear(4, 4), name: nn.Linear(4, 3), "last": nn.Linear(3, 3)})
    aux = {r.name for r in describe(param_groups(model)) if r.algorithm == "adamw" and len(r.shape) == 2}
    assert aux == {f"{name}.weight"}


def test_a_head_can_be_named_or_given():
    for head in ("qkv", None):
        model = Zoo()
        table = rows(param_groups(model, head=head or model.qkv))
        assert table["qkv.weight"].algorithm == "adamw"
        assert table["lm_head.weight"].algorithm == "rmnp"


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"head": "nowhere"}, "head"),
        ({"head": nn.Linear(2, 2)}, "head"),
        ({"policy": "some"}, "policy"),
        ({"stacked": {"*.qvk.weight": 3}}, "stacked"),
        ({"stacked": {"lm_head.weight": 11}}, "stacked"),
    ],
)
def test_heads_policies_and_patterns_that_fit_nothing_are_refused(options, name):
    with pytest.raises(InvalidInput, match=name):
        param_groups(Zoo(), **options)
    with pytest.raises(InvalidInput, match="model"):
        param_groups(dict)


def test_rates_and_decays_are_those_asked_for():
    groups = param_groups(Zoo(), lr=1.0, aux_lr=2.0, weight_decay=0.25, aux_weight_decay=0.5)
    for g in groups:
        assert g["lr"] == (1.0 if g["algorithm"] == "rmnp" else 2.0)
        assert g["weight_decay"] in ({0.25} if g["algorithm"] == "rmnp" else {0.5, 0.0})
    RMNP(groups)


def direction(shape, **keys):
    """What one step without decay and scale does to a weight of zeros, and its gradient."""
    p = nn.Parameter(torch.zeros(shape))
    p.grad = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    RMNP([{"params": [p], **keys}], lr=1.0, weight_decay=0.0, adjust_lr_fn="none").step()
    return -p.detach(), p.grad


def test_convolutions_normalise_the_whole_fan_in_of_an_output_channel():
    for shape, keys in (((6, 4, 3, 3), {}), ((6, 4, 3), {"kind": "conv"}), ((6, 4, 2, 2, 2), {})):
        d, g = direction(shape, **keys)
        torch.testing.assert_close(d.flatten(1), row_normalize(g.flatten(1)))


def test_transposed_storage_normalises_over_the_first_dimension():
    for shape, keys in (((8, 24), {}), ((4, 5, 2, 2), {}), ((4, 5, 2), {"kind": "conv"})):
        d, g = direction(shape, input_dim=0, **keys)
        torch.testing.assert_close(d, row_normalize(g, dim=0))


def test_expert_stacks_normalise_the_last_dimension_of_each_expert():
    d, g = direction((3, 8, 16))
    torch.testing.assert_close(d, row_normalize(g))
    d, g = direction((2, 3, 8, 16), kind="stack")
    torch.testing.assert_close(d, row_normalize(g))
    d, g = direction((3, 8, 16), input_dim=-2)
    torch.testing.assert_close(d, row_normalize(g, dim=1))


@pytest.mark.parametrize(
    ("shape", "keys", "expected"),
    [
        ((6, 2), {}, (6, 2)),
        ((6, 2), {"stacked": 3}, (2, 2)),
        ((2, 6), {"input_dim": 0}, (6, 2)),
        ((2, 6), {"input_dim": 0, "stacked": 3}, (2, 2)),
        ((6, 4, 3, 3), {}, (6, 36)),
        ((6, 4, 3), {}, (4, 3)),
        ((6, 4, 3), {"kind": "conv"}, (6, 12)),
        ((6, 4, 3, 5), {"kind": "stack"}, (3, 5)),
        ((6, 4, 3), {"input_dim": -2}, (3, 4)),
        ((6, 4, 3, 3), {"input_dim": 0}, (36, 6)),
    ],
)
def test_rows_and_fan_in_of_one_matrix(shape, keys, expected):
    layout = read_layout(shape, keys, "w")
    assert (layout.rows, layout.fan_in) == expected
    tensor = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    views = matrix_views(tensor, layout)
    assert sum(v.numel() for v in views) == tensor.numel()
    assert all(v.shape[1] == layout.fan_in for v in views)
    views[0].add_(1)  # views, not copies
    assert tensor.flatten()[0] == 1


@pytest.mark.parametrize(
    ("shape", "keys"),
    [((6, 4, 3, 3), {"input_dim": 1}), ((6, 4), {"input_dim": 1.0}), ((6, 4), {"stacked": 5}), ((6, 4), {"kind": 3})],
)
def test_layout_keys_that_do_not_fit_are_refused(shape, keys):
    with pytest.raises(InvalidInput, match=next(iter(keys))):
        read_layout(shape, keys, "w")


def test_describe_shows_the_step_of_every_tensor_before_the_first():
    model = nn.Sequential(nn.Linear(16, 64, bias=False), nn.Linear(64, 4))
    groups = param_groups(model, lr=0.01, head="1")
    table = describe(groups)
    assert len(table) == 3
    row = table["0.weight"]
    assert (row.shape, row.rows, row.fan_in, row.algorithm, row.scale) == ((64, 16), 64, 16, "rmnp", 2.0)
    assert row.effective_lr == pytest.approx(0.02)
    assert row.update_rms == pytest.approx(0.5)
    assert table["1.weight"].update_rms is None
    assert str(describe(RMNP(groups))) == str(table)
    lines = str(table).splitlines()
    assert len(lines) == 4
    assert "64 x 16" in lines[1]
    with pytest.raises(KeyError):
        table["2.weight"]
    with pytest.raises(InvalidInput):
        describe([1, 2])


def test_describe_agrees_with_the_step_taken():
    for row in describe(param_groups(Zoo(), stacked={"qkv.weight": 3}, lr=1.0, weight_decay=0.0)):
        if row.algorithm != "rmnp":
            continue
        group = next(g for g in param_groups(Zoo(), stacked={"qkv.weight": 3}) if row.name in g["param_names"])
        keys = {k: group[k] for k in ("input_dim", "stacked", "kind") if k in group}
        p = nn.Parameter(torch.zeros(row.shape))
        p.grad = torch.randn(row.shape)
        RMNP([{"params": [p], **keys}], lr=1.0, weight_decay=0.0).step()
        assert p.square().mean().sqrt().item() == pytest.approx(row.update_rms, rel=1e-5)


@pytest.mark.parametrize("wrap", [torch.nn.utils.parametrizations.weight_norm, _old_weight_norm])
def test_the_lengths_of_weight_norm_are_vectors_and_its_directions_matrices(wrap):
    model = torch.nn.Sequential(wrap(torch.nn.Linear(6, 8)), wrap(torch.nn.Conv1d(8, 4, 3)))
    kinds = {name: (g["algorithm"], g["weight_decay"]) for g in param_groups(model) for name in g["param_names"]}
    lengths = [name for name in kinds if name.endswith(("original0", "weight_g"))]
    directions = [name for name in kinds if name.endswith(("original1", "weight_v"))]
    assert len(lengths) == len(directions) == 2
    assert all(kinds[name] == ("adamw", 0.0) for name in lengths)
    assert all(kinds[name] == ("rmnp", 0.1) for name in directions)


def test_the_biases_of_attention_are_vectors_though_they_have_three_dimensions():
    model = torch.nn.MultiheadAttention(8, 2, add_bias_kv=True)
    adamw = {name for g in param_groups(model) if g["algorithm"] == "adamw" for name in g["param_names"]}
    assert {"bias_k", "bias_v"} <= adamw
