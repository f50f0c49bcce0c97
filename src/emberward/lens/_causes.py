"""Why the training thread stands still, from one stack of it. Pure.

[Note: how a stall is told]
Only what lies inside the loop counts: the functions that every step ends in are taken off the stack first. Of what is
left,

* work inside the arguments of a debug call that never printed anything is `debug_string`;
* an evaluation, by the recorder's mark or as a forward without gradients, is `eval`, whatever it does, where the loss
  has no part in it;
* the outermost function of a known kind decides next: a save that writes a file is `save_in_step`, no file read, and
  so is what its function does to files besides; `debug_mode` has the line that switches it on ([Note: debug modes]);
* what a loop does that reads a tensor number by number is that read ([Note: number by number]);
* so does Python's own ``print`` where it calls the program back, a terminal of its own;
* else the call in which the thread sits decides by its name. Where a program has a function of its own by such a name
  (a tensor class, a stand-in for a device), the line that calls the outermost one counts, and what it does inside does
  not, a wait for another thread neither. A sleep in a function that does nothing besides but write, read or talk to a
  service is that;
* a wait whose value goes into the loss ([Note: what feeds the training]) is `data_wait`: for the next turn of a loop
  over batches, for another thread, a file, the network. Not below a module, whose waits stand for its own work; those
  of an `autograd.Function` of the program's are that operation's time and no stall.
  Another thread that is waited for, and no lock of which, may write a save or a log: then it is that.

Of what these rules do not know, a statement that only reads and whose value nobody reads is `unused_result`, a mask of
the same tensor for each value of a loop `nonzero`, a test of a tensor's numbers `bool` ([Note: searches]), and Python's
numbers that are made a tensor `host_copy`. What else is done for the next turn of a loop over batches is `data_wait`,
as what a DataLoader does is. The rest is the step's own work, and is blamed for nothing but [Note: Python's work].
Calls that share their name with harmless ones count only while the thread waits: of their time at most half was spent
on a processor.
"""

import ast
import re
from dataclasses import dataclass, replace
from itertools import pairwise

from emberward.findings import Cause
from emberward.lens._batches import batch_at
from emberward.lens._debug_modes import MODES, mode_of, switched_on_at
from emberward.lens._elements import read_one_by_one
from emberward.lens._host_work import host_work
from emberward.lens._lists import listed_at
from emberward.lens._logs import dropped_call, given_to_a_log, is_library_log
from emberward.lens._samples import OURS, USER, Instruction, RankSamples, Sampled, is_module_call
from emberward.lens._searches import decides, searched_again_at
from emberward.lens._services import OF_SERVICES, save_beside, service_of
from emberward.lens._source import Sources
from emberward.lens._trains import LIBRARY, may_train
from emberward.lens._unused import kept_in, unused_at

MAX_BUSY = 0.5
"""Share of processor time up to which a thread counts as waiting."""

