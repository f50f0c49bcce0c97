"""A file that stops runs: while it exists nothing starts, and what runs saves and ends."""

from pathlib import Path

from emberward.findings import ConfigError


def require_no_kill_switch(path: Path) -> None:
    """Raises ConfigError C108 when the file is there."""
    if path.exists():
        raise ConfigError(
            "the kill switch is set",
            code="C108",
            where=str(path),
            expected="no such file",
            found="it exists: a start is refused until it is removed",
            next=f"rm {path}",
        )
