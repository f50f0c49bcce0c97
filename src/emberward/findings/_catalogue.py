"""Every finding code with its title. Each has a runbook section in ``docs/findings.md`` and a message under test.

Letters: C configuration, D data, E examination of the machine by the doctor, H hang of any job, K checkpoint, L launch,
M match, P profile, R rank (a run in progress), W work beside the main thread.
"""

from dataclasses import dataclass

from emberward.findings._words import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeEntry:
    """One row of the catalogue."""

    code: str
    title: str
    kind: Kind


def _rows(kind: Kind, rows: dict[str, str]) -> dict[str, CodeEntry]:
    return {code: CodeEntry(code=code, title=title, kind=kind) for code, title in rows.items()}


CATALOGUE: dict[str, CodeEntry] = {
    **_rows(
        Kind.CONFIG,
        {
            "C101": "unknown key",
            "C102": "wrong type",
            "C103": "value out of range",
            "C104": "impossible layout",
            "C105": "batch sums do not fit",
            "C106": "recipe cannot be read",
            "C107": "another run's folder",
            "C108": "the kill switch is set",
            "C109": "schedule does not pair",
            "C110": "an optional package is missing",
            "C111": "the run is in use",
            "C112": "a file or folder cannot be used",
            "C113": "the command is not understood",
            "C114": "fewer micro-batches than twice the pipeline's ranks",
            "C115": "ranks need more memory than there is",
            "C116": "a family's modules are not what it declares",
            "C117": "a debug operation cannot be carried out",
            "C118": "the run does not answer",
            "D101": "data cannot be read",
            "D102": "data changed since the run began",
            "L101": "ranks differ before the start",
            "L120": "SLURM cannot be asked",
            "L121": "SLURM refused",
            "L123": "a host cannot be used",
            "L124": "a spare takes the place of a slow host",
            "K114": "a model family lacks a rule",
            "K120": "the form cannot be written of this source",
            "K121": "the checkpoint to start from does not fit",
            "K122": "a model of no known family",
            "W101": "too many lanes on a device",
            "W106": "a lane was made with other settings",
            "M108": "the trace contradicts itself",
            "M110": "a part was not examined",
            "M111": "an effect of the examined program was refused",
            "M112": "a group carries other bytes than planned",
            "M114": "another layout or route would serve better",
        },
    ),
    **_rows(
        Kind.CRASH,
        {
            "L102": "a rank died",
            "L103": "the launcher could not start the ranks",
            "L105": "the launch ended without a result",
            "L106": "the command failed",
            "M109": "a rank raised while it was examined",
        },
    ),
    **_rows(
        Kind.HANG,
        {
            "H101": "a rank never arrived",
            "H106": "one process does something else than its peers",
            "H107": "cannot tell who stopped the job",
            "H112": "torch's watchdog stood still itself",
            "H114": "NCCL's RAS names a process",
            "H125": "a rank is stopped",
            "H131": "a thread that a rank waits for has died",
            "H132": "a rank waits for a lane that is in a task",
            "H151": "every rank stands still alike",
            "H153": "a rank does not end when the others have",
        },
    ),
    **_rows(
        Kind.DEVICE,
        {"H102": "a rank does not finish what its peers finished", "H103": "a call that all issued does not end"},
    ),
    **_rows(Kind.MISSING, {"H104": "a rank left out or added a call", "H109": "a send or receive that nobody answers"}),
    **_rows(Kind.MISSING, {"H129": "a group that not every rank creates", "H152": "a call met one below Python"}),
    **_rows(Kind.MISSING, {"H134": "a key of a store that nobody sets"}),
    **_rows(Kind.MISMATCH, {"H150": "a send and a receive whose tags differ"}),
    **_rows(
        Kind.RESOURCE,
        {
            "H108": "a file cannot be read",
            "H120": "a process is not recorded",
            "H121": "a ring has a gap",
            "H126": "a process cannot be looked at",
            "H127": "the watcher failed",
            "H160": "a dump is of another run",
            "H161": "a file of a form that explain does not read",
        },
    ),
    **_rows(Kind.NONE, {"H110": "no hang seen", "H115": "two incidents compared", "H128": "the job goes on"}),
    **_rows(Kind.DEADLOCK, {"H111": "a ring of sends and receives", "H133": "a cycle through a bounded buffer"}),
    **_rows(
        Kind.STRAGGLER,
        {"H140": "a rank is waited for in every step", "H141": "a rank is waited for every few steps"},
    ),
    **_rows(Kind.CONFIG, {"H142": "ranks run different versions or code"}),
    **_rows(Kind.STRAGGLER, {"H144": "a host is waited for"}),
    **_rows(Kind.LINK, {"H143": "a link between hosts is slow"}),
    **_rows(Kind.LINK, {"H113": "the network card reported errors"}),
    **_rows(
        Kind.HANG,
        {
            "D103": "the data loader gave no batch in time",
            "L104": "ranks did not stop in time",
            "L122": "a job neither runs nor ends",
            "M115": "an examined rank did not come back from a line",
            "W104": "a wait on a lane could never end",
            "W105": "a task of a lane was never done",
        },
    ),
    **_rows(
        Kind.RESOURCE,
        {
            "D104": "prepared data cannot be written",
            "K101": "checkpoint is damaged",
            "K102": "checkpoint does not fit the model",
            "K103": "checkpoint could not be written",
            "K104": "an old checkpoint could not be removed",
            "K110": "a foreign checkpoint cannot be read",
            "K111": "a foreign file names what is not known",
            "K123": "a foreign file is damaged",
            "K113": "another conversion writes here",
            "K116": "tensors where an engine does not look",
            "K105": "a save reads back otherwise than it was written",
            "K106": "saves are asked for faster than they are written",
            "K108": "the process that writes saves died",
            "K109": "the process that writes saves cannot be started",
            "K117": "no host memory for the copy of a save",
            "W102": "the queue of a lane is full",
        },
    ),
    **_rows(
        Kind.MISMATCH,
        {
            "M101": "collectives differ in operation",
            "M102": "collectives differ in shape, dtype or root",
            "K115": "checkpoints differ",
            "R110": "a rank departs from the proved order",
        },
    ),
    **_rows(
        Kind.DRIFT,
        {"K107": "the saved state gives another loss than when it was saved", "K112": "replicas disagree"},
    ),
    **_rows(Kind.ORDER_HAZARD, {"W103": "a tensor was written while a lane had it"}),
    **_rows(Kind.MISSING, {"M103": "a call is missing or extra", "M105": "a send or receive has no partner"}),
    **_rows(Kind.DEADLOCK, {"M104": "deadlock"}),
    **_rows(Kind.EDGE, {"M106": "an edge carries no tensor"}),
    **_rows(
        Kind.ORDER_HAZARD,
        {
            "M107": "no order between communicators that share a device",
            "M113": "ranks launch calls that share devices in opposite orders",
        },
    ),
    **_rows(
        Kind.RESOURCE,
        {
            "L108": "the watching is incomplete",
            "L109": "a notification failed",
            "L110": "no sign of life of the supervisor",
            "R102": "a metrics sink failed",
        },
    ),
    **_rows(Kind.LINK, {"L112": "a link between hosts is cut", "L113": "a host is down", "L114": "a host is left out"}),
    **_rows(Kind.NONE, {"L111": "stopped by the kill switch", "L115": "the job will be ended"}),
    **_rows(
        Kind.SPIKE,
        {
            "R101": "loss or gradients are not finite",
            "R103": "a spike begins",
            "R104": "a spike is over, or did not end",
            "R105": "the first operation that was not finite",
            "R118": "a debug assertion does not hold",
        },
    ),
    **_rows(Kind.CONFIG, {"R106": "the rewind is not possible", "R111": "the certificate is not used"}),
    **_rows(
        Kind.DEVICE,
        {"E101": "a device is bad", "E103": "a host is bad", "E105": "what is bad could not be told"},
    ),
    **_rows(Kind.LINK, {"E102": "a link is bad", "E104": "a switch is bad", "E107": "a host is not reached"}),
    **_rows(
        Kind.CONFIG,
        {
            "E106": "a probe fails by itself",
            "E109": "hosts are not alike",
            "E110": "what has changed since a run worked",
            "E111": "members are of different kinds",
        },
    ),
    **_rows(Kind.NONE, {"E108": "nothing bad was found"}),
    **_rows(
        Kind.DRIFT,
        {
            "R115": "copies of one tensor differ",
            "R116": "copies were made equal again",
            "R117": "ranks are in different states",
        },
    ),
    **_rows(Kind.STALL, {"P101": "the training thread stands still"}),
    **_rows(Kind.EXPOSED, {"P102": "a step waits for a collective"}),
    **_rows(Kind.WASTE, {"P103": "a step does what need not be done"}),
    **_rows(Kind.SLOWDOWN, {"P104": "steps became slower"}),
    **_rows(Kind.RESOURCE, {"P110": "no step was measured", "P111": "a part of the profile is missing"}),
}


def require_code(code: str) -> CodeEntry:
    """The catalogue's row for `code`. Raises KeyError naming the code when there is none."""
    if code not in CATALOGUE:
        raise KeyError(f"finding code {code} is not in the catalogue")
    return CATALOGUE[code]
