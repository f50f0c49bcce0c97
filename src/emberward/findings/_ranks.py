"""Ranks in words."""

from collections.abc import Collection


def ranks_text(ranks: Collection[int], *, noun: str = "rank") -> str:
    """``rank 2``, ``ranks 0, 1, 3`` or ``ranks 0-15, 20``."""
    items = sorted(ranks)
    if len(items) == 1:
        return f"{noun} {items[0]}"
    spans: list[list[int]] = []
    for item in items:
        if spans and item == spans[-1][1] + 1:
            spans[-1][1] = item
        else:
            spans.append([item, item])
    parts: list[str] = []
    for first, last in spans:
        parts += (
            [str(first)]
            if first == last
            else [f"{first}-{last}"]
            if last - first > 2
            else map(str, range(first, last + 1))
        )
    shown = ", ".join(parts[:12]) + (f" and {len(parts) - 12} more spans" if len(parts) > 12 else "")
    return f"{noun}s {shown}"
