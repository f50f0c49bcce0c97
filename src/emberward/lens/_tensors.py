"""Which lines of a program compute with tensors, by what was seen at them. Pure.

[Note: lines without tensors]
The text does not say whether ``rows.copy()`` copies a table or a tensor, nor ``merge(parts)`` what it merges. What was
seen there does: an operation of torch's under way at a look at the observed steps, or a frame of torch's, is work with
tensors; a look without either is Python's, and so is a sample in a library that has no tensors. What is seen in a
function counts at its callers' lines too. Of a line at which less was seen nothing is known but its text.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, takewhile

from emberward.lens._operations import KERNEL, RankOperations
from emberward.lens._samples import OURS, USER, Instruction, RankSamples

Line = tuple[str, int]
MIN_SEEN = 2
"""Looks and samples from which something is known of a line."""
MAX_PLAIN = 0.1
"""Of them with tensors, at a line of Python's: a list of numbers becomes a tensor at its end."""
WITHOUT_TENSORS = re.compile(
    r"-packages/(PIL|albumentations|cv2|evaluate|imageio|joblib|matplotlib|narwhals|nltk|numpy|pandas|pyarrow|regex|"
    r"rouge_score|sacrebleu|scipy|sentencepiece|seqeval|skimage|sklearn|spacy|threadpoolctl|tiktoken|tokenizers)/"
    r"|transformers/.*tokenization"
)


def tensor_shares(samples: RankSamples, operations: RankOperations | None = None) -> dict[Line, float]:
    """Of each line of the program at which enough was seen, the share of that with tensors."""
    seen: Counter[Line] = Counter()
    with_tensors: Counter[Line] = Counter()
    looks = () if operations is None else _looks(operations)
    for stack, number, has_tensors in (*_samples(samples), *looks):
        lines = dict.fromkeys(((place.file, place.line) for place in stack if place.owner == USER), number)
        seen.update(lines)
        with_tensors.update(lines if has_tensors else {})
    return {line: with_tensors[line] / number for line, number in seen.items() if number >= MIN_SEEN}


def is_plain(lines: Sequence[Line], shares: Mapping[Line, float]) -> bool:
    """Whether something is known of the lines, and none has to do with tensors."""
    known = [shares[line] for line in lines if line in shares]
    return bool(known) and max(known) < MAX_PLAIN


def _samples(rank: RankSamples) -> Iterator[tuple[Sequence[Instruction], int, bool]]:
    """The stacks that end in a library's or in Python's own files, how often they were seen, and whether in torch's.

    Once in a library is enough: what it is given is of its own kind.
    """
    for sampled in rank.stacks:
        stack = [place for place in sampled.stack if place.owner != OURS]
        inside = [*takewhile(lambda place: place.owner != USER, stack)]
        is_torch = any("/torch/" in place.file for place in inside)
        if is_torch or (inside and all(_has_none(place) for place in inside)):
            is_certain = any("-packages/" in place.file for place in inside)
            yield stack, len(sampled.steps) * (MIN_SEEN if is_certain else 1), is_torch


def _has_none(place: Instruction) -> bool:
    return "-packages/" not in place.file or WITHOUT_TENSORS.search(place.file) is not None


def _looks(rank: RankOperations) -> Iterator[tuple[Sequence[Instruction], int, bool]]:
    """The looks at the observed steps, and whether the training thread was in an operation or in a file of torch's."""
    own = [op for op in rank.operations if op.thread == rank.main and not op.is_async and KERNEL.match(op.name)]
    own.sort(key=lambda op: op.began_s)
    begins = [op.began_s for op in own]
    ends = [*accumulate((op.ended_s for op in own), max)]
    for at_s, stack in rank.looks:
        index = bisect.bisect_right(begins, at_s) - 1
        inside = takewhile(lambda place: place.owner != USER, stack)
        is_torch = any("/torch/" in place.file for place in inside)
        yield stack, 1, is_torch or (index >= 0 and ends[index] >= at_s)
