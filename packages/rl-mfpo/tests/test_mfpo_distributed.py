"""Two gloo ranks on one machine."""

import multiprocessing
import os
import socket
import sys
import traceback

import pytest
import torch
from lemmata_core import InvalidInput
from rl_mfpo import CheckpointCallback, MFPOConfig, MFPOLearner, distributed
from rl_mfpo.learner import Batch
from torch.overrides import TorchFunctionMode

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forks ranks, which have torch then at once"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

HALF = 16
FIELDS = {
    "hidden_sizes": (16, 16),
    "batch_size": HALF,
    "actor_batch_size": None,
    "learning_starts": 32,
    "k_policy": 4,
    "k_gaussian": 4,
    "buffer_size": 1000,
}


def halves(rank, out):
    learner = MFPOLearner(3, 1, MFPOConfig.preset("small", **FIELDS), seed=rank)
    distributed.distribute_learner(learner)
    learner.generator.manual_seed(100 + rank)
    share, times = [], learner._times

    def counted(n):
        t, r = times(n)
        share.append(float((r < t).float().mean()))
        return t, r

    learner._times = counted
    for batch in torch.load(out / "batches.pt"):
        learner.update(Batch(*(x[rank * HALF : (rank + 1) * HALF] for x in batch)))
    weights = [p.detach() for p in learner.parameters()]
    torch.save({"p": weights, "alpha": learner.alpha, "share": share}, out / f"rank-{rank}.pt")


def train(rank, out):
    agent = distributed.make("Pendulum-v1", seed=3, device="cpu", config="small", **FIELDS)
    callbacks = [CheckpointCallback(25, out / "c")]
    if rank == 1:
        callbacks.append(lambda agent: agent.num_timesteps < 57)
    agent.learn(100, callback=callbacks, log_dir=out / "logs")
    told = {
        "n": agent.num_timesteps,
        "updates": agent.learner.n_updates,
        "seed": agent.seed,
        "w": [p.detach() for p in agent.learner.parameters()],
        "rows": agent.buffer.read_rows(0, 57).tolist(),
    }
    torch.save(told, out / f"rank-{rank}.pt")
    torch.distributed.barrier()
    resumed = distributed.resume(out / "c", device="cpu")
    n = resumed.num_timesteps
    resumed.learn(until=90)
    told = {"n": (n, resumed.num_timesteps), "held": len(resumed.buffer), "updates": resumed.learner.n_updates}
    torch.save({**told, "w": [p.detach() for p in resumed.learner.parameters()]}, out / f"resumed-{rank}.pt")


def fail(rank, out):
    def break_down(agent):
        if agent.num_timesteps == 50:
            raise RuntimeError("rank 1 broke")

    agent = distributed.make("Pendulum-v1", seed=3, device="cpu", config="small", **FIELDS)
    agent.learn(100_000, callback=break_down if rank == 1 else None)


def in_rank(rank, port, body, out):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    try:
        with distributed.session("gloo", timeout=20):
            body(rank, out)
    except BaseException:  # noqa: BLE001 - whatever it is, the test that waits must read it
        (out / f"error-{rank}").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)


def run(body, out):
    MFPOLearner(3, 1, MFPOConfig.preset("small", **FIELDS), seed=0)  # loads, once, what both ranks need
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=in_rank, args=(rank, port, body, out)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(200)
    return [rank.exitcode for rank in ranks], [path.read_text() for path in sorted(out.glob("error-*"))]


class Halves(TorchFunctionMode):
    """Draws for a whole batch what two ranks draw for their halves, in the rows' common order."""

    def __init__(self, order):
        super().__init__()
        self.order = order
        self.generators = [torch.Generator().manual_seed(100 + rank) for rank in range(2)]

    def draw(self, one):
        return torch.cat([one(generator) for generator in self.generators])[self.order]

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("generator") is not None and function in {torch.randn, torch.rand}:
            size = list(args[0]) if len(args) == 1 and not isinstance(args[0], int) else list(args)
            assert size[0] == 2 * HALF, "every draw is a row a transition"
            kwargs.pop("generator")
            return self.draw(lambda g: function(HALF, *size[1:], generator=g, **kwargs))
        return function(*args, **kwargs)


