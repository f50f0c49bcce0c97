"""The values of a run's resolved configuration as text, and in which of them two runs differ."""

from emberward.report._folder import RunFolder

MAX_DIFFERENCES = 200
ORIGINS = "resolved.origins."
"""Before each key that says where a value is from."""
WORKED_OUT = "worked out from"


def config_difference(first: RunFolder, second: RunFolder) -> list[tuple[str, str, str]]:
    """The lines of the resolved configurations that differ: section and key, and each side's value."""
    left, right = (_flat(each) for each in (first, second))
    keys = [key for key in dict.fromkeys([*left, *right]) if not key.startswith(ORIGINS)]
    rows = [(key, left.get(key, "-"), right.get(key, "-")) for key in keys if left.get(key) != right.get(key)]
    return rows[:MAX_DIFFERENCES]


def given_difference(first: RunFolder, second: RunFolder) -> list[tuple[str, str, str]]:
    """The same without what was worked out from other values that differ: what somebody changed, not what followed.

    Where everything that differs was worked out, the rules changed, and all of it is told.
    """
    rows = config_difference(first, second)
    origins = [_flat(each) for each in (first, second)]
    given = [row for row in rows if not all(WORKED_OUT in each.get(ORIGINS + row[0], "") for each in origins)]
    return given or rows


def _flat(folder: RunFolder) -> dict[str, str]:
    """``a.b`` to the value as written, of a file of nested ``key: value`` lines."""
    try:
        text = folder.config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    out: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        bare = line.partition("  # ")[0]
        key, colon, value = bare.strip().partition(":")
        if not colon or bare.lstrip().startswith("#"):
            continue
        indent = len(bare) - len(bare.lstrip())
        above = [(depth, name) for depth, name in above if depth < indent]
        if value.strip():
            out[".".join([*(name for _, name in above), key])] = value.strip()
        else:
            above.append((indent, key))
    return out
