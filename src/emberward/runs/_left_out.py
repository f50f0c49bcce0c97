"""The hosts that take no part in the runs of one name: a file a host, beside the kill switch. No torch."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emberward.report import read_json

FOLDER = "left-out"
MAX_HOSTS = 4096


def host_file_name(host: str) -> str:
    """A host's name as a file may be called."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", host)[:100] or "host"


def left_out_file(place: Path, host: str) -> Path:
    """The file below `place` that keeps the host out; it holds the finding that named the host."""
    return place / FOLDER / f"{host_file_name(host)}.json"


def read_left_out(place: Path) -> dict[str, Mapping[str, Any]]:
    """host -> the finding for which it is left out, as plain data, by name. Reads at most MAX_HOSTS files."""
    found = {}
    for path in sorted((place / FOLDER).glob("*.json"))[:MAX_HOSTS]:
        said = read_json(path) or {}
        hosts = said.get("hosts")
        found[str(hosts[0]) if isinstance(hosts, list) and hosts else path.stem] = said
    return dict(sorted(found.items()))