def test_two_ranks_with_half_batches_are_one_process_with_the_whole(tmp_path):
    draw = torch.Generator().manual_seed(7)
    batches = [
        [
            torch.randn(2 * HALF, 3, generator=draw),
            torch.rand(2 * HALF, 1, generator=draw) * 2 - 1,
            torch.randn(2 * HALF, generator=draw),
            torch.randn(2 * HALF, 3, generator=draw),
            torch.zeros(2 * HALF),
        ]
        for _ in range(3)
    ]
    torch.save(batches, tmp_path / "batches.pt")
    codes, errors = run(halves, tmp_path)
    assert codes == [0, 0], errors
    ranks = [torch.load(tmp_path / f"rank-{rank}.pt") for rank in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(ranks[0]["p"], ranks[1]["p"])), "ranks agree to the bit"
    assert ranks[0]["alpha"] == ranks[1]["alpha"]
    assert set(ranks[0]["share"] + ranks[1]["share"]) == {0.5}, "rows r < t have their share on every rank"

    # Rows r = t of both ranks first, as one process has them: rank 0's, rank 1's, then the others.
    quarter = HALF // 2
    rows = torch.arange(2 * HALF)
    order = torch.cat([rows[:quarter], rows[HALF : HALF + quarter], rows[quarter:HALF], rows[HALF + quarter :]])
    whole = {**FIELDS, "batch_size": 2 * HALF, "learning_starts": 2 * HALF}
    learner = MFPOLearner(3, 1, MFPOConfig.preset("small", **whole), seed=0)
    mode = Halves(order)
    times = learner._times

    def of_both(n):
        drawn = []
        for generator in mode.generators:
            learner.generator.set_state(generator.get_state())
            with torch._C.DisableTorchFunction():
                drawn.append(times(HALF))
            generator.set_state(learner.generator.get_state())
        return tuple(torch.cat(part)[order] for part in zip(*drawn))

    learner._times = of_both
    with mode:
        for batch in batches:
            learner.update(Batch(*(part[order] for part in batch)))
    worst = max(float((a - b.detach()).abs().max()) for a, b in zip(ranks[0]["p"], learner.parameters()))
    # A step of Adam is 1e-3; rounding that it divides by small gradients leaves some 1e-6 after three.
    assert worst < 1e-5, worst
    assert ranks[0]["alpha"] == pytest.approx(learner.alpha, rel=1e-6)


def test_ranks_train_one_policy_in_worlds_of_their_own_and_stop_together(tmp_path):
    codes, errors = run(train, tmp_path)
    assert codes == [0, 0], errors
    a, b = (torch.load(tmp_path / f"rank-{rank}.pt") for rank in range(2))
    assert a["n"] == b["n"] == 57, "rank 1 stopped, both end"
    assert a["updates"] == b["updates"] == 57 - 32
    assert all(torch.equal(x, y) for x, y in zip(a["w"], b["w"]))
    assert (a["seed"], b["seed"]) == (3, 4)
    assert a["rows"] != b["rows"]
    assert len(list((tmp_path / "c").glob("manifest-*"))) == 2, "rank 0 alone writes checkpoints"
    assert len(list((tmp_path / "logs").iterdir())) == 1
    c, d = (torch.load(tmp_path / f"resumed-{rank}.pt") for rank in range(2))
    assert c["n"] == d["n"] == (50, 90)
    assert (c["held"], d["held"]) == (90, 40), "rank 1 begins with an empty replay"
    assert c["updates"] == d["updates"] == 18 + 25, "updates wait until rank 1 has a batch of 16"
    assert all(torch.equal(x, y) for x, y in zip(c["w"], d["w"]))


def test_a_rank_that_fails_ends_the_others(tmp_path):
    codes, errors = run(fail, tmp_path)
    assert codes[0] != 0
    assert codes[1] != 0
    assert "rank 1 broke" in errors[1]


def test_outside_torchrun_it_says_so(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(InvalidInput, match="the variables of torchrun, got no RANK"), distributed.session():
        pass
