import json

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lemmata_core import InvalidInput
from rl_mfpo import checkpoint
from rl_mfpo.buffer import ReplayBuffer
from rl_mfpo.checkpoint import CheckpointStore


def grown(buffer, n):
    rows = np.arange(buffer.total * buffer.width, (buffer.total + n) * buffer.width, dtype=np.float32)
    buffer.append_rows(rows.reshape(n, buffer.width))


def save(store, buffer, *, keep=1, **state):
    store.save({"x": torch.tensor([1.5]), **state}, {"note": "ö", "nan": 1e-30}, buffer, keep)


def read_back(path, like):
    made = checkpoint.read(path)
    buffer = ReplayBuffer(like.capacity, like.obs_dim, like.action_dim)
    made.fill(buffer)
    return made, buffer


def same(a, b):
    return a.total == b.total and np.array_equal(a._rows[: len(a)], b._rows[: len(b)])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 20), st.lists(st.integers(0, 45), min_size=1, max_size=7))
def test_the_replay_comes_back_whatever_was_saved_when(tmp_path_factory, capacity, sizes):
    path = tmp_path_factory.mktemp("c")
    store, buffer = CheckpointStore(path), ReplayBuffer(capacity, 2, 1)
    for n in sizes:
        grown(buffer, n)
        save(store, buffer, keep=2)
        made, back = read_back(path, buffer)
        assert same(buffer, back)
        assert made.meta == {"note": "ö", "nan": 1e-30}
        assert made.state["x"] == 1.5
    assert len(checkpoint.manifests(path)) == min(len(sizes), 2)


def test_each_save_writes_little_more_than_the_new_rows(tmp_path):
    store, buffer = CheckpointStore(tmp_path), ReplayBuffer(4096, 2, 1)
    written, known = 0, set()
    for _ in range(32):
        grown(buffer, 128)
        save(store, buffer)
        for file in tmp_path.glob("replay-*"):
            if file.name not in known:
                known.add(file.name)
                written += file.stat().st_size
    rows = 4096 * buffer.width * 4
    assert written <= 6 * rows, "a row is written again at most once a doubling"
    assert len(list(tmp_path.glob("replay-*"))) <= 6


def test_a_process_that_goes_on_adds_only_its_new_rows(tmp_path):
    buffer = ReplayBuffer(1000, 2, 1)
    grown(buffer, 500)
    save(CheckpointStore(tmp_path), buffer)
    old = set(tmp_path.glob("replay-*"))
    made, back = read_back(tmp_path, buffer)
    grown(back, 100)
    save(CheckpointStore(tmp_path, made.chunks), back)
    assert old < set(tmp_path.glob("replay-*"))
    assert same(read_back(tmp_path, buffer)[1], back)


def test_two_runs_that_part_do_not_mix_their_rows(tmp_path):
    buffer = ReplayBuffer(100, 2, 1)
    grown(buffer, 50)
    save(CheckpointStore(tmp_path), buffer, keep=5)
    made, one = read_back(tmp_path, buffer)
    _, other = read_back(tmp_path, buffer)
    one.append_rows(np.full((10, 7), 1, dtype=np.float32))
    save(CheckpointStore(tmp_path, made.chunks), one, keep=5)
    other.append_rows(np.full((10, 7), 2, dtype=np.float32))
    save(CheckpointStore(tmp_path, made.chunks), other, keep=5)
    assert same(read_back(tmp_path, buffer)[1], other)


def test_only_the_newest_stay(tmp_path):
    store, buffer = CheckpointStore(tmp_path), ReplayBuffer(100, 2, 1)
    (tmp_path / "mine.txt").write_text("not ours")
    for _ in range(5):
        grown(buffer, 10)
        save(store, buffer, keep=3)
    assert sorted(checkpoint.manifests(tmp_path)) == [3, 4, 5]
    assert len(list(tmp_path.glob("state-*"))) == 3
    assert (tmp_path / "mine.txt").read_text() == "not ours"


@pytest.mark.parametrize("what", ["state", "replay", "manifest"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, what):
    store, buffer = CheckpointStore(tmp_path), ReplayBuffer(100, 2, 1)
    grown(buffer, 50)
    save(store, buffer, keep=2)
    before = buffer.total
    grown(buffer, 10)
    save(store, buffer, keep=2)
    file = max(tmp_path.glob(f"{what}-*"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    with pytest.warns(UserWarning, match="passed over a damaged checkpoint: manifest-000002"):
        made, back = read_back(tmp_path, buffer)
    assert made.sequence == 1
    assert back.total == before


def test_a_checkpoint_without_any_whole_one_says_what_is_wrong(tmp_path):
    buffer = ReplayBuffer(100, 2, 1)
    grown(buffer, 5)
    save(CheckpointStore(tmp_path), buffer)
    next(tmp_path.glob("replay-*")).unlink()
    with pytest.raises(InvalidInput, match="undamaged checkpoint, got manifest-000001"):
        checkpoint.read(tmp_path)


@pytest.mark.parametrize("make", [lambda p: p / "nowhere", lambda p: p])
def test_no_checkpoint_is_a_clear_error(tmp_path, make):
    with pytest.raises(InvalidInput, match="path: expected a folder with a checkpoint"):
        checkpoint.read(make(tmp_path))


def test_a_save_that_breaks_off_leaves_the_last_one_and_no_rubbish(tmp_path, monkeypatch):
    store, buffer = CheckpointStore(tmp_path), ReplayBuffer(100, 2, 1)
    grown(buffer, 50)
    save(store, buffer)
    held = buffer.total
    real, calls = json.dump, []

    def broken(*args, **options):
        calls.append(1)
        args[1].write('{"format": "rl-')
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dump", broken)
    grown(buffer, 10)
    with pytest.raises(KeyboardInterrupt):
        save(store, buffer)
    assert calls
    assert read_back(tmp_path, buffer)[1].total == held
    monkeypatch.setattr(json, "dump", real)
    (tmp_path / ".state-000009.pt.x.tmp").write_bytes(b"left by a kill")
    save(store, buffer)
    assert same(read_back(tmp_path, buffer)[1], buffer)
    names = {p.name.split("-")[0] for p in tmp_path.iterdir()}
    assert names == {"manifest", "state", "replay"}


def test_a_manifest_cannot_name_files_elsewhere(tmp_path):
    buffer = ReplayBuffer(100, 2, 1)
    save(CheckpointStore(tmp_path), buffer)
    manifest = checkpoint.manifests(tmp_path)[1]
    content = json.loads(manifest.read_text())
    content["state"]["file"] = "../state-000001.pt"
    manifest.write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match="not the name of a file in the folder"):
        checkpoint.read(tmp_path)


def test_nothing_is_unpickled(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("run",))

    buffer = ReplayBuffer(100, 2, 1)
    save(CheckpointStore(tmp_path), buffer, evil=Evil())
    with pytest.raises(InvalidInput, match="something else than tensors and plain values"):
        checkpoint.read(tmp_path)