_OF_LOADERS = frozenset({"__next__", "__iter__", "_shutdown_workers"})
"""Of a DataLoader: the next batch, and the workers that an epoch starts and ends."""
_OF_BARS = frozenset({"update", "refresh", "display", "set_postfix", "set_description", "write", "close"})
"""Of a progress bar: what it shows. What it goes over is no part of it."""
_LIBRARY_SAVES = frozenset({"save_checkpoint", "_save_checkpoint", "save_pretrained", "save_model", "save_state"})
"""Functions by which libraries of training save: what they gather, move and remove besides is the save's."""
_PLATFORM_FUNCTIONS: tuple[tuple[str, frozenset[str] | None, Cause | None], ...] = (
    (r"torch/utils/data/dataloader\.py$", _OF_LOADERS, Cause.DATA_WAIT),
    (r"torch/serialization\.py$", frozenset({"save"}), Cause.SAVE_IN_STEP),
    (r"torch/distributed/checkpoint/state_dict_saver\.py$", None, Cause.SAVE_IN_STEP),
    (r"/copy\.py$", frozenset({"deepcopy"}), Cause.HOST_COPY),
    (r"/numpy/lib/\w+\.py$", frozenset({"save", "savez", "savez_compressed", "savetxt"}), Cause.SAVE_IN_STEP),
    (r"safetensors/", frozenset({"save_file", "save_model"}), Cause.SAVE_IN_STEP),
    (r"-packages/(?!torch/)", _LIBRARY_SAVES, Cause.SAVE_IN_STEP),
    (r"torch/_dynamo/(convert_frame|output_graph)\.py$", None, Cause.RECOMPILE),
    *((pattern, functions, Cause.DEBUG_MODE) for pattern, functions, _ in MODES),
    (r"torch/(distributed/(?!checkpoint)|nn/parallel/distributed)", None, None),
    (r"/logging/(__init__|handlers)\.py$", None, Cause.LOGGING),
    (r"/tqdm/", _OF_BARS, Cause.LOGGING),
    (r"torch/_tensor_str\.py$", None, Cause.PRINT),
    (r"torch/_tensor\.py$", frozenset({"__repr__"}), Cause.PRINT),
    (r"torch/_tensor\.py$", frozenset({"__format__"}), Cause.ITEM),
    (r"torch/cuda/(__init__|streams)\.py$", frozenset({"synchronize"}), Cause.SYNCHRONIZE),
    (r"torch/accelerator/__init__\.py$", frozenset({"synchronize"}), Cause.SYNCHRONIZE),
    (r"<frozen importlib\._bootstrap", None, Cause.IMPORT),
    (r"/importlib/__init__\.py$", None, Cause.IMPORT),
    (r"/subprocess\.py$", None, Cause.SUBPROCESS),
    (r"/threading\.py$", frozenset({"start"}), None),
    (r"/(socket|ssl)\.py$|/(http|urllib)/", None, Cause.NETWORK_IO),
    (
        r"/(threading|queue)\.py$|/concurrent/futures/|/multiprocessing/|/(filelock|portalocker|fasteners)/",
        None,
        Cause.LOCK,
    ),
)
"""Files and functions of Python and torch, outermost first in a stack, and what they mean. None: another judge's, but
for what they call of the program (the module inside DDP, a hook)."""

_OF_TENSORS = {
    "item": Cause.ITEM,
    "__float__": Cause.ITEM,
    "__int__": Cause.ITEM,
    "__index__": Cause.ITEM,
    "__format__": Cause.ITEM,
    "float": Cause.ITEM,
    "int": Cause.ITEM,
    "tolist": Cause.TOLIST,
    "cpu": Cause.CPU,
    "numpy": Cause.CPU,
    "nonzero": Cause.NONZERO,
    "unique": Cause.NONZERO,
    "masked_select": Cause.NONZERO,
    "__bool__": Cause.BOOL,
    "bool": Cause.BOOL,
    "is_nonzero": Cause.BOOL,
    "synchronize": Cause.SYNCHRONIZE,
    "print": Cause.PRINT,
    "__repr__": Cause.PRINT,
    "__str__": Cause.PRINT,
    "to": Cause.HOST_COPY,
    "cuda": Cause.HOST_COPY,
    "copy_": Cause.HOST_COPY,
}
"""Calls with which the host reads from a device or waits for it, by name."""
_MAKES_TENSORS = frozenset({"tensor", "as_tensor", "FloatTensor", "LongTensor", "IntTensor", "array", "asarray"})
"""Calls that copy Python's numbers, one by one, or an array into a tensor; of what is a tensor they cost nothing."""
ALWAYS = frozenset({"item", "tolist", "synchronize", "print"})
"""Of these, calls that are no work of the model's, whatever the processor does meanwhile."""

_OF_HOSTS = {
    "sleep": Cause.SLEEP,
    "acquire": Cause.LOCK,
    "flock": Cause.LOCK,
    "lockf": Cause.LOCK,
    "collect": Cause.GC,
    **OF_SERVICES,
    "system": Cause.SUBPROCESS,
    "import_module": Cause.IMPORT,
    "reload": Cause.IMPORT,
    "deepcopy": Cause.HOST_COPY,
    "clone": Cause.HOST_COPY,
}
"""Other calls in which a host stands still, by name."""
_WHATEVER_THE_PROCESSOR_DOES = frozenset({"sleep", "collect", "import_module", "reload", "deepcopy", "clone"})

