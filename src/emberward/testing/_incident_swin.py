"""The first deadlock of a real Swin, replayed with the engine: proved before the start, judged after it hung."""

from emberward.findings import Cause, Finding
from emberward.testing._incident_jobs import emberward, facts
from emberward.testing._incidents import Expected, Incident, IncidentRunner, Replayed

RUN = (
    "swin_tiny",
    "device=cpu",
    "layout.zero=0",
    "batch.global_batch=256",
    "batch.micro_batch=32",
    "steps=3",
    "evaluation.samples=32",
    "name=swin",
)
"""Micro-batch 32 x 4 on 2 x 2 x 2 ranks, as in the report."""
PROVED = ("M104", Cause.CYCLE_CREDIT)


def _first(findings: tuple[Finding, ...]) -> tuple[str, Cause] | None:
    return next(((each.code, each.cause) for each in findings if each.severity.value == "error"), None)


def _hangs(theatre: IncidentRunner) -> Replayed:
    words = (*RUN, "layout.backward_lane=fed_by_forwards")
    checked = emberward(theatre, "check", *words)
    ended = emberward(theatre, "train", *words, "--no-check", "--act-after", "1", "--grace-s", "1")
    return Replayed(
        findings=ended.findings,
        broken_facts=facts(
            (checked.code == 1, f"check ended with code {checked.code}, not 1"),
            (_first(checked.findings) == PROVED, f"check found {_first(checked.findings)}, not {PROVED}"),
            (ended.code != 0, "the run ended as if nothing had happened"),
        ),
    )


def _goes_on(theatre: IncidentRunner) -> Replayed:
    words = (*RUN, "layout.backward_lane=own")
    checked = emberward(theatre, "check", *words)
    ended = emberward(theatre, "train", *words, "--no-check")
    return Replayed(
        findings=(*checked.findings, *ended.findings),
        broken_facts=facts(
            (bool(checked.document.get("proved")), "check does not prove it"),
            (ended.code == 0, f"the run ended with code {ended.code}"),
        ),
    )


SWIN_PIPELINE = Incident(
    name="swin-pipeline-deadlock",
    what="a real Swin hangs in its third micro-batch: the backward's buffer lies on the forwards' lane",
    source="OneFlow-Inc/libai#232",
    story=(
        "The report's plan on the recipe itself: 2x2x2 ranks, 4 micro-batches of 32, forwards and backwards of the "
        "first stage on two lanes, the backwards fed from the forwards' lane, one credit between them. "
        "`check` names the ring before the start; started all the same, the ranks hang, and the judge names it again. "
        "With micro-batch 8 and 2 of them a step the same plan runs, as in the report."
    ),
    seconds=120,
    expected=Expected(codes=("H133",), causes=(Cause.CYCLE_CREDIT,)),
    replay=_hangs,
    twin=_goes_on,
)
"""The twin gives the backwards their buffer on their own lane, as the repair did."""
