"""Every write, fsync, rename and removal of a save fails in turn: the save before it is never lost.

After each fault: `latest` names a save that verifies and loads bit-equal, the one before or the new one; a save that
did not raise is the new one; and the next save on that root passes and leaves nothing behind.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from unit.checkpoint.checkpoint_child import require_parts, save_once
from unit.checkpoint.checkpoint_ranks import blank, is_bit_equal, random_bits, save_all, spread
from unit.checkpoint.checkpoint_storages import Fault, FaultyStorage, Plan, PowerCut, PowerLossStorage

from emberward.checkpoint import Saved, clean_leftovers, find_latest, load, read_manifest, verify
from emberward.findings import EmberwardError

NUM_RANKS = 2
TESTS = Path(__file__).parents[2]


def tensors(seed: int) -> dict[str, torch.Tensor]:
    return {"w": random_bits(torch.bfloat16, (6, 5), seed), "m": random_bits(torch.float32, (6, 5), seed + 1)}


def put(root: Path, step: int, seed: int, plan: Plan | None = None) -> list[Saved | BaseException]:
    """A save of two ranks in the foreground."""
    plan = plan or Plan(Fault.ERROR, at=0)
    return save_all(
        root,
        spread(tensors(seed), NUM_RANKS, seed, num_cuts=2),
        step=step,
        meta={"seed": seed},
        keep=1,
        storage_of=lambda rank: FaultyStorage(plan, rank),
    )


def require_whole(root: Path) -> int:
    """The seed of the save that a resume would take, after every bit of it was found right."""
    found = find_latest(root)
    path = found.path
    assert path is not None, f"no save is left: {sorted(p.name for p in root.iterdir())}"
    assert found.findings == (), "a crash is no damage: the pointer is always right"
    assert verify(path) == ()
    seed = read_manifest(path).meta["seed"]
    for name, whole in tensors(seed).items():
        shard = blank(name, whole, tuple((0, length) for length in whole.shape))
        load(path, [shard])
        assert is_bit_equal(shard.tensor, whole)
    return int(seed)


def check_after(root: Path, results: list[Saved | BaseException], plan: Plan, next_step: int) -> str:
    """What came of the save with the fault; then the next save must pass and leave no trace of it."""
    raised = [isinstance(result, BaseException) for result in results]
    assert all(raised) or not any(raised), f"ranks disagree: {results}"
    found = require_whole(root)
    if not any(raised):
        assert found == 2, "a save that did not raise must be the one to resume from"
    else:
        assert all(isinstance(result, EmberwardError) and result.code == "K103" for result in results), results
    if plan.fault is Fault.SHORT:
        assert not any(raised), "a write that takes fewer bytes is no fault"
    notices = [notice.code for result in results if isinstance(result, Saved) for notice in result.notices]
    assert set(notices) <= {"K104"}
    again = put(root, next_step, 3)
    assert not any(isinstance(result, BaseException) for result in again), again
    assert require_whole(root) == 3
    assert sorted(p.name for p in root.iterdir()) == [".lock", "latest", f"step-{next_step:08d}"]
    return f"{'old' if found == 1 else 'new'}{' raised' if any(raised) else ''}{' K104' if notices else ''}"


@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.FULL, Fault.TORN, Fault.SHORT])
@pytest.mark.parametrize(
    ("rank", "new_step"), [(0, 10), (0, 20), (1, 20)], ids=["rank-0-same-step", "rank-0-next-step", "rank-1"]
)
def test_no_failing_operation_loses_the_save_before(tmp_path, fault, for_ever, new_step, rank):
    fail_everywhere(tmp_path, fault, for_ever, new_step, rank)


def fail_everywhere(tmp_path: Path, fault: Fault, for_ever: bool, new_step: int, rank: int) -> None:
    """Fails each operation of the rank in turn, until a save passes without meeting the fault."""
    before = tmp_path / "before"
    put(before, 10, 1)
    outcomes: Counter[str] = Counter()
    at = 0
    while True:
        at += 1
        root = tmp_path / str(at)
        shutil.copytree(before, root)
        plan = Plan(fault, at, rank, for_ever)
        results = put(root, new_step, 2, plan)
        outcomes[check_after(root, results, plan, next_step=30)] += 1
        shutil.rmtree(root)
        if not plan.hit:
            break
    assert at > (15 if rank == 0 else 4), plan.log
    assert not any(isinstance(result, BaseException) for result in results), "without a fault the save passes"
    if fault is not Fault.SHORT:
        assert outcomes["old raised"] > 3, outcomes


@pytest.mark.parametrize("step", [10, 20], ids=["same-step", "next-step"])
def test_no_sigkill_at_any_operation_loses_the_save_before(tmp_path, step):
    save_once(tmp_path / "before", 10, 1)
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-m", "unit.checkpoint.checkpoint_child", str(tmp_path), str(step)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    tried = json.loads(done.stdout)
    assert set(tried.values()) != {0} and min(tried.values()) > 15
    outcomes: Counter[int] = Counter()
    for kill, num_operations in tried.items():
        for at in range(1, num_operations + 1):
            root = tmp_path / f"{kill.replace(' ', '-')}-{at}"
            outcomes[require_parts(root)] += 1
            clean_leftovers(root)
            require_parts(root)
            save_once(root, 30, 3)
            assert require_parts(root) == 3
            assert sorted(p.name for p in root.iterdir()) == [".lock", "latest", "step-00000030"]
    assert outcomes[1] > 20 and outcomes[2] > 5, outcomes


def cut_power_everywhere(tmp_path: Path, step: int, lossy=lambda what: False) -> Counter[str]:
    """Outcomes of a power cut at each operation, with names that survive and with names that do not."""
    save_once(tmp_path / "before", 10, 1)
    outcomes: Counter[str] = Counter()
    at = 0
    while True:
        at += 1
        root = tmp_path / str(at) / "root"
        shutil.copytree(tmp_path / "before", root)
        storage = PowerLossStorage(root, at, lossy=lossy)
        try:
            save_once(root, step, 2, storage)
            has_ended = True
        except PowerCut:
            has_ended = False
        for names_survive in (False, True):
            dark = tmp_path / f"{at}-{names_survive}"
            storage.materialise(dark, names_survive=names_survive)
            try:
                seed = require_parts(dark)
                assert seed == 2 or not has_ended, "a save that has returned must survive the power cut"
                outcomes["new" if seed == 2 else "old"] += 1
                save_once(dark, 30, 3)
                assert require_parts(dark) == 3
            except (AssertionError, EmberwardError):
                outcomes["lost"] += 1
        if has_ended:
            return outcomes


@pytest.mark.parametrize("step", [10, 20], ids=["same-step", "next-step"])
def test_no_power_cut_loses_the_save_before(tmp_path, step):
    outcomes = cut_power_everywhere(tmp_path, step)
    assert outcomes["lost"] == 0 and outcomes["old"] > 20 and outcomes["new"] > 5, outcomes


@pytest.mark.parametrize(
    "left_out", ["rank-00000.safetensors", "manifest.json", "folder .step-00000020.0001.tmp", "folder root"]
)
def test_the_power_cut_test_sees_an_fsync_that_is_left_out(tmp_path, left_out):
    """The twin that must fail: were this fsync dropped from a save, the test above would say so."""
    assert cut_power_everywhere(tmp_path, 20, lossy=lambda what: what == left_out)["lost"] > 0


LIMITED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
from unit.checkpoint.checkpoint_child import save_once
from emberward.findings import EmberwardError
try:
    save_once(Path(sys.argv[1]), 20, 2)
except EmberwardError as error:
    print(error.code, error.cause, Path(error.where).name)
"""


