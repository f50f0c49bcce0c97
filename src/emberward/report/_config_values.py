"""The values of a run's resolved configuration as text, and in which of them two runs differ."""

from emberward.report._folder import RunFolder

MAX_DIFFERENCES = 200


def config_difference(first: RunFolder, second: RunFolder) -> list[tuple[str, str, str]]:
    """The lines of the resolved configurations that differ: section and key, and each side's value."""
    left, right = (_flat(each) for each in (first, second))
    keys = list(dict.fromkeys([*left, *right]))
    rows = [(key, left.get(key, "-"), right.get(key, "-")) for key in keys if left.get(key) != right.get(key)]
    return rows[:MAX_DIFFERENCES]


def _flat(folder: RunFolder) -> dict[str, str]:
    """``a.b`` to the value as written, of a file of nested ``key: value`` lines; origins are left out."""
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