_CALLS_BACK = {"print": Cause.PRINT, "dump": Cause.SAVE_IN_STEP}
"""Functions of Python's own, in C, that call what the program gives them, a terminal's or a file's ``write``: what that
does is theirs, and the line that calls the outermost of them counts."""
_JUMPS = ("POP_JUMP", "JUMP_IF", "UNARY_NOT")
_LOCKED = ("BEFORE_WITH",)
_HOLDS = frozenset({"acquire", "flock", "lockf"})
"""Calls that wait until a lock is free, of threads or of a file (fcntl(3))."""
_IMPORTS = ("IMPORT_NAME", "IMPORT_FROM")
_PLACES = frozenset({"device", "gpu", "cuda", "accelerator", "host", "cpu"})
_WAITS = frozenset({Cause.LOCK, Cause.SLEEP, Cause.FILE_READ, Cause.NETWORK_IO, Cause.SUBPROCESS})
"""Causes that say how a thread waits, and not what for."""
_OF_SOURCES = frozenset({Cause.DATA_WAIT, Cause.FILE_READ})
"""What is made or read for the step: where it is as it was before, to keep it is better than to have it sooner."""
_BESIDE = frozenset({Cause.SAVE_IN_STEP, Cause.LOGGING, Cause.HOST_COPY})
"""What another thread does that is named where the training thread waits for it."""
_OF_MODULES = re.compile(r"torch/(nn/modules/module|_tensor|autograd/\w+)\.py$")
_OPERATIONS = re.compile(r"torch/autograd/function\.py$")
_COLLECTIVES = ("/sources/_issue.py", "/sources/_wrap.py")
"""Where the recorder stands around calls."""
_SAMPLER = "/sources/_sampler.py"
"""What the lens itself takes is no stall of the program."""
DEVICE_WAITS = frozenset(
    {
        Cause.ITEM, Cause.TOLIST, Cause.CPU, Cause.NONZERO, Cause.BOOL, Cause.PRINT, Cause.SYNCHRONIZE, Cause.HOST_COPY,
        Cause.PAGEABLE_COPY,
    }
)  # fmt: skip
"""Causes where the host waits for its device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a stack means: the cause, and the program's line that can be changed."""

    cause: Cause
    site: str
    inner: str | None = None
    """The program's innermost line, where that is another one."""
    beside: str | None = None
    """Where another thread is waited for: the function in which that one is."""
    is_host: bool = False
    """Something of the host's own (a terminal, work), though the cause is one of `DEVICE_WAITS`."""


def tell(sampled: Sampled, rank: RankSamples, sources: Sources) -> Told | None:
    """What the stack's time was lost to; None when it is the step's own work. See [Note: how a stall is told]."""
    if any(place.owner == OURS and place.file.endswith(_SAMPLER) for place in sampled.stack):
        return None
    stack = tuple(place for place in sampled.stack if place.owner != OURS)
    loop, inside = frames_in_loop(stack, rank)
    if not stack or (loop is None and not inside):
        return None
    outside = [] if loop is None else [loop]
    frames = [*inside, *outside]
    """Innermost first; the last is where the loop stands."""
    users = [place for place in frames if place.owner == USER]
    if sampled.flag == "gc":
        within = tell(replace(sampled, flag=""), rank, sources)
        return Told(cause=Cause.GC, site=users[0].site if within is None else within.site) if users else None
    for place in users:
        if dropped_call(place, sources, rank.outputs) is not None:
            return Told(cause=Cause.DEBUG_STRING, site=place.site)
    # Of a program that computes no gradients, evaluating is the step's own work.
    evaluation = None if rank.by_turns else _evaluation(frames, users, sources, is_told=sampled.flag == "eval")
    if (outermost := evaluation or _calling_back(frames, sources)) is not None:
        return outermost
    wall = sum(wall for wall, _ in sampled.steps.values())
    cpu = sum(cpu for _, cpu in sampled.steps.values())
    is_waiting = not rank.has_cpu_time or cpu <= MAX_BUSY * wall
    judged = _judged(frames)
    if judged is not None and judged[1] is Cause.LOGGING and is_collective(sampled):
        return None  # A value that all ranks agree on before it is kept: what judges collectives tells of it.
    if judged is not None:
        told = _by_function(frames, *judged, sources)
        if told is not None and told.cause is Cause.DEBUG_MODE:
            switches = mode_of(frames)
            at = switched_on_at(users, rank, sources, switches) or users[-1].site if switches else None
            return told if at is None else replace(told, site=at, inner=told.site)
    elif (saved := save_beside(frames[0], sources)) is not None:
        return Told(cause=Cause.SAVE_IN_STEP, site=saved, inner=frames[0].site)
    elif (read := read_one_by_one(users, rank, sources)) is not None:
        return Told(cause=read[0], site=read[1], is_host=rank.device == "cpu")
    else:
        told = _pageable(frames, rank, sources) or _by_call(frames, sources, is_waiting=is_waiting)
    if told is None or told.cause in _WAITS:
        stand_in = _stand_in(frames, sources, is_waiting=is_waiting)
        if stand_in is not None and not (told is None and judged is not None):
            return stand_in
    if told is not None and told.cause is Cause.SLEEP:
        told = _for_a_service(told, users, sources)
    if told is None:
        told = _by_text(frames, users, rank, sources)
    if told is None or told.cause in _OF_SOURCES:
        return _made_again(frames, rank) or told
    if told.cause is Cause.LOCK and not is_waiting:
        return None
    if told.cause in _WAITS and is_waiting:
        return None if _is_in_operation(frames) else _awaited(told, frames, sampled, sources)
    return told


