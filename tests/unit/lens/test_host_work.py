"""Python's work in the loop for batches, files and scores: what is told of stacks that are written down."""

from dataclasses import replace

import pytest
from unit.lens.test_logs_and_lists import RANK

from emberward.findings import Cause
from emberward.lens import Instruction, Sampled, Sources, tell

PROGRAM = """class Tiles:
    def mask(self, n):
        fields = json.load(open(n))
        for each in fields:
            pen.polygon(each)
        return make(picture)
    def batch(self, numbers):
        return stack([self.mask(n) for n in numbers])
class Coder(nn.Module):
    def codes(self, numbers):
        return [sorted(n) for n in numbers]
def main():
    tiles = Tiles()
    model = build()
    coder = Coder()
    for step in range(99):
        x = tiles.batch(step)
        codes = coder.codes(x)
        y = model(x, codes)
        loss = criterion(y)
        loss.backward()
        aucs.append(score(y))
        best = score(y)
        if best > 1:
            stop()
        queue.push(score(y))
        history.add(score(y))
        pick = weigh(queue)
        (loss * pick).backward()
        auc = score(y)
        print(auc)
        write(y)
        read(y)
def score(y):
    return roc(y) + [sorted(y)]
def write(y):
    with open(path, "w") as file:
        json.dump(y, file)
    text = json.dumps(y)
    path.write_text(text)
    with path.open("wb") as kept:
        pickle.dump(y, kept)
def read(y):
    with open(path) as file:
        json.load(file)
    return text
"""
JSON = Instruction("/x/lib/python3.11/json/decoder.py", "decode", 1, "platform", 9, 9, 4, 9, "CALL")
SKLEARN = replace(JSON, file="/x/site-packages/sklearn/metrics/_ranking.py")
OTHERS = replace(JSON, file="/x/site-packages/torchmetrics/functional/auroc.py")
TORCH = replace(JSON, file="/x/site-packages/torch/functional.py")


def at(line, text, function="main", operation="CALL"):
    """The part of a line."""
    column = PROGRAM.splitlines()[line - 1].index(text)
    return Instruction("train.py", function, 1, "user", line, line, column, column + len(text), operation)


MASK, BATCH = at(8, "self.mask(n)", "batch"), at(17, "tiles.batch(step)")
DRAWS = at(5, "pen.polygon(each)", "mask")
SCORES = at(35, "roc(y)", "score")


def told(*stack, by_turns=False, program=PROGRAM):
    rank = replace(RANK, loop=(("train.py", "main", 1),), by_turns=by_turns)
    sampled = Sampled(stack=stack, flag="", steps={0: (0.01, 0.01)})
    found = tell(sampled, rank, Sources(lambda file: program if file == "train.py" else ""))
    return None if found is None else (found.cause, int(found.site.rpartition(":")[2]))


@pytest.mark.parametrize(
    "stack",
    [
        (JSON, at(3, "json.load(open(n))", "mask"), MASK, BATCH),
        (at(3, "open(n)", "mask"), MASK, BATCH),
        (replace(JSON, file="/x/site-packages/PIL/ImageDraw.py"), DRAWS, MASK, BATCH),
        (at(4, "for each in fields", "mask", "JUMP_BACKWARD"), MASK, BATCH),
    ],
)
def test_what_a_class_without_a_model_does_for_the_loss_is_data_wait_at_the_line_of_the_loop(stack):
    assert told(*stack) == (Cause.DATA_WAIT, 17)


def test_what_a_module_s_method_or_torch_does_for_the_loss_is_the_model_s():
    assert told(at(11, "sorted(n)", "codes"), at(18, "coder.codes(x)")) is None
    assert told(TORCH, at(6, "make(picture)", "mask"), MASK, BATCH) is None


