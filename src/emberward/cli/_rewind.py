"""``emberward train --rewind STEP``: back to a save and on from there otherwise; ``--undo-rewind`` takes that back."""

import getpass
import os
import socket
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from emberward.findings import ConfigError
from emberward.runs import Act, Rewind, Start, plan_rewind, read_detours, rewind, undo_rewind
from emberward.supervise import hold_lock


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindOptions:
    """What the person asked for; `wanted` is None for an undoing."""

    wanted: Rewind | None
    why: str | None


def rewind_options(
    step: int | None,
    *,
    skip_samples: int | None,
    lr_scale: float | None,
    for_steps: int | None,
    is_undone: bool,
    is_fresh: bool,
    why: str | None,
) -> RewindOptions | None:
    """The rewind that the options of ``train`` ask for, None when they ask for none. Raises ConfigError R106."""
    details = {"--skip-samples": skip_samples, "--lr-scale": lr_scale, "--for-steps": for_steps}
    given = [name for name, value in details.items() if value is not None]
    if step is None and given:
        raise ConfigError(
            f"{given[0]} says how to go on after a rewind, and there is none",
            code="R106",
            where="command line",
            expected="--rewind STEP",
            found=", ".join(given),
            next=f"--rewind STEP {given[0]} {details[given[0]]}",
        )
    asked = [
        name
        for name, is_given in (("--fresh", is_fresh), ("--rewind", step is not None), ("--undo-rewind", is_undone))
        if is_given
    ]
    if len(asked) > 1:
        raise ConfigError(
            f"{' and '.join(asked)} contradict each other",
            code="R106",
            where="command line",
            expected="one of them",
            found=" ".join(asked),
            next="--undo-rewind first, then --rewind STEP" if is_undone and not is_fresh else "leave --fresh out",
        )
    if step is None:
        return RewindOptions(wanted=None, why=why) if is_undone else None
    wanted = Rewind(
        step=step,
        skip_samples=skip_samples or 0,
        lr_scale=1.0 if lr_scale is None else lr_scale,
        lr_steps=for_steps or 0,
    )
    return RewindOptions(wanted=wanted, why=why)


def require_one_intent(*, is_fresh: bool, is_resume: bool, run_id: str | None) -> None:
    """Raises ConfigError C113 when the options ask for a new run and for an old one."""
    if is_fresh and (is_resume or run_id is not None):
        old = "--resume" if is_resume else f"--run-id {run_id}"
        raise ConfigError(
            f"--fresh and {old} contradict each other",
            code="C113",
            where="command line",
            expected="one of them",
            found=f"--fresh {old}",
            next=f"leave --fresh out to go on with a run, or leave {old} out to start a new one",
        )


def rewound(start: Start, options: RewindOptions, *, is_dry: bool) -> Start:
    """`start` with what was done in its `why`. A dry one changes nothing. Raises ConfigError R106 and C111.

    Holds the launch lock meanwhile: no rank runs.
    """
    folder = start.folder
    if is_dry:
        if options.wanted is not None:
            text = f"would be {plan_rewind(folder, options.wanted).text()}"
        else:
            held = read_detours(folder)
            text = f"would undo: {held[-1].text()}" if held else "has no rewind to undo"
        return replace(start, why=f"{start.why}; {text}")
    act = Act(who=_who(), time=datetime.now(UTC).isoformat(timespec="seconds"), why=options.why)
    with hold_lock(folder, launcher_pid=os.getpid()):
        if options.wanted is not None:
            text = rewind(folder, options.wanted, act).text()
        else:
            text = f"undone: {undo_rewind(folder, act).text()}"
    return replace(start, why=f"{start.why}; {text}")


def _who() -> str:
    """Person and host, as far as the system knows them."""
    try:
        person = getpass.getuser()
    except (OSError, KeyError):
        person = f"uid {os.getuid()}"
    return f"{person}@{socket.gethostname()}"