def is_collective(sampled: Sampled) -> bool:
    """Whether the thread stands in a call of a group's."""
    return any(place.owner == OURS and place.file.endswith(_COLLECTIVES) for place in sampled.stack)


def _is_in_operation(frames: list[Instruction]) -> bool:
    """Whether an `autograd.Function` of the program's waits: it is an operation, whose wait is its work."""
    return any(inner.owner == USER and _OPERATIONS.search(outer.file) for inner, outer in pairwise(frames))


def _calling_back(frames: list[Instruction], sources: Sources) -> Told | None:
    """By the outermost of Python's own functions that call the program back; None without one."""
    for inner, outer in reversed([*pairwise(frames)]):
        if inner.owner == outer.owner == USER and (cause := _CALLS_BACK.get(sources.called(outer))) is not None:
            return Told(cause=cause, site=outer.site, inner=inner.site, is_host=inner.function in _OF_HOSTS)
    return None


def _evaluation(frames: list[Instruction], users: list[Instruction], sources: Sources, *, is_told: bool) -> Told | None:
    """An evaluation, at the line that calls the function which evaluates; None where it is none.

    Where nobody tells of it (`Module.eval`), it is a module's forward without gradients that the loss has no part in,
    with what stands around it in a block without gradients that only calls modules and writes into nothing.
    """
    if is_told and may_train(frames, sources, is_sure=True):
        return None  # What a student says, or an agent plays, and is trained on.
    own = users[:-1] if len(users) > 1 else users
    index = next((i for i in range(len(own) - 1, -1, -1) if sources.evaluates(own[i])), None)
    if not is_told:
        index = max((i for i, place in enumerate(users) if sources.is_without_gradients(place)), default=None)
        if index is None or may_train(frames[frames.index(users[index]) :], sources):
            return None
        if not any(map(is_module_call, frames)) and not sources.only_scores(users[index]):
            return None
    if not users:
        return None
    at = users[-1] if index is None else users[min(index + 1, len(users) - 1)]
    if index is not None and at != users[index]:
        between = frames[frames.index(users[index]) : frames.index(at)]
        # A function that a library calls, as a loss or a callback, is called at no line of the program's.
        at = users[index] if any(LIBRARY.search(place.file) for place in between) else at
    return Told(cause=Cause.EVAL, site=at.site, inner=None if users[0] == at else users[0].site)


def _for_a_service(told: Told, users: list[Instruction], sources: Sources) -> Told:
    """A sleep, or what the function that sleeps does besides, where that is nothing but to write, read or talk."""
    service = service_of(users, sources)
    if service is None:
        return told
    cause, place = service
    return Told(cause=cause, site=place.site, inner=told.site if told.site != place.site else None)


def _awaited(told: Told, frames: list[Instruction], sampled: Sampled, sources: Sources) -> Told:
    """What a wait for another thread, a file or the network is for."""
    users = [place for place in frames if place.owner == USER]
    is_held = users[0].operation.startswith(_LOCKED) or sources.called(users[0]) in _HOLDS
    if is_held or any(_OF_MODULES.search(place.file) for place in frames):
        return told
    fed = sources.fed_at(users)
    if fed is not None:
        inner = users[0].site if users[0].site != fed.site else None
        return Told(cause=Cause.DATA_WAIT, site=fed.site, inner=inner, beside=_tasks(sampled, sources))
    others = [_known(place)[1] for each in sampled.beside for place in each]
    done = next((cause for cause in others if cause in _BESIDE), None)
    if told.cause is Cause.LOCK and done is not None:
        return Told(cause=done, site=told.site, inner=told.inner)
    return Told(cause=told.cause, site=told.site, inner=told.inner, beside=_tasks(sampled, sources))


