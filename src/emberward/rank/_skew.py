"""What every rank must share before the first step: versions, code, configuration, data."""

import contextlib
import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import emberward
from emberward.findings import Cause, EmberwardError
from emberward.health import skews

START_TIMEOUT_S = 120.0
"""How long ranks wait for each other before the first step."""


class Store(Protocol):
    """The part of torch's rendezvous store that is needed."""

    def set(self, key: str, value: str) -> None:
        """Puts `value` under `key`."""

    def get(self, key: str) -> bytes:
        """The value under `key`; blocks until there is one or the store's time is up."""

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        """Blocks until all `keys` are there. Raises after `timeout`."""


def fingerprint(*, torch_version: str, config_digest: str, data_digest: str) -> dict[str, str]:
    """What this rank brings, by name. The code's digest covers every source file of the package."""
    root = Path(emberward.__file__).parent
    code = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        code.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return {
        "emberward": emberward.__version__,
        "emberward code": code.hexdigest()[:16],
        "python": platform.python_version(),
        "torch": torch_version,
        "configuration": config_digest[:16],
        "data": data_digest[:16],
    }


@contextlib.contextmanager
def told_to_others(store: Store, *, rank: int, host: str, meeting: str) -> Iterator[None]:
    """Runs its body. What that raises is told to the ranks that wait at `meeting`, so that they end with its reason."""
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, EmberwardError) else f"{type(error).__name__}: {error}"
        # Not being able to tell must not hide what there was to tell.
        with contextlib.suppress(RuntimeError):
            store.set(f"{meeting}/{rank}", json.dumps({"host": host, "error": reason}))
            if rank == 0:
                store.set(f"{meeting}/verdict", json.dumps(_could_not_start(0, host, reason)))
        raise


def require_equal_fingerprints(
    store: Store,
    mine: Mapping[str, str],
    *,
    rank: int,
    host: str,
    world_size: int,
    timeout_s: float,
    meeting: str = "fingerprint",
) -> None:
    """Raises EmberwardError L101 on every rank, naming field, ranks and values, unless all ranks bring the same.

    All ranks must call. Blocks until every rank's fingerprint is there, at most `timeout_s`; a rank that never comes
    is named as well, and one that failed before (`told_to_others`) with L103 and its reason. Rank 0 compares and the
    others read its verdict, so that the cost is two messages a rank. `meeting` tells several comparisons apart.
    """
    store.set(f"{meeting}/{rank}", json.dumps({"host": host, "values": dict(mine)}))
    if rank == 0:
        store.set(f"{meeting}/verdict", json.dumps(_compare(store, world_size, timeout_s, meeting)))
    store.wait([f"{meeting}/verdict"], timedelta(seconds=timeout_s + 10))
    verdict = json.loads(store.get(f"{meeting}/verdict"))
    if verdict is not None:
        raise EmberwardError(
            verdict["what"],
            code=verdict["code"],
            where=verdict["where"],
            expected=verdict["expected"],
            found=verdict["found"],
            next="start every rank with the same installation, recipe and data",
            cause=Cause.VERSION_SKEW if verdict["code"] == "L101" else Cause.UNKNOWN,
            ranks=tuple(verdict["ranks"]),
        )


def _compare(store: Store, world_size: int, timeout_s: float, meeting: str) -> dict[str, object] | None:
    """The verdict on all fingerprints: None when they are equal. The values of most ranks are taken for right."""
    everyone: list[tuple[str, dict[str, str]]] = []
    for rank in range(world_size):
        try:
            store.wait([f"{meeting}/{rank}"], timedelta(seconds=timeout_s))
        except RuntimeError:
            return {
                "code": "L101",
                "what": f"rank {rank} did not come to the start",
                "where": f"rank {rank}",
                "expected": f"{world_size} ranks within {timeout_s:.0f} s",
                "found": f"ranks 0 to {rank - 1}",
                "ranks": [rank],
            }
        data = json.loads(store.get(f"{meeting}/{rank}"))
        if "error" in data:
            return _could_not_start(rank, data["host"], data["error"])
        everyone.append((data["host"], data["values"]))
    names = everyone[0][1]
    found = skews({rank: {name: has.get(name, "nothing") for name in names} for rank, (_, has) in enumerate(everyone)})
    if not found:
        return None
    first = min(found, key=lambda each: list(names).index(each.name))
    (usual, most), *others = first.values
    odd = sorted(rank for _, ranks in others for rank in ranks)
    hosts = sorted({everyone[rank][0] for rank in odd})
    return {
        "code": "L101",
        "what": f"ranks differ in {first.name}",
        "where": f"rank {', '.join(map(str, odd))} on {', '.join(hosts)}",
        "expected": f"{usual}, as {len(most)} of {world_size} ranks have",
        "found": ", ".join(sorted(value for value, _ in others)),
        "ranks": odd,
    }


def _could_not_start(rank: int, host: str, reason: str) -> dict[str, object]:
    return {
        "code": "L103",
        "what": f"rank {rank} could not start",
        "where": f"rank {rank} on {host}",
        "expected": None,
        "found": reason.splitlines()[0],
        "ranks": [rank],
    }
