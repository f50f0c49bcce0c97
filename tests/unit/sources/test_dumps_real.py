"""Verdicts on real dumps: jobs of others, and 17 small programs that were made to hang."""

import os
import random
import shutil
from itertools import combinations
from pathlib import Path

import pytest
from unit.sources.dump_samples import DATA, HANGS, about, names, program_line

from emberward.findings import CATALOGUE, Certainty, Finding, Kind, Severity, exit_code_of
from emberward.sources.dumps import explain_paths, gather

# Causes that a flight recorder cannot know: what the host does is not in its dump.
HOST_CAUSES = {
    "sleep",
    "lock",
    "file_read",
    "subprocess",
    "cpu_loop",
    "store_wait",
    "dataloader_worker",
    "checkpoint_io",
}


def verdict_of(*paths: Path) -> Finding:
    return explain_paths(list(paths), source_folders=[HANGS]).explanations[0].verdict


def culprits(finding: Finding, pids: list[int]) -> tuple[int, ...]:
    return finding.culprit_ranks or tuple(sorted(pids.index(pid) for pid in finding.culprit_pids if pid in pids))


def test_gloo_dumps_of_a_stuck_data_loader_name_rank_2() -> None:
    finding = verdict_of(DATA / "flight_recorder_gloo")
    assert (finding.code, finding.culprit_ranks, finding.kind) == ("H101", (2,), Kind.HANG)
    assert finding.waiting_ranks == (0, 1, 3)
    assert finding.severity is Severity.ERROR


def test_nccl_dumps_of_a_megatron_job_name_ranks_10_and_15() -> None:
    finding = verdict_of(DATA / "flight_recorder_nccl")
    assert finding.culprit_ranks == (10, 15)
    assert finding.waiting_ranks == tuple(r for r in range(16) if r not in (10, 15))
    assert finding.certainty is Certainty.INFERRED


def test_stacks_of_two_nodes_name_the_one_thread_that_had_moved_on() -> None:
    result = explain_paths([DATA / "stacks" / "bloom_two_nodes.txt"])
    finding = result.explanations[0].verdict
    assert finding.culprit_pids == (688514,)
    assert finding.culprit_ranks == ()
    assert (finding.kind.value, finding.cause.value) == ("hang", "dataloader_worker")
    assert finding.hosts == ("48",)
    assert result.explanations[0].num_ranks == 16
    assert exit_code_of(result.findings) == 1


def test_a_later_paste_in_the_same_text_is_another_look_and_no_alarm(tmp_path: Path) -> None:
    text = (DATA / "stacks" / "bloom_two_nodes.txt").read_text()
    one = text[text.index("1 in:") : text.index("3 in:")].replace("688514", "1439102").replace("1 in:\n", "")
    path = tmp_path / "chronicle.txt"
    path.write_text(text + "\n".join(["and then we read on"] * 60) + "\n" + one)
    findings = explain_paths([path]).findings
    assert findings[0].culprit_pids == (688514,)
    assert [f.severity for f in findings[1:]] == [Severity.NOTICE]


@pytest.mark.parametrize("name", names())
def test_flight_recorder_alone_names_who(name: str) -> None:
    truth = about(name)
    finding = verdict_of(*sorted((HANGS / name).glob("rank_*")))
    if name == "ring_of_receives":
        assert finding.severity is Severity.NOTICE, "gloo records no receives: nothing is open in its dumps"
        return
    if name == "nobody_sends":
        assert finding.culprit_ranks == (2,)
        return
    assert finding.culprit_ranks == tuple(truth["culprit_ranks"])
    assert finding.kind.value == truth["kind"]
    expected = "unknown" if truth["cause"] in HOST_CAUSES else truth["cause"]
    assert finding.cause.value == expected
    if expected != "unknown":
        assert truth["line"] in program_line(finding.site)


@pytest.mark.parametrize("form", ["stacks.txt", "stacks.json"])
@pytest.mark.parametrize("name", names())
def test_stacks_alone_name_who_and_why(name: str, form: str) -> None:
    truth = about(name)
    finding = verdict_of(HANGS / name / form)
    assert culprits(finding, truth["pids"]) == tuple(truth["culprit_ranks"])
    assert (finding.kind.value, finding.cause.value) == (truth["kind"], truth["cause"])
    if form == "stacks.txt" and name != "spins":
        assert truth["line"] in program_line(finding.site)


