"""The exact text of explain's verdicts. ``python tests/unit/sources/test_dumps_messages.py`` writes them anew."""

import re
from pathlib import Path

import pytest

from emberward.match import explain_finding
from emberward.sources.dumps import explain_paths

DATA = Path(__file__).resolve().parents[2] / "data"
SNAPSHOTS = Path(__file__).parent / "snapshots"
CASES: dict[str, tuple[str, ...]] = {
    "never_arrived_gloo": ("flight_recorder_gloo",),
    "never_arrived_nccl": ("flight_recorder_nccl",),
    "stack_outlier_bloom": ("stacks/bloom_two_nodes.txt",),
    "one_stack_alone": ("stacks/dataloader_deadlock_pyspy.txt",),
    "left_out": ("hangs/skips_one",),
    "added": ("hangs/adds_one",),
    "other_operation": ("hangs/other_operation",),
    "orders_differ": ("hangs/orders_differ",),
    "ring_of_receives": ("hangs/ring_of_receives",),
    "nobody_sends": ("hangs/nobody_sends",),
    "data_worker": ("hangs/data_worker_stuck",),
    "ras_dead": ("stacks/ras_dead.txt",),
    "ras_mismatch": ("stacks/ras_mismatch.txt",),
    "network": ("logs/nccl_ib_error12.txt",),
    "seq_skew": ("logs/pytorch_118369_seqnum_skew.txt",),
    "two_incidents": ("hangs/sleep_in_step", "hangs/lock_held"),
    "two_looks": ("hangs/slow_but_alive/look0", "hangs/slow_but_alive/look1"),
}


def text_of(name: str) -> str:
    """The verdict as people read it, without what depends on the day: file times and the place of the checkout."""
    result = explain_paths([DATA / path for path in CASES[name]], source_folders=[DATA / "hangs"])
    findings = [explanation.verdict for explanation in result.explanations] + list(result.comparisons)
    text = "\n".join(explain_finding(finding) for finding in findings) + "\n"
    text = text.replace(f"{DATA}/", "")
    text = re.sub(r"stood still for \d+ s", "stood still for N s", text)
    return re.sub(r"two snapshots \d+ s apart", "two snapshots N s apart", text)


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_verdict_reads_as_its_snapshot(name: str) -> None:
    assert text_of(name) == (SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    for case in CASES:
        (SNAPSHOTS / f"{case}.txt").write_text(text_of(case), encoding="utf-8")
