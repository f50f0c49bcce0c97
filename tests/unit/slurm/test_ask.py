"""SLURM's programs missing, silent, refusing, or of another version: named, bounded, never a traceback."""

import os

import pytest

from emberward.findings import ConfigError
from emberward.slurm import Slurm, State, read_nodes, read_queue


def slurm_of(folder, limit_s: float = 20.0, **programs: str) -> Slurm:
    """A SLURM whose programs are shell scripts."""
    folder.mkdir(exist_ok=True)
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return Slurm({"PATH": f"{folder}:{os.defpath}"}, limit_s=limit_s)


def refusal(slurm: Slurm) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_queue(slurm, [7])
    assert caught.value.exit_code == 2
    return caught.value


QUESTION = "squeue --noheader --jobs=7 --format=%i|%F|%T|%P|%N|%S|%M|%r|%j"


def test_a_machine_without_slurm_is_named(tmp_path):
    assert refusal(Slurm({"PATH": str(tmp_path)})).text() == (
        "L120 SLURM cannot be asked\n"
        f"  where     {QUESTION}\n"
        "  expected  an answer of SLURM\n"
        "  found     no squeue on PATH\n"
        "  next      load SLURM's module, or log in where it is"
    )


def test_a_controller_that_is_away_or_silent_is_named(tmp_path):
    said = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    away = refusal(slurm_of(tmp_path / "a", squeue=said))
    assert (away.code, away.found) == ("L120", "Unable to contact slurm controller (connect failure)")
    silent = refusal(slurm_of(tmp_path / "b", limit_s=0.2, squeue="exec sleep 60"))
    assert (silent.code, silent.found) == ("L120", "no answer within 0 s")


def test_a_refusal_is_slurms_own_words(tmp_path):
    slurm = slurm_of(tmp_path, squeue="echo 'squeue: error: Access/permission denied' >&2; exit 1")
    assert refusal(slurm).text() == (
        "L121 SLURM refused\n"
        f"  where     {QUESTION}\n"
        "  expected  exit code 0\n"
        "  found     Access/permission denied\n"
        "  next      man squeue"
    )


@pytest.mark.parametrize(
    "line", ["JOBID|STATE", "1|1|running|main|n1|N/A|0:00|None|x", "1|1|RUNNING|main|n1|N/A|soon|None|x"]
)
def test_a_squeue_of_another_version_is_named_with_its_version(tmp_path, line):
    slurm = slurm_of(tmp_path, squeue=f"[ $1 = --version ] && echo 'slurm 31.02.1' || echo '{line}'")
    error = refusal(slurm)
    assert (error.code, error.found) == ("L120", f"{line!r} (slurm 31.02.1)")


def test_the_queue_is_read_and_jobs_that_ended_are_not_in_it(tmp_path):
    lines = (
        "12_[2-3%1]|12|PENDING|main||N/A|0:00|JobArrayTaskLimit|a|b",
        "12_1|12|RUNNING|main|n[1-2]|2026-01-01T00:00:00|1-07:27:33|None|a|b",
        "11|11|COMPLETED|main|n1|2026-01-01T00:00:00|5:00|None|a",
    )
    runs, waits = read_queue(
        slurm_of(tmp_path, squeue=f"printf '{chr(92)}n'; cat <<END\n{chr(10).join(lines)}\nEND"), [12]
    )
    assert (runs.id, runs.number, runs.state, runs.nodes, runs.used_s) == ("12_1", 12, State.RUNS, "n[1-2]", 113253.0)
    assert (waits.state, waits.nodes, waits.start, waits.name) == (State.WAITS, None, None, "a|b")
    gone = slurm_of(tmp_path / "gone", squeue="echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert read_queue(gone, [12]) == ()
    assert read_queue(gone, []) == ()


def test_nodes_are_read_once_however_many_partitions_they_are_in(tmp_path):
    slurm = slurm_of(tmp_path, sinfo="printf 'n2|down*|Not responding\\nn1|idle|none\\nn1|idle|none\\n'")
    assert [(node.name, node.state, node.reason) for node in read_nodes(slurm, ["n1", "n2"])] == [
        ("n1", "idle", None),
        ("n2", "down*", "Not responding"),
    ]
