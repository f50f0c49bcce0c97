from typewriter import LETTERS


def distance(one, other):
    """The fewest letters to put in, take out or change."""
    before = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b)))
        before = row
    return before[-1]


def to_text(rows):
    return ["".join(LETTERS[letter] for letter in row) for row in rows.tolist()]


def character_error_rate(scores, text):
    read, meant = to_text(scores.argmax(-1)), to_text(text)
    return sum(map(distance, read, meant)) / text.numel()