@pytest.mark.parametrize("limit_bytes", [1, 512, 5_000, 9_800])
def test_the_kernel_refuses_to_write_on(tmp_path, limit_bytes):
    """A real error of a real file system, in a process of its own: files may not grow beyond the limit."""
    save_once(tmp_path, 10, 1)
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", LIMITED, str(tmp_path), str(limit_bytes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.returncode) == ("K103 disk_full rank-00000.safetensors", 0), done.stderr
    assert require_parts(tmp_path) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "latest", "step-00000010"]


SMALL_DISK = """
import json, subprocess, sys
from pathlib import Path
from unit.checkpoint.beside_rank import BareRank
from unit.checkpoint.checkpoint_child import require_parts, save_once
from emberward.findings import EmberwardError
disk, outcomes = Path(sys.argv[1]), []
if sys.argv[2] == "beside":
    save_once = BareRank().save
for num_pages in range(8, 40):
    options = f"size={num_pages * 4}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(disk)], check=True)
    root = disk / "checkpoints"
    save_once(root, 10, 1)
    try:
        save_once(root, 20, 2)
        outcomes.append(["new", require_parts(root), sorted(p.name for p in root.iterdir())])
    except EmberwardError as error:
        outcomes.append([f"{error.code} {error.cause}", require_parts(root), sorted(p.name for p in root.iterdir())])
    subprocess.run(["umount", str(disk)], check=True)
print(json.dumps(outcomes))
"""


@pytest.mark.parametrize("where", ["foreground", "beside"])
def test_a_small_disk_that_is_really_full(tmp_path, where):
    """ENOSPC from the kernel: a tmpfs of every size from too small for two saves to large enough."""
    in_namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*in_namespace, "true"], check=False).returncode != 0:
        pytest.skip("this machine lets no one mount a tmpfs of their own")
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [*in_namespace, sys.executable, "-c", SMALL_DISK, str(tmp_path), where]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert {(what, seed) for what, seed, _ in outcomes} == {("K103 disk_full", 1), ("new", 2)}
    for what, seed, names in outcomes:
        step = "step-00000010" if seed == 1 else "step-00000020"
        assert names == [".lock", "latest", step], what
    assert [what for what, _, _ in outcomes] == sorted(what for what, _, _ in outcomes), "once it fits it always fits"
