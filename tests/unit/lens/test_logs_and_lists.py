"""Logs of libraries and lists of a tensor's numbers: what is told of stacks that are written down."""

from dataclasses import replace

from emberward.findings import Cause
from emberward.lens import Instruction, RankSamples, Sampled, Sources, tell
from emberward.lens._logs import log_lines

RANK = RankSamples(
    rank=0, pid=1, world_size=1, first_step=0, bounds_s=(0.0, 9.0), period_s=0.005, queue_s=0.0, has_cpu_time=True,
    device="cpu", loop=(), outputs=frozenset(), stacks=(), is_whole=True,
)  # fmt: skip
LOGS = """class Wind:
    def training_step(self, batch):
        return super().training_step(batch)
    def log_norms(self):
        for name, p in self.named():
            self.log(f"norm/{name}", p.grad.norm())
            self.log(f"mean/{name}", p.grad.mean().item())
    def show(self, loss):
        log.debug(f"{loss}")
        log.log(10, f"{loss}")
        run.log({"loss": loss.item()})
"""
LOG = Instruction("/x/site-packages/lightning/pytorch/core/module.py", "log", 1, "package", 9, 9, 4, 9, "CALL")
COPIES = Instruction("/x/site-packages/lightning/pytorch/utilities/copy.py", "copy", 1, "package", 9, 9, 4, 9, "CALL")
NORMS = Instruction("wind.py", "log_norms", 4, "user", 6, 6, 12, 51, "CALL")
NORM = Instruction("wind.py", "log_norms", 4, "user", 6, 6, 37, 50, "CALL")
FITS = Instruction("wind.py", "<module>", 1, "user", 1, 1, 0, 5, "CALL")
MEETS = Instruction("/x/emberward/sources/_issue.py", "wait", 1, "ours", 9, 9, 4, 9, "CALL")
SHOWS = [
    Instruction("wind.py", "show", 8, "user", 9, 9, 18, 26, "CALL"),
    Instruction("wind.py", "show", 8, "user", 10, 10, 20, 28, "CALL"),
    Instruction("wind.py", "show", 8, "user", 11, 11, 25, 36, "CALL"),
]


def told_in_logs(*stack, lines=frozenset()):
    text = Sources(lambda file: LOGS if file == "wind.py" else "")
    rank = replace(RANK, loop=(("wind.py", "<module>", 1),), log_lines=lines)
    return tell(Sampled(stack=(*stack, FITS), flag="", steps={0: (0.01, 0.01)}), rank, text)


def test_a_log_of_a_library_is_told_at_its_line_with_what_is_computed_for_it_alone():
    told = told_in_logs(COPIES, LOG, NORMS)
    assert (told.cause, told.site) == (Cause.LOGGING, "wind.py:6")
    lines = log_lines([Sampled(stack=(COPIES, LOG, NORMS, FITS), flag="", steps={})])
    assert lines == {("wind.py", 6)}
    told = told_in_logs(NORM, lines=lines)
    assert (told.cause, told.site) == (Cause.LOGGING, "wind.py:6")
    read = replace(NORM, line=7, last_line=7, last_column=57)
    assert told_in_logs(read, lines={("wind.py", 7)}).cause is Cause.ITEM
    assert told_in_logs(NORM) is None  # A log of no library that is known, and nobody drops it.
    assert told_in_logs(MEETS, COPIES, LOG, NORMS) is None  # A sum over ranks: what judges collectives tells of it.


def test_a_level_is_what_makes_a_call_of_log_a_text_for_nobody():
    assert [told_in_logs(each) and told_in_logs(each).cause for each in SHOWS] == [
        Cause.DEBUG_STRING,
        Cause.DEBUG_STRING,
        Cause.ITEM,
    ]


LISTS = """def score(pairs, predictions, references):
    found = predictions.flatten().tolist()
    wanted = references.flatten().tolist()
    pairs.update(zip(found, wanted))
    for each in found:
        pairs[each] += 1
    model(found)
    return [number + 1 for number in wanted]
order = perm.tolist()
for start in range(9):
    rows = [each for each in order]
    loss(rows).backward()
"""


def list_work(line, last_column, column=4, function="score"):
    place = Instruction("score.py", function, 1, "user", line, line, column, last_column, "CALL")
    stack = (place,) if function == "<module>" else (place, FITS)
    rank = replace(RANK, loop=(("wind.py", "<module>", 1),) if len(stack) > 1 else (("score.py", "<module>", 1),))
    text = Sources(lambda file: LISTS if file == "score.py" else LOGS)
    return tell(Sampled(stack=stack, flag="", steps={0: (0.01, 0.01)}), rank, text)


def test_what_goes_through_the_numbers_of_a_list_is_the_cost_of_the_read_that_made_it():
    for line, column, last, read in ((4, 4, 36, 2), (6, 8, 24, 2), (8, 12, 22, 3)):
        told = list_work(line, last, column)
        assert (told.cause, told.site) == (Cause.TOLIST, f"score.py:{read}"), line


def test_a_model_that_is_given_a_list_and_a_list_that_was_made_once_are_none():
    assert list_work(7, 16) is None
    assert list_work(11, 35, 12, "<module>") is None
