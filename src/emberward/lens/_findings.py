"""Findings of a profile in their exact words."""

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.lens._overlap import Exposed
from emberward.lens._samples import RankSamples
from emberward.lens._stalls import MIN_STEPS, Stall
from emberward.lens._waste import Waste

MIN_TOLD = 0.1
"""Of a cost, what collections must make up to be told in its evidence."""
MEANS: dict[Cause, tuple[str, str]] = {
    Cause.ITEM: ("reads a value from the device", "read it every N steps, or a step later when it is there anyway"),
    Cause.TOLIST: ("copies a tensor into Python numbers", "keep it a tensor; copy once every N steps"),
    Cause.CPU: ("copies a tensor to the host and waits", "copy with non_blocking=True to pinned memory, use it later"),
    Cause.NONZERO: ("needs a size that only the device knows", "use torch.where or a fixed size (nonzero_static)"),
    Cause.BOOL: ("decides by a tensor's value", "compute both sides (torch.where), or decide a step later"),
    Cause.PRINT: ("prints a tensor's value", "print every N steps, or from a lane beside the training"),
    Cause.SYNCHRONIZE: ("waits for all that the device has to do", "remove it; time with events that are read later"),
    Cause.HOST_COPY: (
        "copies tensors or state, or between host and device, and waits",
        "copy less often, or from a lane beside the training; keep data in tensors and pin it, with non_blocking=True",
    ),
    Cause.PAGEABLE_COPY: (
        "copies to a device from memory that is not pinned, and waits",
        "pin it (pin_memory=True of the DataLoader) and copy with non_blocking=True",
    ),
    Cause.ALLOCATOR_RETRY: (
        "waits for the device's allocator, which frees its cache and tries again",
        "leave the device some memory free: fewer sizes, smaller batches, expandable_segments:True",
    ),
    Cause.UNUSED_RESULT: ("computes or reads what nobody uses", "remove the statement"),
    Cause.DATA_WAIT: (
        "waits for its data",
        "fetch ahead of use: more workers (num_workers, prefetch_factor), a lane, or less work a sample",
    ),
    Cause.SAME_LANE: (
        "waits for a thread that does something else before what is waited for",
        "give what is waited for a thread (a lane) of its own",
    ),
    Cause.LOCK: ("waits for a lock, a queue or another thread", "hand over without waiting, or look who holds it"),
    Cause.GC: ("Python's garbage collector runs", "gc.freeze() after set-up, and collect at chosen steps on all ranks"),
    Cause.PYTHON_WORK: (
        "computes in Python while the model stands",
        "do it every N steps, beside on a lane, or with tensors",
    ),
    Cause.REDUNDANT_WORK: (
        "makes in Python what it has made before",
        "keep it until what it is made of changes (functools.cache, an attribute)",
    ),
    Cause.IMPORT: ("imports a module", "import it once, before the loop"),
    Cause.RECOMPILE: ("a graph is compiled again", "mark the size that changes as dynamic, or pad it to a few sizes"),
    Cause.DEBUG_STRING: ("builds a text that is never shown", "ask whether the level is on before you build it"),
    Cause.DEBUG_MODE: (
        "does what a debugging mode asks for: stacks and looks for NaN (detect_anomaly), looks at what modules give "
        "(debug=), checks of a distribution's arguments (validate_args)",
        "switch it on only to look for an error",
    ),
    Cause.LOGGING: ("writes a log", "log every N steps, or from a thread of its own"),
    Cause.SAVE_IN_STEP: ("writes a save while training stands", "copy in the step and write beside it (async save)"),
    Cause.EVAL: ("evaluates", "evaluate less often, on fewer batches, or from a copy beside the training"),
    Cause.SLEEP: ("sleeps", "remove the wait, or wait for a condition"),
    Cause.FILE_READ: ("reads a file", "read it ahead in a worker"),
    Cause.NETWORK_IO: ("talks to the network", "do it from a thread of its own"),
    Cause.SUBPROCESS: ("waits for another program", "start it once, or wait for it later"),
}
"""What the training thread does, and what to change."""


