"""Whether the loss may be computed from what a function of the program's gives a library that calls it."""

from dataclasses import replace

import pytest
from unit.lens.test_host_work import TORCH

from emberward.lens import Sources
from emberward.lens._samples import Instruction
from emberward.lens._trains import may_train

PROGRAM = """class Task(Module):
    def forward(self, x):
        h = self.lower(x)
        return {"logits": self.out(h), "frames": h.amax(1)}
    def training_step(self, batch):
        result = self(batch)
        loss = cross_entropy(result["logits"], batch)
        return {GIVEN}
trainer.fit(Task())
"""
LIBRARY = replace(TORCH, file="/x/site-packages/lightning/pytorch/loops/fit.py")
MODULE = replace(TORCH, file="/x/site-packages/torch/nn/modules/module.py")


def at(line, function, program):
    text = program.splitlines()[line - 1]
    value = text.strip().partition(" = ")[2] or text.strip()
    column = text.index(value)
    return Instruction("task.py", function, 1, "user", line, line, column, column + len(value), "CALL")


@pytest.mark.parametrize(
    ("given", "may"),
    [
        ("loss", True),
        ('{"loss": loss, "right": batch}', True),
        ("(loss, batch)", True),
        ("batch", False),
        ('{"loss": batch, "seen": result}', False),
        ("(batch, result) if self.whole else batch", False),
    ],
)
def test_what_a_library_takes_for_the_loss_may_train(given, may):
    program = PROGRAM.replace("{GIVEN}", given)
    sources = Sources(lambda file: program if file == "task.py" else "")
    stack = [at(3, "forward", program), MODULE, at(6, "training_step", program), LIBRARY, at(9, "<module>", program)]
    assert may_train(stack, sources) is may


STUDENT = """def answers(student, prompts):
    student.eval()
    said = student.generate(prompts)
    student.train()
    return said
def score(student, held):
    right = student(held).argmax(-1) == held
    self.best = right.mean()
    return right
for step in range(9):
    said = answers(student, prompts)
    right = score(student, held)
    student(held)
    loss = distance(student(said), teacher(said))
    loss.backward()
"""


@pytest.mark.parametrize(
    ("lines", "may"),
    [((3, 11), True), ((7, 12), False), ((8, 12), False), ((2, 11), False), ((13,), False)],
    ids=["what is trained on", "a score", "what is kept", "what switches modes", "what nobody reads"],
)
def test_what_an_evaluation_gives_the_loss_is_trained_on_for_sure(lines, may):
    sources = Sources(lambda file: STUDENT if file == "task.py" else "")
    assert may_train([at(line, "f", STUDENT) for line in lines], sources, is_sure=True) is may