def _tasks(sampled: Sampled, sources: Sources) -> str | None:
    """What the one other thread does, by its function; None where several are at work, or none."""
    if len(sampled.beside) != 1:
        return None
    users = [place for place in reversed(sampled.beside[0]) if place.owner == USER]
    if not users:
        return None
    is_loop = len(users) > 1 and sources.loops(users[0])
    task = users[1] if is_loop else users[0]
    return f"{task.file}:{task.function}"


def frames_in_loop(stack: tuple[Instruction, ...], rank: RankSamples) -> tuple[Instruction | None, list[Instruction]]:
    """The frame of the loop in which the stack stands, and the frames inside it, innermost first."""
    outer = list(reversed(stack))
    size = 0
    for place, known in zip(outer, rank.loop, strict=False):
        if (place.file, place.function, place.first_line) != known:
            break
        size += 1
    return (outer[size - 1] if size else None), list(reversed(outer[size:]))


def _known(place: Instruction) -> tuple[bool, Cause | None]:
    if place.owner == USER:
        return False, None
    if is_library_log(place):
        return True, Cause.LOGGING
    for pattern, functions, cause in _PLATFORM_FUNCTIONS:
        if re.search(pattern, place.file) and (functions is None or place.function in functions):
            return True, cause
    return False, None


def _judged(frames: list[Instruction]) -> tuple[int, Cause | None] | None:
    """The outermost function of a known kind: its index and what it means; None where there is none."""
    for index in range(len(frames) - 1, -1, -1):
        is_known, cause = _known(frames[index])
        if is_known and (cause is not None or all(place.owner != USER for place in frames[:index])):
            return index, cause
    return None


def _by_function(frames: list[Instruction], index: int, cause: Cause | None, sources: Sources) -> Told | None:
    """By a function of a known kind, at the program's line that called it; a generator calls it for its own caller."""
    users = [place for place in frames[index + 1 :] if place.owner == USER]
    site = next((place.site for place in users if not sources.is_in_generator(place)), users[0].site if users else None)
    inner = next((place.site for place in frames[:index] if place.owner == USER), None)
    return None if cause is None or site is None else Told(cause=cause, site=site, inner=inner)


def _pageable(frames: list[Instruction], rank: RankSamples, sources: Sources) -> Told | None:
    """A copy to a device at a line that was seen to copy from memory which is not pinned; the host does that itself."""
    site = next((place.site for place in frames if place.owner == USER), None)
    if site not in rank.pageable or _OF_TENSORS.get(sources.called(frames[0])) is not Cause.HOST_COPY:
        return None
    return Told(cause=Cause.PAGEABLE_COPY, site=site)


def _by_call(frames: list[Instruction], sources: Sources, *, is_waiting: bool) -> Told | None:
    """By the name of the call in which the thread sits, or of a function of the program that stands in for one."""
    leaf = frames[0]
    site = next((place.site for place in frames if place.owner == USER), None)
    if site is None:
        return None
    called = _kept_at(leaf, sources) or sources.called(leaf)
    if called in _OF_TENSORS and (called in ALWAYS or is_waiting):
        return Told(cause=_OF_TENSORS[called], site=site)
    if is_waiting and leaf.operation.startswith(_JUMPS):
        return Told(cause=Cause.BOOL, site=site)
    if is_waiting and leaf.operation.startswith(_LOCKED):
        return Told(cause=Cause.LOCK, site=site)
    if leaf.operation.startswith(_IMPORTS):
        return Told(cause=Cause.IMPORT, site=site)
    if called == "clone" and (leaf.owner != USER or any(_OF_MODULES.search(place.file) for place in frames)):
        return None  # What a model or an optimizer copies is its work.
    if called in _OF_HOSTS and (is_waiting or called in _WHATEVER_THE_PROCESSOR_DOES):
        return Told(cause=_OF_HOSTS[called], site=site)
    return None


def _kept_at(leaf: Instruction, sources: Sources) -> str:
    """The read whose value the instruction adds to a list, and frees an older one for: that is the read's as well."""
    source = sources.of(leaf.file)
    node = source.node_at(leaf)
    kept = kept_in(node) if isinstance(node, ast.expr) else None
    read = source.named(kept[1]) if kept is not None and isinstance(kept[1], ast.Call) else ""
    return read if read in ALWAYS else ""


