"""What the text tells of ranks that wait: a call that the rank alone leads to, a root that each finds out by itself."""

from pathlib import Path

import pytest
from unit.sources.test_dumps_stacks import BARRIER, C10D, CALL, process, verdict

from emberward.findings import Certainty, Severity

ROOTS = """import glob
import torch.distributed as dist
def newest(folder):
    return max(glob.glob(folder))
def shared(folder):
    found = newest(folder)
    dist.broadcast_object_list(found, src=0)
    return found
def main(x, folder):
    rank = dist.get_rank()
    step, owner = newest(folder)
    agreed = shared(folder)
    dist.broadcast(x, ROOT)
"""


@pytest.mark.parametrize(
    ("root", "cause"),
    [
        ("src=owner", "different_root"),
        ("src=rank % 2", "different_root"),
        ("src=agreed", "unknown"),
        ("src=0", "unknown"),
        ("src=folder.owner", "unknown"),
        # A group of its own has a root of its own.
        ("src=rank // 2, group=x.group", "unknown"),
    ],
)
def test_a_root_that_each_rank_finds_out_by_itself_may_differ(tmp_path: Path, root: str, cause: str) -> None:
    (tmp_path / "roots.py").write_text(ROOTS.replace("ROOT", root))
    found = verdict(tmp_path, [process(pid, f"broadcast ({C10D}:9)", "main (roots.py:13)") for pid in (1, 2, 3)])
    assert (found.cause.value, found.culprit_pids, found.severity) == (cause, (), Severity.WARNING)
    assert found.certainty is (Certainty.UNKNOWN if cause == "unknown" else Certainty.INFERRED)


CALLBACK = """class Report(Callback):
    def on_epoch_end(self, state, trainer):
        if CONDITION:
            return
        trainer.evaluate()
def main(trainer):
    trainer.train()
"""
TRAINER = ("run_epoch (transformers/trainer.py:1989)", "train (transformers/trainer.py:1576)", "main (report.py:7)")


@pytest.mark.parametrize(
    ("condition", "culprits"),
    [("not state.is_world_process_zero", (4,)), ("not state.is_due", ()), ("len(state) < 9", ())],
)
@pytest.mark.parametrize("others", [(1, 2), (1, 2, 3, 5, 6)])
def test_a_trainers_call_to_which_the_rank_alone_leads_is_one_too_many(
    tmp_path: Path, condition: str, culprits: tuple[int, ...], others: tuple[int, ...]
) -> None:
    """The trainer's next broadcast, in which the others wait, has one root for all."""
    (tmp_path / "report.py").write_text(CALLBACK.replace("CONDITION", condition))
    inside = ("evaluate (transformers/trainer.py:2871)", "on_epoch_end (report.py:5)")
    texts = [process(4, f"all_gather ({C10D}:7)", *inside, *TRAINER)]
    texts += [process(pid, f"broadcast ({C10D}:9)", "step (transformers/trainer.py:1917)", *TRAINER) for pid in others]
    found = verdict(tmp_path, texts)
    if culprits:
        assert (found.cause.value, found.site, found.culprit_pids) == ("extra_collective", "report.py:5", culprits)
        assert any(condition in line for line in found.evidence)
    else:
        assert not any("a condition on the rank" in line for line in found.evidence)


@pytest.mark.parametrize(
    "text",
    [
        # The others wait under the other side of the condition.
        "def main(x):\n    if x.rank == 0:\n        barrier(x)\n    else:\n        all_reduce(x)\n",
        # The call is of a group whose other members may have left it out.
        "def main(x):\n    if x.rank < 2:\n        barrier(group=x.pair)\n    check(x)\n    all_reduce(x)\n",
    ],
)
def test_a_condition_on_the_rank_accuses_nobody_where_others_may_have_to_come(tmp_path: Path, text: str) -> None:
    (tmp_path / "guard.py").write_text(text)
    last = text.count("\n")
    texts = [process(1, BARRIER, "main (guard.py:3)"), *(process(n, CALL, f"main (guard.py:{last})") for n in (2, 3))]
    assert not any("a condition on the rank" in line for line in verdict(tmp_path, texts).evidence)


ORDER = """import torch.distributed as dist
def make(tasks):
    for task in tasks:
        dist.new_group(task)
def main(x):
    if x.makes:
        make(x.tasks)
    dist.all_reduce(x)
"""


@pytest.mark.parametrize("is_made_by_all", [True, False])
def test_who_is_behind_a_loop_that_makes_groups_made_them_in_another_order(
    tmp_path: Path, *, is_made_by_all: bool
) -> None:
    (tmp_path / "order.py").write_text(ORDER.replace("x.makes", "True") if is_made_by_all else ORDER)
    makes = (f"_new_process_group_helper ({C10D}:7)", f"new_group ({C10D}:8)", "make (order.py:4)", "main (order.py:7)")
    found = verdict(
        tmp_path, [*(process(n, *makes) for n in (1, 2)), *(process(n, CALL, "main (order.py:8)") for n in (3, 4))]
    )
    assert (found.code, found.cause.value) == ("H129", "missing_group")
    assert (found.culprit_pids, found.site) == (((), "order.py:4") if is_made_by_all else ((3, 4), "order.py:8"))
