"""Stretches of time, as begins and ends. Pure."""

from collections.abc import Iterable

Spans = list[tuple[float, float]]


def union(spans: Iterable[tuple[float, float]]) -> Spans:
    """What lies in any of them, in order."""
    found: Spans = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif end > begin:
            found.append((begin, end))
    return found


def both(a: Iterable[tuple[float, float]], b: Iterable[tuple[float, float]]) -> Spans:
    """What lies in `a` and in `b`, in order."""
    first, second = union(a), union(b)
    found: Spans = []
    i = j = 0
    while i < len(first) and j < len(second):
        begin, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if begin < end:
            found.append((begin, end))
        if first[i][1] <= second[j][1]:
            i += 1
        else:
            j += 1
    return found


def without(a: Iterable[tuple[float, float]], b: Iterable[tuple[float, float]]) -> Spans:
    """What lies in `a` and not in `b`, in order."""
    first, second = union(a), union(b)
    found: Spans = []
    j = 0
    for begin, end in first:
        while j < len(second) and second[j][1] <= begin:
            j += 1
        at = j
        while at < len(second) and second[at][0] < end:
            if second[at][0] > begin:
                found.append((begin, second[at][0]))
            begin = max(begin, second[at][1])
            at += 1
        if begin < end:
            found.append((begin, end))
    return found


def length_of(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds that lie in any of them."""
    return sum(end - begin for begin, end in union(spans))