@pytest.mark.parametrize(
    ("line", "text", "cause"),
    [
        (38, "json.dump(y, file)", Cause.LOGGING),
        (39, "json.dumps(y)", Cause.LOGGING),
        (37, 'open(path, "w")', Cause.LOGGING),
        (42, "pickle.dump(y, kept)", Cause.SAVE_IN_STEP),
        (45, "json.load(file)", None),
    ],
)
def test_what_goes_into_a_file_is_a_log_and_bytes_are_a_save(line, text, cause):
    function, caller = ("write", at(32, "write(y)")) if line < 43 else ("read", at(33, "read(y)"))
    leaf = () if text.startswith("open") else (JSON,)
    found = told(*leaf, at(line, text, function), caller)
    assert (found if found is None or found[0] is not Cause.EVAL else None) == (cause and (cause, line))


AVERAGED = """class Average:
    @torch.no_grad()
    def update(self, model):
        for name, average in self.module.state_dict().items():
            average.lerp_(model.state_dict()[name], 0.1)
    @torch.no_grad()
    def score(self, model):
        return model(self.held_out)
def main(model):
    average.update(model)
    average.score(model)
"""


@pytest.mark.parametrize(
    ("method", "line", "text", "caller", "is_told"),
    [("state_dict", 5, "model.state_dict()", 10, False), ("_call_impl", 8, "model(self.held_out)", 11, True)],
)
def test_a_module_that_is_called_evaluates_and_one_whose_state_is_read_does_not(method, line, text, caller, is_told):
    def place(line, text, function):
        column = AVERAGED.splitlines()[line - 1].index(text)
        return Instruction("train.py", function, 1, "user", line, line, column, column + len(text), "CALL")

    inside = replace(JSON, file="/x/site-packages/torch/nn/modules/module.py", function=method)
    outer = place(caller, "average." + ("score" if is_told else "update") + "(model)", "main")
    found = told(inside, place(line, text, "update"), outer, program=AVERAGED)
    assert found == ((Cause.EVAL, caller) if is_told else None)


KEPT = """class Leak(Callback):
    def private(self):
        return sum(part.dirty for part in self.process.maps())
    def on_step_end(self, step):
        self.trace.append((step, self.private()))
    def grown(self):
        return self.trace[-1] - self.trace[0]
class Trains:
    def on_step_end(self, batch):
        self.losses.append(self.draw(batch))
    def draw(self, batch):
        return sorted(batch)
    def step(self, loss):
        loss.backward()
    def last(self):
        return self.losses[-1]
def main():
    trainer.train()
    print(f"{leak.grown()}")
    trains.last()
"""
LIBRARY = replace(JSON, file="/x/site-packages/psutil/__init__.py", function="maps")
CALLED = "    for step in range(9):\n        leak.grown()\n"


@pytest.mark.parametrize(
    ("lines", "more", "expected"),
    [
        ([(3, "self.process.maps()"), (5, "self.private()")], "", (Cause.LOGGING, 5)),
        ([(3, "self.process.maps()"), (5, "self.private()")], CALLED, None),
        ([(12, "sorted(batch)"), (10, "self.draw(batch)")], "", None),
    ],
    ids=["read behind the loop", "read in a loop", "kept by what trains"],
)
def test_a_history_that_is_read_behind_the_loop_is_a_log(lines, more, expected):
    program = KEPT + more
    places = [
        Instruction("train.py", "f", 1, "user", line, line, column, column + len(text), "CALL")
        for line, text in lines
        if (column := program.splitlines()[line - 1].index(text)) is not None
    ]
    trainer = replace(LIBRARY, file="/x/site-packages/transformers/trainer.py", function="train")
    main = Instruction("train.py", "main", 1, "user", 18, 18, 4, 19, "CALL")
    assert told(LIBRARY, *places, trainer, main, program=program) == expected


HISTOGRAMS = """class Watch:
    def look(self, step):
        for name, weights in self.model.named_parameters():
            counts, edges = np.histogram(weights.grad.numpy(), self.bins)
            self.rows.append((step, name, counts, edges))
def main():
    watch.look(step)
"""


