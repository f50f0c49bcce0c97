"""The losses that a line of text or the name of a logged value tells, and nothing else that is called a loss.

[Note: what is a loss]
A value is a loss when its name is: a name's words are "loss" and words that say which training or evaluation loss it is
(WHICH). So ``loss scale``, ``packet loss``, ``best loss`` and ``loss_box_reg`` are none. In a line the words right
before and after the name belong to it, up to a number or a sign. A line that names no step or epoch must write ``:`` or
``=`` between name and value, and the value as a float. What follows the number must not make it a percentage, a ratio,
a unit or a calculation.
"""

import math
import re
from dataclasses import dataclass

EVALUATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev", "heldout"})
TRAINING = frozenset({"train", "training", "trainer"})
KIND = frozenset(
    {"lm", "mlm", "ce", "nll", "cross", "entropy", "total", "mean", "avg", "average", "running", "smoothed"}
)
PART = frozenset({"batch", "minibatch", "micro", "step", "iter", "iteration", "epoch", "global", "reduced", "current"})
WHICH = KIND | PART | TRAINING | EVALUATION
"""Words that a loss's name may have besides ``loss``."""
LINKING = frozenset({"and", "with", "the", "ms", "s", "sec", "info", "debug", "warning"})
"""Words that may stand right before a loss's name in a line."""
MAX_LINE = 2000
_NUMBER = r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan|inf)"
_STEP_WORD = r"(?:global_?step|train_?step|trainer/global_step|num_updates|steps?|iter(?:ation)?s?|it|updates?|batch)"
_PAIR = re.compile(
    r"(?P<key>[a-z_/.\-]*\bloss\b[a-z_/.\-]*|[a-z_/.\-]*_loss(?:_[a-z]+)*|loss_[a-z_]+)['\"]?"
    rf"(?:\s+(?:at|after|for)\s+{_STEP_WORD}\s*\d+)?"
    rf"(?P<sign>\s*(?::|=|->)\s*|\s+(?:is|was)\s+|\s+)['\"]?(?:tensor\()?(?P<value>{_NUMBER})"
    r"(?![\w%/])(?!\.\d)(?!\s*[*+%])",
    re.IGNORECASE,
)
_STEP = re.compile(
    rf"(?<![a-z_/]){_STEP_WORD}['\"]?\s*[:=#\[(]*\s*(?P<step>\d+)(?![\d.]*[\d%a-z])(?:\s*(?:/|of)\s*(?P<total>\d+))?",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\[\s*(?P<step>\d+)\s*/\s*(?P<total>\d+)|\|\s*(?P<at>\d+)/(?P<of>\d+)\s*\[")
"""``[ 10/5005]`` of torchvision's and torch's examples, and tqdm's bar."""
_EPOCH = re.compile(r"epoch['\"]?[\s:=#\[(]*(?P<epoch>\d+)(?![\d.]*\.\d)", re.IGNORECASE)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_WORDS_BEFORE = re.compile(r"(?:[A-Za-z]+[ \t]+){1,4}$")
_WORD = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One loss as a program wrote it. `value` is NaN for one that is not finite.

    `step`, `epoch`: as written, None where they are not; `total`: steps of an epoch or of the run, where written.
    """

    name: str
    value: float
    is_evaluation: bool
    step: int | None = None
    epoch: int | None = None
    total: int | None = None


def loss_name(name: str) -> tuple[str, bool] | None:
    """The plain name of a logged value, and whether it is of an evaluation; None for what is no loss. See [Note]."""
    words = [word.lower() for word in _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))]
    if words.count("loss") != 1 or any(word != "loss" and word not in WHICH for word in words):
        return None
    return " ".join(words), any(word in EVALUATION for word in words)


def losses_in(text: str) -> tuple[Reading, ...]:
    """The losses that a line tells, in its order; () for a line without one. Pure."""
    line = _ESCAPES.sub("", text).strip()
    if len(line) > MAX_LINE or "loss" not in line.lower():
        return ()
    place = _place(line)
    found = []
    for pair in _PAIR.finditer(line):
        named = _name_in(line, pair)
        if named is None:
            continue
        is_bare = place == (None, None, None)
        if is_bare and (not pair["sign"].strip() or not re.search(r"[.enif]", pair["value"], re.IGNORECASE)):
            continue
        value = float(pair["value"])
        step, epoch, total = place
        found.append(
            Reading(
                name=named[0],
                value=value if math.isfinite(value) else math.nan,
                is_evaluation=named[1],
                step=step,
                epoch=epoch,
                total=total,
            )
        )
    return tuple(found)


def _name_in(line: str, pair: re.Match[str]) -> tuple[str, bool] | None:
    before = line[: pair.start()]
    behind = _WORDS_BEFORE.search(before)
    words = behind.group().split() if behind is not None else []
    while words and words[0].lower() in LINKING:
        del words[0]
    for place in range(len(words) - 1, -1, -1):
        if words[place].lower() in LINKING:
            words = words[place + 1 :]
            break
    named = loss_name(" ".join([*words, pair["key"]]))
    if named is None or named[1]:
        return named
    # The nearest word before the name tells "Test set: average loss 4.7" from "Train epoch 1, loss 4.7".
    near = [word for word in _WORD.findall(before.lower()) if word in EVALUATION or word in TRAINING]
    is_evaluation = bool(near) and near[-1] in EVALUATION
    return (f"{near[-1]} {named[0]}" if is_evaluation else named[0]), is_evaluation


def _place(line: str) -> tuple[int | None, int | None, int | None]:
    """Step, epoch and the total beside the step, as a line tells them."""
    epoch = _EPOCH.search(line)
    number = None if epoch is None else int(epoch["epoch"])
    named = _STEP.search(line)
    if named is not None:
        return int(named["step"]), number, None if named["total"] is None else int(named["total"])
    shown = _PLACE.search(line)
    if shown is None:
        return None, number, None
    step, total = (shown["step"], shown["total"]) if shown["step"] is not None else (shown["at"], shown["of"])
    return int(step), number, int(total)
