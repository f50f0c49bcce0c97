"""Programs that a site may have for its GPUs: nccl-tests and NVIDIA's DCGM, behind the probe contract.

Standard library only. Formats: nccl-tests' ``common.cu`` (the lines ``# Out of bounds values`` and ``# Avg bus
bandwidth``); the JSON of ``dcgmi diag -j``, in which each result has a ``status``, whatever the release nests it in.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

LIMIT_S = 300.0
NCCL_TEST, DCGM = "all_reduce_perf", "dcgmi"
DCGM_LEVEL = "1"
"""``-r 1``: seconds; it needs the GPUs free, as all of ours do."""
_BANDWIDTH = re.compile(r"# Avg bus bandwidth\s*:\s*([\d.]+)")
_WRONG = re.compile(r"# Out of bounds values\s*:\s*(\d+)")


def nccl_tests(environment: Mapping[str, str]) -> dict[str, object]:
    """An all-reduce over the set's devices of this host by nccl-tests, answers checked; GB/s of its bus bandwidth.

    One process drives all of them: the host's first member runs it and the others only answer.
    """
    devices = environment.get("EMBERWARD_DEVICES", "0")
    if environment.get("LOCAL_RANK", "0") != "0":
        return {"ok": True, "detail": "the host's first member runs it"}
    count = len(devices.split(","))
    words = (NCCL_TEST, "-b", "8M", "-e", "128M", "-f", "4", "-g", str(count), "-c", "1")
    done = _run(words, {**environment, "CUDA_VISIBLE_DEVICES": devices})
    if isinstance(done, str):
        return {"ok": False, "detail": done}
    wrong, bandwidth = _WRONG.search(done.stdout), _BANDWIDTH.search(done.stdout)
    if wrong is None or bandwidth is None:
        return {"ok": False, "detail": f"{NCCL_TEST}: no result in what it says"}
    if int(wrong[1]):
        return {"ok": False, "detail": f"{NCCL_TEST}: {wrong[1]} values are out of bounds"}
    return {"ok": True, "value": float(bandwidth[1]), "unit": "GB/s", "exercised": "ring"}


def dcgm(environment: Mapping[str, str]) -> dict[str, object]:
    """DCGM's own diagnosis of this member's device."""
    devices = environment.get("EMBERWARD_DEVICES", "0").split(",")
    mine = devices[int(environment.get("LOCAL_RANK", "0"))]
    done = _run((DCGM, "diag", "-r", DCGM_LEVEL, "-i", mine, "-j"), environment)
    if isinstance(done, str):
        return {"ok": False, "detail": done}
    try:
        said = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        return {"ok": False, "detail": f"{DCGM}: no JSON in what it says"}
    found = list(_results(said, ""))
    bad = [f"{name}: {text}" for name, status, text in found if status.lower().startswith("fail")]
    if bad:
        return {"ok": False, "detail": "; ".join(bad)[:200]}
    return {"ok": bool(found), "detail": f"{len(found)} results of {DCGM}"}


def _results(value: Any, name: str) -> Iterator[tuple[str, str, str]]:
    """(test, status, words) of each result, however deep."""
    if isinstance(value, dict):
        name = str(value.get("name", name))
        if isinstance(value.get("status"), str):
            words = value.get("warnings") or value.get("info") or ""
            yield name, value["status"], words if isinstance(words, str) else json.dumps(words)
        for each in value.values():
            yield from _results(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _results(each, name)


def _run(words: tuple[str, ...], environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str] | str":
    """What the program said, or why that is nothing. Blocks, at most LIMIT_S."""
    try:
        done = subprocess.run(
            words,
            env=dict(environment),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{words[0]}: no end within {LIMIT_S:.0f} s"
    if done.returncode and not done.stdout.strip():
        last = (done.stderr.strip().splitlines() or ["nothing said"])[-1]
        return f"{words[0]}: exit code {done.returncode}, {last[:150]}"
    return done