@pytest.mark.parametrize("name", names())
def test_dumps_and_stacks_together_name_who_why_and_where(name: str) -> None:
    truth = about(name)
    finding = verdict_of(HANGS / name)
    assert finding.culprit_ranks == tuple(truth["culprit_ranks"])
    assert (finding.kind.value, finding.cause.value) == (truth["kind"], truth["cause"])
    if name != "spins":
        assert truth["line"] in program_line(finding.site)
    assert finding.code in CATALOGUE
    assert finding.next


@pytest.mark.parametrize("name", names())
def test_dumps_and_stacks_without_ranks_are_judged_together_whichever_rank_is_which(name: str, tmp_path: Path) -> None:
    """Stacks as ``pgrep | xargs`` gives them, and the dumps in another order of ranks than that of the pids."""
    truth = about(name)
    for shift in (0, 1):
        folder = tmp_path / str(shift)
        folder.mkdir()
        shutil.copy(HANGS / name / "stacks.txt", folder)
        for path in HANGS.glob(f"{name}/rank_*"):
            shutil.copy2(path, folder / f"rank_{(int(path.name[5:]) + shift) % 4}")
        finding = verdict_of(folder)
        assert finding.culprit_ranks == tuple(sorted((rank + shift) % 4 for rank in truth["culprit_ranks"]))
        assert (finding.kind.value, finding.cause.value) == (truth["kind"], truth["cause"])
        if name != "spins":
            assert truth["line"] in program_line(finding.site)


@pytest.mark.parametrize("name", names())
def test_a_part_of_the_dumps_names_no_innocent(name: str) -> None:
    """Every part of the four dumps: the culprit, or nobody."""
    truth, files = about(name), sorted((HANGS / name).glob("rank_*"))
    for size in range(1, len(files)):
        for some in combinations(files, size):
            assert set(verdict_of(*some).culprit_ranks) <= set(truth["culprit_ranks"]), [p.name for p in some]


def test_a_part_of_a_megatron_jobs_dumps_names_no_innocent() -> None:
    files = sorted(path for path in (DATA / "flight_recorder_nccl").iterdir() if not path.suffix)
    rng = random.Random(5)
    for _ in range(30):
        some = rng.sample(files, rng.randrange(1, len(files)))
        assert set(verdict_of(*some).culprit_ranks) <= {10, 15}, sorted(path.name for path in some)


def dumped_at(folder: Path, target: Path, *, seconds_after: float) -> Path:
    """A copy of a snapshot whose files were written so long after the job's last call."""
    target.mkdir()
    last = max(f.last_ns for f in gather([folder])[0].flights.values() if f.last_ns is not None)
    for path in folder.iterdir():
        copy = target / path.name
        copy.write_bytes(path.read_bytes())
        when = last + int(seconds_after * 1e9)
        os.utime(copy, ns=(when, when))
    return target


@pytest.mark.parametrize("name", names(alive=True))
def test_one_look_at_a_job_in_mid_step_is_no_alarm(name: str, tmp_path: Path) -> None:
    snapshot = dumped_at(HANGS / name / "look0", tmp_path / "look", seconds_after=0.8)
    assert exit_code_of(explain_paths([snapshot], source_folders=[HANGS]).findings) == 0


@pytest.mark.parametrize("name", names(alive=True))
def test_two_looks_at_a_job_that_moves_are_no_hang(name: str) -> None:
    result = explain_paths([HANGS / name / "look0", HANGS / name / "look1"], source_folders=[HANGS])
    finding = result.explanations[0].verdict
    assert finding.severity is Severity.NOTICE
    assert finding.kind in (Kind.NONE, Kind.STRAGGLER)
    assert exit_code_of(result.findings) == 0


@pytest.mark.parametrize("seconds_after", [5, 300, 86_400])
def test_the_date_of_a_file_proves_no_time(tmp_path: Path, seconds_after: float) -> None:
    """A copy has another date: a sleep that one snapshot shows is no alarm by that."""
    finding = verdict_of(dumped_at(HANGS / "sleep_in_step", tmp_path / "dumps", seconds_after=seconds_after))
    assert (finding.culprit_ranks, finding.severity) == ((1,), Severity.WARNING)
    is_bound = any("stood still for 5 s at most" in line for line in finding.evidence)
    assert is_bound is (seconds_after == 5)


def test_two_incidents_at_one_line_are_one_fault() -> None:
    result = explain_paths([HANGS / "sleep_in_step", HANGS / "sleep_in_step"], source_folders=[HANGS])
    assert len(result.explanations) == 1, "two snapshots at one job"
    other = explain_paths([HANGS / "sleep_in_step", HANGS / "lock_held"], source_folders=[HANGS])
    assert len(other.explanations) == 2
    assert other.comparisons[0].code == "H115"
    assert "two different incidents" in other.comparisons[0].message
