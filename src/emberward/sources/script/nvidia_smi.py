"""The ``nvidia-smi`` of an examined script where CUDA is played: ``python nvidia_smi.py NUM_DEVICES ARGUMENTS``.

Answers plain, ``-L``, ``--query-gpu=FIELDS --format=csv[,noheader][,nounits]`` and ``--query-compute-apps``, all with
``-i``. The devices are idle ones of `_driver.py`. Anything else ends with code 2, as an option that nvidia-smi does not
know; form and units after ``nvidia-smi --help-query-gpu``. Standard library only.
"""

import os
import sys
from collections.abc import Sequence

MEMORY_MIB = 65536
_FIELDS = {
    "name": ("examined", ""), "gpu_name": ("examined", ""), "driver_version": ("0.0", ""), "compute_cap": ("8.0", ""),
    "memory.total": (str(MEMORY_MIB), "MiB"), "memory.free": (str(MEMORY_MIB), "MiB"), "memory.used": ("0", "MiB"),
    "memory.reserved": ("0", "MiB"), "utilization.gpu": ("0", "%"), "utilization.memory": ("0", "%"),
    "temperature.gpu": ("0", ""), "power.draw": ("0.00", "W"), "pstate": ("P0", ""),
}  # fmt: skip
"""Values and units that all devices share; what is not known here is ``[N/A]``, as of a device that cannot tell."""


def answer(num_devices: int, words: Sequence[str]) -> str | None:
    """What is written for the arguments `words`; None for those that are not played."""
    options: dict[str, str] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        name, sign, value = word.partition("=")
        if name in ("-i", "--id", "-d", "--display", "-f") and not sign and left:
            value = left.pop(0)
        options[{"-i": "--id", "--list-gpus": "-L"}.get(name, name)] = value
    known = {"--id", "-L", "--query-gpu", "--query-compute-apps", "--format"}
    if not options.keys() <= known or not options.get("--id", "0").replace(",", "").isdigit():
        return None
    devices = [int(index) for index in options["--id"].split(",")] if "--id" in options else range(num_devices)
    form = [part.strip() for part in options.get("--format", "csv").split(",")]
    if "-L" in options:
        return "".join(f"GPU {index}: examined (UUID: {_uuid(index)})\n" for index in devices)
    if "--query-gpu" in options:
        fields = [field.strip() for field in options["--query-gpu"].split(",")]
        rows = [[_value(field, index, num_devices, form) for field in fields] for index in devices]
        return _table(fields, rows, form)
    if "--query-compute-apps" in options:
        return _table([field.strip() for field in options["--query-compute-apps"].split(",")], [], form)
    lines = "".join(f"| {index:3}  examined   0MiB / {MEMORY_MIB}MiB |   0%   Default |\n" for index in devices)
    return f"NVIDIA-SMI 0.0   Driver Version: 0.0   CUDA Version: N/A\n{lines}|  No running processes found  |\n"


def _table(fields: Sequence[str], rows: Sequence[Sequence[str]], form: Sequence[str]) -> str:
    units = {field: _FIELDS.get(field, ("", ""))[1] for field in fields}
    header = [f"{field} [{units[field]}]" if units[field] else field for field in fields]
    lines = [*([] if "noheader" in form else [header]), *rows]
    return "".join(", ".join(line) + "\n" for line in lines)


def _value(field: str, index: int, num_devices: int, form: Sequence[str]) -> str:
    own = {"index": str(index), "count": str(num_devices), "uuid": _uuid(index), "gpu_uuid": _uuid(index)}
    if field in own:
        return own[field]
    value, unit = _FIELDS.get(field, ("[N/A]", ""))
    return f"{value} {unit}" if unit and "nounits" not in form else value


def _uuid(index: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{index:012}"


if __name__ == "__main__":
    _text = answer(int(sys.argv[1]), sys.argv[2:])
    os.write(1, (_text or "").encode())
    sys.exit(0 if _text is not None else 2)