@pytest.mark.parametrize(("more", "expected"), [("", (Cause.UNUSED_RESULT, 4)), ("    draw(watch.rows)\n", None)])
def test_what_is_added_to_a_list_that_nobody_reads_is_unused(more, expected):
    histogram = Instruction("train.py", "look", 1, "user", 4, 4, 28, 73, "CALL")
    numpy = replace(JSON, file="/x/site-packages/numpy/lib/_histograms_impl.py", function="histogram")
    look = Instruction("train.py", "main", 1, "user", 7, 7, 4, 20, "CALL")
    assert told(numpy, histogram, look, program=HISTOGRAMS + more) == expected


BY_HAND = """class Watch:
    {declared}
def main():
    for step in range(99):
        weight.grad = np.histogram(weight)
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("declared", "is_own"),
    [
        ("pass", False),
        ("grad: Tensor", True),
        ("grad = None", True),
        ("def __init__(self): self.grad = None", True),
        ("def __init__(self): self.grads = None", False),
    ],
)
def test_an_attribute_of_a_library_s_object_may_be_read_by_the_library(declared, is_own):
    program = BY_HAND.format(declared=declared)
    numpy = replace(JSON, file="/x/site-packages/numpy/lib/histograms.py")
    gradient = Instruction("train.py", "main", 1, "user", 5, 5, 22, 42, "CALL")
    assert (told(numpy, gradient, program=program) == (Cause.UNUSED_RESULT, 5)) is is_own


RECORDS = """class Watch:
    def __init__(self, path):
        self.file = open(path, "w")
    def step(self, number):
        record = {"step": number}
        for name, values in self.all():
            record["weights/" + name] = describe(values)
            record.update(describe(values))
            seen[name] = describe(values)
        self.file.write(json.dumps(record))
        return seen
"""


@pytest.mark.parametrize(("line", "is_told"), [(7, True), (8, True), (9, False)])
def test_what_is_put_into_a_record_that_is_only_written_is_written(line, is_told):
    column = RECORDS.splitlines()[line - 1].index("describe")
    place = Instruction("train.py", "step", 1, "user", line, line, column, column + len("describe(values)"), "CALL")
    found = told(replace(JSON, file="/x/site-packages/numpy/lib/histograms.py"), place, program=RECORDS)
    assert found == ((Cause.LOGGING, line) if is_told else None)


@pytest.mark.parametrize("library", [(SKLEARN,), (OTHERS,), (TORCH, OTHERS)])
@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        (22, True),  # The list is read nowhere in the loop.
        (23, False),  # A branch asks for it.
        (26, False),  # The loss is computed from the queue.
        (27, True),  # Nobody asks the history for anything.
        (30, True),  # Shown alone.
    ],
)
def test_what_is_made_of_the_model_s_values_and_not_used_in_the_step_is_eval(line, is_told, library):
    assert told(*library, SCORES, at(line, "score(y)")) == ((Cause.EVAL, line) if is_told else None)


PAIRED = """def main():
    model, scores = build(), Scores()
    for step in range(99):
        y = model(step)
        loss = criterion(y)
        loss.backward()
        scores.add(y)
        if step % 20 == 19:
            print(scores.mean())
"""
CONDITION = "        if step % 20 == 19:\n    "
HANDED_ON = """def endless(loader):
    while True:
        yield from loader
def main():
    def numbers(): yield from range(9)
    batches = endless(DataLoader(data))
    for step in range(99):
        loss = model(next(batches))
        loss.backward()