def _by_text(frames: list[Instruction], users: list[Instruction], rank: RankSamples, sources: Sources) -> Told | None:
    """Work that the text shows to be dropped, or done again for each of many values, or number by number."""
    if not users:
        return None
    if (given := given_to_a_log(users, sources, rank.log_lines)) is not None:
        return Told(cause=Cause.LOGGING, site=given.site, inner=None if given == users[0] else users[0].site)
    unused = unused_at(users, sources, rank.outputs)
    if unused is not None:
        inner = None if users[0] == unused else users[0].site
        return Told(cause=Cause.UNUSED_RESULT, site=unused.site, inner=inner)
    leaf = frames[0]
    if (line := listed_at(users[0], sources)) is not None and not any(_OF_MODULES.search(each.file) for each in frames):
        return Told(cause=Cause.TOLIST, site=replace(users[0], line=line).site, inner=users[0].site, is_host=True)
    if (searched := searched_again_at(leaf, sources)) is not None:
        inner = None if users[0].site == searched else users[0].site
        return Told(cause=Cause.NONZERO, site=searched, inner=inner, is_host=rank.device == "cpu")
    if decides(users, sources):
        cause = Cause.BOOL
    elif sources.called(leaf) in _MAKES_TENSORS:
        cause = Cause.HOST_COPY
    else:
        return _next_turn(frames, users, rank, sources) or _not_needed(frames, rank, sources)
    return Told(cause=cause, site=users[0].site, is_host=rank.device == "cpu")


def _not_needed(frames: list[Instruction], rank: RankSamples, sources: Sources) -> Told | None:
    """Python's work for files and scores ([Note: host work]); what an evaluation scores is its own work."""
    found = host_work(frames, sources, rank.shares)
    if found is None or (rank.by_turns and found[0] is Cause.EVAL):
        return None
    inner = next(place.site for place in frames if place.owner == USER)
    return Told(cause=found[0], site=found[1].site, inner=None if inner == found[1].site else inner)


def _made_again(frames: list[Instruction], rank: RankSamples) -> Told | None:
    """By the outermost line that a function gives what it had given before ([Note: returned again])."""
    for inner, outer in reversed([*pairwise(frames)]):
        if (outer.file, outer.line, inner.function) in rank.returned:
            first = next(place.site for place in frames if place.owner == USER)
            return Told(cause=Cause.REDUNDANT_WORK, site=outer.site, inner=None if first == outer.site else first)
    return None


def _next_turn(frames: list[Instruction], users: list[Instruction], rank: RankSamples, sources: Sources) -> Told | None:
    """Work for the next turn of a loop over what the loss is computed from, a generator's: as in a DataLoader."""
    if any(_OF_MODULES.search(place.file) for place in frames):
        return None
    for index in range(len(users) - 1, -1, -1):
        place = users[index]
        is_next = place.operation == "FOR_ITER" or sources.called(place) == "next"
        if is_next and place != frames[0] and (fed := sources.fed_at(users[index:])) is not None:
            inner = users[0].site if users[0].site != fed.site else None
            return Told(cause=Cause.DATA_WAIT, site=fed.site, inner=inner)
    if (made := batch_at(frames, sources, rank.shares)) is not None:
        return Told(cause=Cause.DATA_WAIT, site=made.site, inner=None if users[0] == made else users[0].site)
    return None


def _stand_in(frames: list[Instruction], sources: Sources, *, is_waiting: bool) -> Told | None:
    """A tensor's method, or a device's, that is Python code: the line that calls it, however deep it waits."""
    for inner, outer in reversed([*pairwise(frames)]):
        name = inner.function
        called = sources.called(outer) if name.startswith("__torch_") else name
        if name.startswith("__torch_") and outer.operation.startswith(_JUMPS):
            called = "__bool__"
        cause = _OF_TENSORS.get(called) or _by_words(called)
        if cause is not None and inner.owner == USER and (called in ALWAYS or is_waiting):
            index = frames.index(outer)
            site = next((place.site for place in frames[index:] if place.owner == USER), None)
            return None if site is None else Told(cause=cause, site=site)
    return None


def _by_words(name: str) -> Cause | None:
    """What a function of the program is called after: a copy to or from a device, or a wait for all of it."""
    words = name.strip("_").lower().split("_")
    if {"h2d", "d2h", "upload"} & {*words} or ({"to", "copy", "put"} & {*words} and _PLACES & {*words}):
        return Cause.HOST_COPY
    return Cause.SYNCHRONIZE if words[0] in ("sync", "synchronize") else None
