"""The errors of conversion, each with its four facts."""

import json
from pathlib import Path
from typing import Any

from emberward.findings import Cause, ConfigError, EmberwardError


def unreadable(
    what: str, *, where: str, expected: str | None = None, found: str | None = None, next: str | None = None
) -> EmberwardError:
    """K110: a checkpoint of another program is damaged, or is not what it seems."""
    return EmberwardError(
        what, code="K110", where=where, expected=expected, found=found, next=next, cause=Cause.CORRUPT_FILE
    )


def damaged(what: str, *, path: Path, expected: str, found: str) -> EmberwardError:
    """K123: a file contradicts what it, or one beside it, says."""
    return EmberwardError(
        what,
        code="K123",
        where=str(path),
        expected=expected,
        found=found,
        next=f"copy the file again; if you know better: --accept-damage {path.name}",
        cause=Cause.CORRUPT_FILE,
    )


def not_understood(
    what: str,
    *,
    where: str,
    expected: str | None = None,
    found: str | None = None,
    next: str | None = None,
    code: str = "K110",
) -> ConfigError:
    """K110 before anything is read: the path or the format is not one that can be converted."""
    return ConfigError(what, code=code, where=where, expected=expected, found=found, next=next)


def no_rule(
    what: str, *, where: str, expected: str | None = None, found: str | None = None, next: str | None = None
) -> ConfigError:
    """K114: the model family does not say how a tensor is named, split or joined."""
    return ConfigError(what, code="K114", where=where, expected=expected, found=found, next=next)


def not_writable(
    what: str, *, where: str, expected: str | None = None, found: str | None = None, next: str | None = None
) -> ConfigError:
    """K120: the source does not tell what a form needs, or cannot be cut as it was asked for."""
    return ConfigError(what, code="K120", where=where, expected=expected, found=found, next=next)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises K110."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable("a file is not JSON, or it is damaged", where=str(path), found=str(error)) from error
    if not isinstance(found, dict):
        raise unreadable("a file holds no object", where=str(path), expected="{...}", found=type(found).__name__)
    return found
