import os
import pickle
import stat
from contextlib import suppress

import numpy as np
import pytest
from lemmata_core import InvalidInput
from lemmata_core.files import DAMAGED, atomic_write
from lemmata_core.rng import generator, spawn, torch_generator


def test_an_error_survives_the_way_between_processes():
    error = InvalidInput.argument("cost", expected="a matrix", got=[1] * 500)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(again, ValueError)
    assert str(again) == str(error)
    assert len(str(error)) < 260
    assert str(InvalidInput.argument("n", expected="an integer", got="a string as it is")).endswith(
        "got a string as it is"
    )


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("old")
    path.chmod(0o640)
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write("half")
        raise RuntimeError
    assert path.read_text() == "old"
    with atomic_write(path) as file:
        file.write("né")
    assert path.read_text(encoding="utf-8") == "né"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_new_file_follows_the_umask_and_bytes_are_written_as_bytes(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_write(str(tmp_path / "y"), "wb") as file:
            file.write(b"\x00\xff")
    finally:
        os.umask(before)
    assert (tmp_path / "y").read_bytes() == b"\x00\xff"
    assert stat.S_IMODE((tmp_path / "y").stat().st_mode) == 0o640


def test_other_modes_and_missing_folders_are_errors(tmp_path):
    with pytest.raises(ValueError, match="mode"), atomic_write(tmp_path / "z", "a"):
        pass
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "no" / "z"):
        pass


def test_a_seed_gives_the_same_stream_and_a_generator_comes_back_itself():
    assert generator(3).random() == generator(3).random() == generator(np.int64(3)).random()
    assert generator(None).random() != generator(None).random()
    own = np.random.default_rng(1)
    assert generator(own) is own
    assert generator(np.random.SeedSequence(3)).random() == generator(3).random()


@pytest.mark.parametrize("rng", [-1, 1.5, "1", True, np.random.RandomState(0)])
def test_what_is_no_seed_is_refused(rng):
    with pytest.raises(InvalidInput, match=r"rng: expected a numpy\.random\.Generator, an int >= 0 or None"):
        generator(rng)


def test_spawned_streams_do_not_depend_on_their_number():
    few, many = spawn(5, 2), spawn(5, 8)
    assert [g.random() for g in few] == [g.random() for g in many[:2]]
    own = np.random.default_rng(5)
    assert spawn(own, 1)[0].random() != spawn(own, 1)[0].random()
    assert spawn(own, 0) == []
    with pytest.raises(InvalidInput, match="n: expected an integer >= 0"):
        spawn(5, -1)


def test_a_generator_without_a_seed_sequence_spawns_too():

    class Generator(np.random.Generator):
        def spawn(self, n):
            raise TypeError("The underlying SeedSequence does not implement spawning.")

    first, second = spawn(Generator(np.random.PCG64(1)), 2)
    assert first.random() != second.random()


def test_a_torch_generator_follows_the_seed():
    torch = pytest.importorskip("torch")
    draw = [torch.rand(3, generator=torch_generator(7)) for _ in range(2)]
    assert torch.equal(*draw)
    own = np.random.default_rng(7)
    assert not torch.equal(*(torch.rand(3, generator=torch_generator(own)) for _ in range(2)))


@pytest.mark.parametrize("device", ["", "nowhere", 3.5, object()])
def test_torch_generator_names_a_device_that_is_not_there(device):
    pytest.importorskip("torch")
    with pytest.raises(InvalidInput, match="device"):
        torch_generator(0, device)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # numpy leaves the file to the collector
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_damaged_archive_raises_what_damaged_lists(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", a=np.arange(100.0))
    whole = (tmp_path / "a.npz").read_bytes()
    for cut in range(0, len(whole), 7):
        (tmp_path / "b.npz").write_bytes(whole[:cut] + b"\xff" + whole[cut + 1 :])
        with suppress(*DAMAGED), np.load(tmp_path / "b.npz") as archive:
            archive["a"]
