"""The problems on which optimizers are compared, and the loop that trains them."""

import math
import subprocess
import sys
from dataclasses import fields

import pytest
from lemmata_core import InvalidInput

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from lemmata_core import testbed_data, testbeds  # noqa: E402
from lemmata_core.testbeds import Problem, problem, schedule, text, train  # noqa: E402

NAMES = testbeds.PROBLEMS
SHORT = b"the quick brown fox jumps over the lazy dog. " * 60


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)


@pytest.fixture(scope="module")
def small():
    return text(SHORT, width=16, layers=1, heads=2, context=8, batch=4, steps=12)


def test_the_corpus_is_the_text_described_beside_it():
    raw = testbeds.corpus()
    assert len(raw) == 1_087_734
    assert len(set(raw)) == 61
    assert raw.startswith(b"In the beginning God created the heaven and the earth.")


def test_pydoc_is_english_of_the_running_python():
    assert len(testbeds.corpus("pydoc")) > 300_000


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_gives_logits_for_its_targets_and_starts_near_chance(name):
    p = problem(name)
    assert p.name == name
    x, y = p.sample(torch.Generator().manual_seed(0))
    logits = p.model()(x)
    assert logits.shape[:-1] == y.shape
    assert int(p.held_out[1].max()) < logits.shape[-1]
    if name != "digits_conv":  # whose head is not drawn small
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten()).item()
        assert loss == pytest.approx(math.log(logits.shape[-1]), rel=0.15)


def test_the_text_is_split_without_overlap():
    p = problem("kjv")
    total = len(testbeds.corpus())
    windows, context = p.held_out[0].shape
    assert context == 64
    assert windows == (total - int(total * 0.95) - 1) // 64
    assert torch.equal(p.held_out[0][:, 1:], p.held_out[1][:, :-1])
    starts = [p.sample(torch.Generator().manual_seed(seed)) for seed in range(3)]
    assert all(torch.equal(x[:, 1:], y[:, :-1]) for x, y in starts)


def test_digits_are_1347_to_train_and_450_to_test():
    pixels = problem("digits_pixels")
    assert pixels.held_out[1].shape == (450, 64)
    assert (pixels.held_out[0][:, 0] == 17).all()
    assert int(pixels.held_out[1].max()) == 16
    vit = problem("digits_vit")
    assert vit.held_out[0].shape == (450, 8, 8)
    assert float(vit.held_out[0].min()) == -1.0
    assert float(vit.held_out[0].max()) == 1.0


def test_shifted_digits_move_by_at_most_one_pixel_and_fill_with_background():
    image = torch.arange(64.0).view(1, 8, 8) + 1
    for seed in range(20):
        moved, label = testbed_data.shifted(image, torch.tensor([7]), 1, torch.Generator().manual_seed(seed))
        padded = torch.nn.functional.pad(image, (1, 1, 1, 1), value=-1.0)
        windows = [padded[0, i : i + 8, j : j + 8] for i in range(3) for j in range(3)]
        assert any(torch.equal(moved[0], window) for window in windows)
        assert label.item() == 7