"""
LOADER = Instruction("/x/site-packages/torch/utils/data/dataloader.py", "__next__", 1, "platform", 9, 9, 4, 9, "CALL")


def test_names_that_are_bound_in_pairs_are_two():
    asks = Instruction("train.py", "main", 1, "user", 7, 7, 8, len("        scores.add(y)"), "CALL")
    assert told(SKLEARN, asks, program=PAIRED) == (Cause.EVAL, 7)


def test_what_a_generator_hands_on_is_waited_for_where_it_is_asked_for():
    hands_on = Instruction("train.py", "endless", 1, "user", 3, 3, 8, len("        yield from loader"), "SEND")
    asks = Instruction("train.py", "main", 4, "user", 8, 8, 21, 21 + len("next(batches)"), "CALL")
    assert told(LOADER, hands_on, asks, program=HANDED_ON) == (Cause.DATA_WAIT, 8)
    assert told(LOADER, asks, replace(asks, function="<module>", line=4, last_line=4), program=HANDED_ON) == (
        Cause.DATA_WAIT,
        8,
    )
    assert told(LOADER, hands_on, program=HANDED_ON) == (Cause.DATA_WAIT, 3)


def test_operations_of_torch_outside_of_a_library_of_scores_and_the_work_of_an_evaluation_are_no_score():
    assert told(TORCH, SCORES, at(22, "score(y)")) is None
    assert told(TORCH, replace(OTHERS, file="/x/site-packages/timm/loss.py"), SCORES, at(22, "score(y)")) is None
    assert told(SKLEARN, SCORES, at(22, "score(y)"), by_turns=True) is None


@pytest.mark.parametrize(
    ("program", "is_told"),
    [
        (PAIRED, True),
        (PAIRED.replace(CONDITION, ""), False),  # Shown in each step.
        (PAIRED + "    keep(scores)\n", False),  # Read after the loop too.
        (PAIRED.replace("scores.add(y)", "clip_(y, x)"), False),  # It changes what it is given.
    ],
)
def test_operations_of_torch_on_the_model_s_values_are_a_score_where_a_condition_alone_shows_them(program, is_told):
    asks = Instruction("train.py", "main", 1, "user", 7, 7, 8, len("        scores.add(y)"), "CALL")
    assert told(TORCH, asks, program=program) == ((Cause.EVAL, 7) if is_told else None)


C10D = replace(TORCH, file="/x/site-packages/torch/distributed/distributed_c10d.py", function="all_gather")
GATHERED = """import torch.distributed as dist
def main(model, stage):
    hits = total = 0
    for ids in batches:
        logits = model(ids)
        loss = criterion(logits)
        loss.backward()
        every = gather(logits)
        hits += (every.argmax(-1) == ids).sum()
        total += every.numel()
        meter.add(logits)
        grad = torch.empty_like(logits)
        dist.recv(grad, src=1)
        logits.backward(grad)
        exchange(logits)
        extra = averaged(model, logits)
        share.keep(logits)
    print(meter.sum)
    return hits / total
def exchange(logits):
    dist.all_reduce(logits)
def averaged(model, logits):
    flat = torch.cat([each.grad.flatten() for each in model.parameters()] + [logits.flatten()])
    dist.all_reduce(flat)
    for each in model.parameters():
        each.grad = flat[: each.numel()]
    return flat[-1]
class Share:
    def keep(self, logits):
        logits = self.accelerator.gather(logits)
        self.sum += logits.sum()
class Meter:
    def add(self, logits):
        counts = torch.stack([logits.sum(), logits.max()])
        dist.all_reduce(counts)
        self.sum += counts[0].item()
"""


def here(line, function="main"):
    text = GATHERED.splitlines()[line - 1].strip()
    begin = GATHERED.splitlines()[line - 1].index(text)
    called = text.partition(" = ")[2] or text
    column = begin + text.index(called)
    return Instruction("train.py", function, 1, "user", line, line, column, column + len(called), "CALL")


@pytest.mark.parametrize(
    ("stack", "is_told"),
    [
        ([here(8)], True),  # Only counted.
        ([here(35, "add"), here(11)], True),  # In an object that the training never asks for anything.
        ([here(30, "keep"), here(17)], True),
        ([here(13)], False),  # A backward is given it.
        ([here(21, "exchange"), here(15)], False),  # Written into what the caller has.
        ([here(24, "averaged"), here(16)], False),  # With what the model is trained by.
    ],
    ids=["gathered", "in a helper", "of a library", "received", "written into", "more"],
)
def test_what_ranks_exchange_for_a_score_is_one(stack, is_told):
    assert told(C10D, *stack, program=GATHERED) == ((Cause.EVAL, stack[-1].line) if is_told else None)