def ranks_words(ranks: tuple[int, ...], num_ranks: int) -> str:
    """Which ranks: ``every rank``, ``rank 1``, ``ranks 1, 2``; of none in particular, ``now one rank, now another``."""
    if not ranks:
        return "now one rank, now another"
    if len(ranks) == num_ranks and num_ranks > 1:
        return "every rank"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def stall_finding(stall: Stall, *, num_ranks: int) -> Finding:
    """The stall as a finding."""
    does, change = MEANS[stall.cause]
    cost, gain = 1000 * stall.cost_s, 1000 * stall.gain_s
    evidence = [f"seen in {stall.num_steps} of {stall.of_steps} steps"]
    evidence += [f"rank {rank}: {1000 * each:.2f} ms a step" for rank, each in sorted(stall.by_rank.items())[:16]]
    if stall.inner is not None:
        evidence.append(f"the line inside: {stall.inner}")
    if stall.asked_at is not None:
        evidence.append(f"for what is asked for at: {stall.asked_at}")
    if stall.collected_s >= MIN_TOLD * stall.cost_s:
        evidence.append(f"{1000 * stall.collected_s:.2f} ms a step of it collect the garbage of what it makes")
    if stall.made_by is not None:
        evidence.append(f"in the gain of {stall.made_by.value} at this line too, which makes what is collected")
    return Finding(
        code="P101",
        severity=Severity.WARNING,
        kind=Kind.STALL,
        cause=stall.cause,
        certainty=Certainty.OBSERVED,
        message=(
            f"{stall.cause.value}: {ranks_words(stall.ranks, num_ranks)} {does}: {cost:.2f} ms a step, "
            f"{100 * stall.share:.1f}%"
        ),
        culprit_ranks=stall.ranks,
        site=stall.site,
        evidence=tuple(evidence),
        next=change,
        cost_ms_per_step=round(cost, 4),
        gain_ms_per_step=round(gain, 4),
    )


EXPOSED: dict[Cause, tuple[str, str]] = {
    Cause.LATE_PEER: ("comes last to its collectives and is waited for", "look what that rank does before this line"),
    Cause.IMBALANCE: (
        "has more to compute than the others, which wait for it",
        "deal the batches so that ranks have like amounts in the same step: one order of lengths for all, or by length",
    ),
    Cause.LATE_ISSUE: (
        "waits for a transfer that could have begun earlier",
        "issue it as soon as its tensor is ready, with async_op=True, and do the work between after that",
    ),
    Cause.EARLY_WAIT: (
        "waits for a transfer before its result is needed",
        "issue it with async_op=True and wait where its tensor is used next",
    ),
    Cause.SAME_LANE: (
        "waits for a transfer that stands behind another of its group",
        "give the one that is needed first a group of its own, or issue it first",
    ),
    Cause.SYNCHRONIZE: (
        "meets the others in a barrier, and is late in turn with them",
        "take it out where nothing needs it, or meet every N steps",
    ),
    Cause.UNUSED_RESULT: (
        "waits for a transfer whose result nobody reads",
        "make it only in the steps that use it",
    ),
    Cause.REDUCED_TWICE: (
        "waits for a sum of what all ranks hold alike",
        "take it out: what is summed was averaged before (DDP does so in the backward), or computed alike everywhere",
    ),
    Cause.REDUNDANT_WORK: (
        "waits for a transfer of what all ranks hold alike",
        "send it once, before the loop; ranks that begin alike and sum their gradients stay alike",
    ),
    Cause.TINY_MESSAGES: (
        "makes many small transfers, most of whose time is their start",
        "put the tensors into one and send that (coalescing, a flat buffer)",
    ),
}
"""What a rank does, and what to change."""


def exposed_finding(exposed: Exposed, *, num_ranks: int) -> Finding:
    """P102: a step waits for a collective."""
    does, change = EXPOSED[exposed.cause]
    cost = 1000 * exposed.cost_s
    evidence = [f"{exposed.what}, {exposed.calls:.1f} calls a step"]
    if exposed.longer_at is not None:
        evidence.append(
            f"the ranks' operations are the same, and larger on those that come last at {exposed.longer_at}"
        )
        change = EXPOSED[Cause.IMBALANCE][1]
    elif exposed.cause is Cause.IMBALANCE and exposed.ranks:
        change = f"cut the model into stages elsewhere: fewer blocks on rank {exposed.ranks[0]}"
    return Finding(
        code="P102",
        severity=Severity.WARNING,
        kind=Kind.EXPOSED,
        cause=exposed.cause,
        certainty=Certainty.OBSERVED if exposed.cause is Cause.LATE_PEER else Certainty.INFERRED,
        message=(
            f"{exposed.cause.value}: {ranks_words(exposed.ranks, num_ranks)} {does}: {cost:.2f} ms a step, "
            f"{100 * exposed.share:.1f}%"
        ),
        culprit_ranks=exposed.ranks,
        waiting_ranks=exposed.waiting,
        site=exposed.site,
        evidence=tuple(evidence),
        next=change,
        cost_ms_per_step=round(cost, 4),
        gain_ms_per_step=round(1000 * exposed.gain_s, 4),
    )


