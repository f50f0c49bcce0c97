"""Incidents of plans: judged as values, then executed by real threads over bounded channels."""

from collections.abc import Callable

from emberward.events import Trace
from emberward.findings import Cause
from emberward.match import check
from emberward.testing._incidents import Expected, Incident, IncidentRunner, Replayed
from emberward.testing._known import boxing_zeros_edge, oneflow_swin
from emberward.testing._replay import ThreadReplayer

REPLAY_LIMIT_S = 30.0


def _judged_and_run(make: Callable[[], Trace], *, must_end: bool) -> Callable[[IncidentRunner], Replayed]:
    """A replay: the verdict on the trace, and whether threads that execute it end as they must."""

    def replay(theatre: IncidentRunner) -> Replayed:
        trace = make()
        verdict = check(trace)
        theatre.tell(f"judged before it runs: {verdict.outcome.value}")
        real = ThreadReplayer().replay(trace, time_limit_s=REPLAY_LIMIT_S)
        stopped = ", ".join(f"rank {rank} {ref.lane}:{ref.position}" for rank, ref in real.frontier)
        theatre.tell(f"executed by threads: {'all lanes ended' if real.finished else f'stopped at {stopped}'}")
        facts = [] if real.finished is must_end else [f"executed, it {'ended' if real.finished else 'did not end'}"]
        return Replayed(findings=verdict.findings, broken_facts=tuple(facts))

    return replay


SWIN_BUFFER = Incident(
    name="swin-buffer-deadlock",
    what="training stands still: four lanes wait in a ring through one buffer",
    source="OneFlow-Inc/libai#232",
    story=(
        "Swin on 2x2x2 with gradient accumulation stood still in its third micro-batch, some GPUs at 100%, some at 0%. "
        "The buffer of a backward op lay on the forward stream, on one rank behind a collective, on the other before. "
        "Four lanes of two ranks wait in a ring, through a register of an earlier micro-batch."
    ),
    seconds=1,
    expected=Expected(codes=("M104",), causes=(Cause.CYCLE_CREDIT,)),
    replay=_judged_and_run(lambda: oneflow_swin(is_buffer_on_forward=True), must_end=False),
    twin=_judged_and_run(lambda: oneflow_swin(is_buffer_on_forward=False), must_end=True),
)
"""The twin gives the buffer a lane of its own, as the repair did."""

SWIN_LOST_ID = Incident(
    name="swin-lost-tensor-id",
    what="training runs and is wrong: an edge of the plan names no tensor",
    source="OneFlow before its pull request 8052",
    story=(
        "A boxing from Broadcast to Partial sends the value to one rank and zeros to the other. "
        "The edge to the zeros named no tensor, so that nothing tied it to what it waits for. "
        "It runs, and is wrong: the plan is refused before it starts."
    ),
    seconds=1,
    expected=Expected(codes=("M106",), causes=(Cause.EDGE_WITHOUT_TENSOR,), culprit_ranks=(0,)),
    replay=_judged_and_run(lambda: boxing_zeros_edge(has_tensor=False), must_end=True),
    twin=_judged_and_run(lambda: boxing_zeros_edge(has_tensor=True), must_end=True),
)
"""The twin names the tensor on every edge."""
