from plates import ALPHABET


def spell(numbers):
    return "".join(ALPHABET[number] for number in numbers).strip()


def edits(one, other):
    before = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        now = [i]
        for j, b in enumerate(other, 1):
            now.append(min(before[j] + 1, now[-1] + 1, before[j - 1] + (a != b)))
        before = now
    return before[-1]


def error_rate(scores, written):
    """Character error rate of a batch."""
    guesses = [spell(row) for row in scores.argmax(-1).tolist()]
    truths = [spell(row) for row in written.tolist()]
    return sum(map(edits, guesses, truths)) / sum(map(len, truths))