def test_weights_and_batches_follow_from_the_seed_and_nothing_else(small):
    torch.manual_seed(1)
    one = train(small, adamw, seed=3)
    torch.manual_seed(2)
    two = train(small, adamw, seed=3)
    assert one == two  # all but seconds and the model
    assert torch.equal(one.model.head.weight, two.model.head.weight)
    assert train(small, adamw, seed=4) != one
    before = torch.random.get_rng_state()
    train(small, adamw, steps=1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_batches_do_not_depend_on_the_optimizer(small):
    seen = {}
    for name, lr in (("fast", 1e-2), ("slow", 1e-4)):
        batches = []
        sample = small.sample

        def record(generator, sample=sample, batches=batches):
            batches.append(sample(generator))
            return batches[-1]

        watched = Problem(**{f.name: getattr(small, f.name) for f in fields(small)} | {"sample": record})
        train(watched, lambda m, lr=lr: torch.optim.SGD(m.parameters(), lr=lr), steps=3)
        seen[name] = batches
    for a, b in zip(seen["fast"], seen["slow"]):
        assert torch.equal(a[0], b[0])


@pytest.mark.parametrize("name", ["kjv", "digits_pixels", "digits_vit", "digits_conv"])
def test_a_few_steps_of_adamw_learn_something(name):
    p = problem(name)
    history = train(p, adamw, steps=12 if name in testbeds.CORPORA else 40)
    start = p.evaluate(p.model())
    assert history.loss < 0.98 * start.loss
    assert len(history.train_loss) == history.steps


def test_the_schedule_rises_over_a_tenth_and_falls_to_a_tenth():
    factors = [schedule(step, 100) for step in range(100)]
    assert factors[:10] == pytest.approx([0.1 * k for k in range(1, 11)])
    assert max(factors) == pytest.approx(1)
    assert factors[-1] == pytest.approx(0.1, abs=1e-3)
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert schedule(0, 1) == 1.0


def test_held_out_scores_are_those_of_the_model_at_that_step(small):
    history = train(small, adamw, evaluate_every=5)
    assert history.evaluated == (5, 10, 12)
    scores = small.evaluate(history.model)
    assert (scores.loss, scores.accuracy) == (history.loss, history.accuracy)


def test_several_optimizers_share_a_model_and_one_can_take_over(small):
    seen = []

    def pair(model):
        first, *rest = model.parameters()
        return torch.optim.SGD([first], lr=0.5), torch.optim.SGD(rest, lr=0.25)

    def take_over(done, model, optimizers):
        seen.append((done, tuple(g["lr"] for o in optimizers for g in o.param_groups)))
        return torch.optim.SGD(model.parameters(), lr=2.0) if done == 2 else None

    train(small, pair, steps=4, warmup=0.0, floor=1.0, after_step=take_over)
    assert seen == [(1, (0.5, 0.25)), (2, (0.5, 0.25)), (3, (2.0,)), (4, (2.0,))]


def test_a_given_model_is_trained_further_in_place(small):
    first = train(small, adamw, steps=3)
    again = train(small, adamw, steps=3, seed=1, model=first.model)
    assert again.model is first.model
    assert again.train_loss[0] < first.train_loss[0]


def test_two_texts_share_a_vocabulary(small):
    wide = text(SHORT, vocabulary=bytes(set(SHORT) | set(b"XYZ")), width=16, heads=2, context=8)
    assert wide.model().head.weight.shape[0] == small.model().head.weight.shape[0] + 3


def test_clipping_bounds_the_gradient_of_every_step(small):
    norms = []

    def factory(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.register_step_pre_hook(
            lambda *_: norms.append(math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters())))
        )
        return optimizer

    train(small, factory, steps=3, clip=0.01)
    assert norms == pytest.approx([0.01] * 3, rel=1e-3)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda p: problem("shakespeare"), "name"),
        (lambda p: testbeds.corpus("kjw"), "name"),
        (lambda p: text(b"short"), "data"),
        (lambda p: text(SHORT, vocabulary=b"abc"), "vocabulary"),
        (lambda p: text(SHORT, width=15), "width"),
        (lambda p: text(SHORT, context=0), "context"),
        (lambda p: text(SHORT, batch=0), "batch"),
        (lambda p: train(p, adamw, steps=0), "steps"),
        (lambda p: train(p, adamw, seed=-1), "seed"),
        (lambda p: train(p, adamw, clip=0.0), "clip"),
        (lambda p: train(p, adamw, warmup=2.0), "warmup"),
        (lambda p: train(p, adamw, evaluate_every=0), "evaluate_every"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(small, call, name):
    with pytest.raises(InvalidInput, match=name):
        call(small)


def test_importing_the_core_does_not_load_torch_and_the_testbeds_do_not_load_scikit_learn():
    code = (
        "import sys, lemmata_core; assert 'torch' not in sys.modules; import lemmata_core.testbeds; "
        "assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
