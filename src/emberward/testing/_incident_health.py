"""Incidents of a training that goes on and is wrong, or slower: the numbers tell, and nothing stops."""

import sys
from collections.abc import Callable

from emberward.findings import Cause, Finding, Severity
from emberward.report import read_lines
from emberward.testing._incident_jobs import INCIDENT_PROGRAMS, SMALL, emberward, facts, only_run, write_text
from emberward.testing._incidents import Expected, Incident, IncidentRunner, Replayed

NUM_STEPS = 100
SLOWER_S = 0.0067
"""149 to 140 TFLOPS, of steps that take a tenth of a second."""


def _sick(fault: str, ranks: int, *overrides: str) -> Callable[[IncidentRunner], Replayed]:
    """A recipe run by Emberward's rank program with that fault, under ``emberward run``: what the run itself found."""
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))

    def replay(theatre: IncidentRunner) -> Replayed:
        name = f"sick-{fault}"
        text = f"data.train={write_text(theatre.folder / 'text')}"
        recipe = ("bloom_tiny", *SMALL, text, "data.held_out=0.2", f"name={name}", "health.drift_interval=10")
        program = (str(INCIDENT_PROGRAMS / "sick_trainer.py"), fault, *recipe, *overrides)
        ended = emberward(theatre, "run", "--", *launch, *program)
        folder = only_run(theatre, name)
        found = [Finding.from_json(line) for line in read_lines(folder.findings)]
        steps = [line["step"] for line in read_lines(folder.metrics) if "step" in line]
        return Replayed(
            findings=(*ended.findings, *found),
            broken_facts=facts(
                (ended.code == 0, f"the run ended with code {ended.code}"),
                (steps[-1:] == [NUM_STEPS], f"its last step was {steps[-1:]}, not {NUM_STEPS}"),
            ),
        )

    return replay


CLIP_BUG = Incident(
    name="bloom-clip-bug",
    what="gradients are clipped on one tensor-parallel rank alone: copies of the norms drift apart",
    source="chronicles of the BLOOM-176B training: the layer norms' weights differed between tensor-parallel ranks",
    story=(
        "Parameters that every tensor-parallel rank holds whole must stay equal, and no loss tells when they do not. "
        "Here rank 1 takes its gradients as they were before the clipping. The comparison of copies each ten steps "
        "names the tensors and the ranks that disagree; with two copies nobody can say which is right."
    ),
    seconds=60,
    expected=Expected(codes=("R115",), causes=(Cause.REPLICA_DRIFT,)),
    replay=_sick("clip", 2, "layout.tp=2", "layout.pp=1"),
    twin=_sick("none", 2, "layout.tp=2", "layout.pp=1"),
)

FLIPPED_BIT = Incident(
    name="flipped-bit",
    what="a bit of one copy of a tensor flips in memory",
    source="silent data corruption, as in the reports of large training runs",
    story=(
        "The memory of rank 3 loses a bit of one number after step 31. Nothing fails. The next comparison finds it: "
        "three copies agree, the moments agree too, so that the value changed by itself."
    ),
    seconds=90,
    expected=Expected(codes=("R115",), causes=(Cause.BIT_FLIP,), culprit_ranks=(3,)),
    replay=_sick("bit", 4, "layout.dp=4", "layout.pp=1", "layout.zero=0"),
    twin=_sick("none", 4, "layout.dp=4", "layout.pp=1", "layout.zero=0"),
)

_SPIKE_WORDS = ("layout.dp=2", "layout.pp=1", "optim.lr=5e-3", "save.interval=20", "save.background=false")


def _spike(fault: str) -> Callable[[IncidentRunner], Replayed]:
    """As `_sick`: the first word of the run about its spike, and whether a save from before it is kept."""

    def replay(theatre: IncidentRunner) -> Replayed:
        replayed = _sick(fault, 2, *_SPIKE_WORDS)(theatre)
        began = [finding for finding in replayed.findings if finding.code == "R103"]
        kept = [line for finding in began for line in finding.evidence if line == "the save of step 60 is kept"]
        is_kept = len(kept) == len(began)
        return Replayed(
            findings=replayed.findings,
            broken_facts=(*replayed.broken_facts, *facts((is_kept, "the save from before the spike is not kept"))),
        )

    return replay


LOSS_SPIKE = Incident(
    name="bloom-loss-spike",
    what="the loss jumps in the middle of a training",
    source="chronicles of the BLOOM-176B training",
    story=(
        "Steps 61 to 64 are given noise for text. The first of them is named with its loss and gradient norm beside "
        "the usual ones, and the save from before is kept, to go back to and leave those samples out: "
        "emberward train RECIPE --rewind 60 --skip-samples N."
    ),
    seconds=60,
    expected=Expected(codes=("R103",), causes=(Cause.UNKNOWN,), severity=Severity.WARNING),
    replay=_spike("noise"),
    twin=_spike("none"),
)


def _slower(more_s: float) -> Callable[[IncidentRunner], Replayed]:
    """The program under ``emberward profile``: what it says of a change of speed."""

    def replay(theatre: IncidentRunner) -> Replayed:
        program = (sys.executable, str(INCIDENT_PROGRAMS / "slower_steps.py"), str(more_s))
        ended = emberward(theatre, "profile", "--steps", "100", "--", *program)
        changes = [finding for finding in ended.findings if finding.code == "P104"]
        is_placed = all(
            "it lies in" in finding.message and "slower_steps.py:24" in finding.message for finding in changes
        )
        return Replayed(
            findings=tuple(changes),
            broken_facts=facts(
                (ended.code == 0, f"the program ended with code {ended.code}"),
                (is_placed, "what changed is not said to be the reading of data"),
            ),
        )

    return replay


SLOWER_STEPS = Incident(
    name="bloom-slowdown",
    what="from one step to the next a training is 6% slower, and stays so",
    source="chronicles of the BLOOM-176B training: 149 to 140 TFLOPS within two iterations",
    story=(
        "The training goes on, a little slower, and nobody looks at a number that moves by 6%. Here the batches come "
        "later from step 60 on. The step at which it began, by how much, and the line that takes longer are named."
    ),
    seconds=45,
    expected=Expected(codes=("P104",), causes=(Cause.UNKNOWN,), severity=Severity.WARNING),
    replay=_slower(SLOWER_S),
    twin=_slower(0.0),
)
