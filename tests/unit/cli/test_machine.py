"""What this machine lacks for a start is found before anything is proved or started."""

import os
import sys
from pathlib import Path

import pytest
from unit.cli.door import counting_children, emberward

from emberward.cli import _machine
from emberward.cli._machine import (
    PROCESS_BYTES,
    crowding_note,
    memory_findings,
    memory_here,
    needed_bytes,
    require_devices,
    require_writable,
)
from emberward.cli._preflight import page_of
from emberward.findings import ConfigError
from emberward.recipe import load_recipe, resolve

GIB = 2**30


def resolved(*words: str, num_ranks: int = 8):
    return resolve(load_recipe("bloom_tiny", words), num_ranks=num_ranks, tokenizer_size=257)


def test_memory_is_warned_of_refused_or_not_spoken_of():
    assert memory_findings(10 * GIB, 40, total=20 * GIB, available=10 * GIB) == ()
    (warning,) = memory_findings(12 * GIB, 40, total=20 * GIB, available=10 * GIB)
    assert (warning.code, warning.severity.value) == ("C115", "warning")
    assert warning.message == "40 ranks need about 12.0 GiB of memory, more than this machine has free"
    assert warning.next == "fewer ranks, or a smaller model or batch.micro_batch"
    with pytest.raises(ConfigError) as caught:
        memory_findings(24 * GIB, 64, total=20 * GIB, available=10 * GIB)
    assert caught.value.text() == (
        "C115 64 ranks need about 24.0 GiB of memory, more than this machine has\n"
        "  where     --ranks\n"
        "  expected  at most 20.0 GiB\n"
        "  found     0.38 GiB a rank, of which 0.25 for its process\n"
        "  next      fewer ranks, or a smaller model or batch.micro_batch"
    )


def test_what_ranks_need_grows_with_their_number_and_their_model():
    few, many = (resolved("layout.dp=null", "batch.global_batch=128", num_ranks=ranks) for ranks in (4, 64))
    needs = [needed_bytes(page_of(each, hardware=None)) for each in (few, many)]
    assert 4 * PROCESS_BYTES < needs[0] < needs[1]
    assert needs[1] > 64 * PROCESS_BYTES
    wide = resolved("layout.dp=null", "batch.global_batch=128", "model.hidden=1024", num_ranks=4)
    assert needed_bytes(page_of(wide, hardware=None)) > 1.2 * needs[0]


def test_ranks_that_share_cores_are_told_of_and_others_are_not():
    assert crowding_note(2, 2) is None
    assert crowding_note(64, 2) == "64 ranks share 2 cores: a step takes about 32 times as long as with a core each"
    assert crowding_note(3, 2) == "3 ranks share 2 cores: a step takes about 1.5 times as long as with a core each"


def test_the_memory_of_this_machine_is_known_where_proc_is():
    memory = memory_here()
    assert Path("/proc/meminfo").exists() is (memory is not None)
    assert memory is None or 0 < memory[1] <= memory[0]


@pytest.fixture
def blind(tmp_path):
    """An environment whose torch sees as many devices as the folder's file says."""
    (tmp_path / "torch").mkdir()
    cuda = (
        "class cuda:\n    is_available = staticmethod(lambda: {n} > 0)\n    device_count = staticmethod(lambda: {n})\n"
    )

    def of(num_devices: int) -> dict[str, str]:
        (tmp_path / "torch" / "__init__.py").write_text(cuda.replace("{n}", str(num_devices)))
        return {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    return of


def test_cuda_that_is_not_there_is_refused_and_enough_is_not(blind):
    wanted = resolved("device=cuda")
    for num_devices in (0, 7):
        with pytest.raises(ConfigError) as caught:
            require_devices(wanted, environment=blind(num_devices), on_cpu="emberward train bloom_tiny device=cpu")
        assert caught.value.text() == (
            "C104 too few CUDA devices for the ranks of this host\n"
            "  where     device=cuda (command line)\n"
            "  expected  8 devices, one for each rank\n"
            f"  found     {num_devices}\n"
            "  next      emberward train bloom_tiny device=cpu"
            + ("      (or backend=gloo: ranks share devices)" if num_devices else "")
        )
    require_devices(wanted, environment=blind(8), on_cpu="")
    shared = resolved("device=cuda", "backend=gloo")
    require_devices(shared, environment=blind(1), on_cpu="")
    with pytest.raises(ConfigError, match="expected  1 device\n  found     0"):
        require_devices(shared, environment=blind(0), on_cpu="")
    for device in ("auto", "cpu"):
        require_devices(resolved(f"device={device}"), environment=blind(0), on_cpu="")


def test_a_place_that_cannot_be_written_is_refused_and_nothing_is_left_in_one_that_can(tmp_path):
    require_writable(tmp_path / "a" / "b" / "c")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file" / "runs", Path("/proc/runs/x")):
        with pytest.raises(ConfigError, match="C112 the run's folder cannot be made") as caught:
            require_writable(place)
        assert caught.value.where == str(place)


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_a_place_that_cannot_be_written_is_found_before_the_proof_and_any_data(tmp_path):
    environment, children = counting_children(tmp_path / "hook")
    said = emberward("train", "bloom_tiny", "--ranks", "2", "--runs", "/proc/runs", cwd=tmp_path, **environment)
    assert said.code == 2
    assert said.err.startswith("C112 the run's folder cannot be made\n  where     /proc/runs/bloom_tiny/")
    assert not children.exists()
    assert not (tmp_path / ".emberward").exists()


def test_what_needs_torch_says_so_before_it_starts_anything(monkeypatch):
    _machine.require_torch("the proof of a recipe")
    monkeypatch.setattr(_machine, "find_spec", lambda _: None)
    with pytest.raises(ConfigError) as refused:
        _machine.require_torch("the proof of a recipe")
    assert refused.value.code == "C110"
    assert "pip install 'emberward[train]'" in refused.value.text()