WASTED: dict[Cause, tuple[str, str]] = {
    Cause.GATHERED_TWICE: (
        "gathers again what it had in the same step",
        "keep parameters until the step is over (reshard_after_forward=False; a higher max_live_parameters); of tensor "
        "parallel layers that follow each other, keep each rank's part (output_layouts, input_layouts); sum up the "
        "parts' numbers",
    ),
    Cause.REDUCED_TWICE: (
        "reduces gradients in each backward of a step, though the optimizer reads them once",
        "reduce in the last micro-batch's backward alone (no_sync of DDP, set_requires_gradient_sync of FSDP2)",
    ),
    Cause.BROADCAST_BUFFERS: (
        "waits before each forward for the module's buffers from rank 0",
        "where they are alike anyway, or need not be: DDP(..., broadcast_buffers=False)",
    ),
    Cause.SMALL_PARAMETERS: (
        "gathers parameters that are too small to be sharded",
        "put them into one unit with others, or keep them whole",
    ),
    Cause.SMALL_KERNELS: (
        "computes piece by piece what fewer operations could",
        "compute with the whole tensor at once (a batched operation, a fused layer, scaled_dot_product_attention), or "
        "compile it",
    ),
    Cause.UNUSED_RESULT: (
        "computes gradients or rows that nothing reads",
        "detach() what goes in, run what is not trained under torch.no_grad(); pick rows before the layers that need "
        "no others",
    ),
    Cause.REDUNDANT_WORK: (
        "computes in each step what was computed before, what every rank computes, or digits that nobody asked for "
        "(float64)",
        "compute it once: before the loop, and keep it (register_buffer, a cache); take what the step has (detach); "
        "write into what is there, or join once at the end; on each rank for its own rows, and the mean of that over "
        "all ranks; make what meets float32 in float32 too",
    ),
    Cause.ONE_HOT: (
        "multiplies with a matrix that has hardly any number but zeros",
        "take rows by their index (embedding, index_select), add them up by group with index_add",
    ),
    Cause.DENSE_GRADIENT: (
        "makes and applies whole gradients of tables of which it looks up a few rows",
        "make the tables with sparse=True: SGD and Adagrad take sparse gradients and leave rows without one alone; in "
        "place of Adam SparseAdam, where the moments of such rows stand still, a little another training",
    ),
    Cause.DEBUG_MODE: (
        "compares each collective with the other ranks' before it begins",
        "leave TORCH_DISTRIBUTED_DEBUG and set_debug_level at OFF or INFO where nothing is looked for",
    ),
    Cause.PADDING: (
        "computes tokens that are padding in every row of the batch",
        "pad to the longest row of each batch (padding=True, a collate function), or batch rows of like lengths",
    ),
    Cause.TINY_MESSAGES: (
        "sums gradients in many small buckets, most of whose time is their start",
        "leave DDP's bucket_cap_mb at its 25 MB, or near it",
    ),
    Cause.RECOMPUTE: (
        "computes the forward again in the backward, though what it would keep fits into memory",
        "checkpoint fewer blocks, or none",
    ),
}
"""What a rank does, and what to change."""


def waste_finding(waste: Waste, *, num_ranks: int) -> Finding:
    """P103: a step does what need not be done."""
    does, change = WASTED[waste.cause]
    cost = 1000 * waste.cost_s
    return Finding(
        code="P103",
        severity=Severity.WARNING,
        kind=Kind.WASTE,
        cause=waste.cause,
        certainty=Certainty.INFERRED,
        message=(
            f"{waste.cause.value}: {ranks_words(waste.ranks, num_ranks)} {does}: {cost:.2f} ms a step, "
            f"{100 * waste.share:.1f}%"
        ),
        culprit_ranks=waste.ranks,
        site=waste.site,
        evidence=waste.evidence,
        next=change,
        cost_ms_per_step=round(cost, 4),
        gain_ms_per_step=round(cost, 4),
    )


def nothing_measured(*, why: str, next_step: str) -> Finding:
    """P110: there is no profile."""
    return Finding(
        code="P110",
        severity=Severity.WARNING,
        kind=Kind.RESOURCE,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=f"no step was measured: {why}",
        next=next_step,
    )


def missing_part(what: str, *, ranks: tuple[int, ...] = ()) -> Finding:
    """P111: a part of the profile is missing."""
    return Finding(
        code="P111",
        severity=Severity.NOTICE,
        kind=Kind.RESOURCE,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=f"a part of the profile is missing: {what}",
        culprit_ranks=ranks,
        next="the figures are of what is there",
    )


def missing_findings(ranks: tuple[RankSamples, ...]) -> tuple[Finding, ...]:
    """What the samples of the ranks themselves say is missing: ranks without steps, ranks cut short."""
    found = []
    size = max((rank.world_size or 0 for rank in ranks), default=0)
    absent = tuple(sorted(set(range(size)) - {rank.rank for rank in ranks}))
    if absent and ranks:
        found.append(missing_part(f"{ranks_words(absent, size)} left no samples", ranks=absent))
    short = tuple(sorted(rank.rank for rank in ranks if not rank.is_whole))
    if short:
        words = ranks_words(short, max(size, 1))
        found.append(missing_part(f"{words} ended before the last sample was written", ranks=short))
    found += [
        missing_part(
            f"what the allocator's {sum(rank.retried.values())} retries of rank {rank.rank} cost, as no steps are "
            "without",
            ranks=(rank.rank,),
        )
        for rank in ranks
        if rank.retried and rank.num_steps - len(rank.retried) < MIN_STEPS
    ]
    return tuple(found)
