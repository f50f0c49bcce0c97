"""What the state of a main thread means: the cause that it stands for, its words, and what to do next."""

from collections.abc import Mapping

from emberward.events import HostState
from emberward.findings import Cause

_CAUSES: Mapping[HostState, Cause] = {
    HostState.DATALOADER: Cause.DATALOADER_WORKER,
    HostState.LOCK: Cause.LOCK,
    HostState.SLEEP: Cause.SLEEP,
    HostState.FILE_READ: Cause.FILE_READ,
    HostState.CHECKPOINT_IO: Cause.CHECKPOINT_IO,
    HostState.STORE_WAIT: Cause.STORE_WAIT,
    HostState.GC: Cause.GC,
    HostState.COMPILE: Cause.COMPILE,
    HostState.SUBPROCESS: Cause.SUBPROCESS,
    HostState.NETWORK: Cause.NETWORK_IO,
    HostState.CPU_LOOP: Cause.CPU_LOOP,
    HostState.EXIT: Cause.MAIN_EXITED,
    HostState.INTERPRETER: Cause.LOCK,
    HostState.STOPPED: Cause.STOPPED,
}
_WORDS: Mapping[HostState, str] = {
    HostState.COLLECTIVE: "waits in a collective",
    HostState.P2P: "waits in a send or receive",
    HostState.BACKWARD: "is in backward, whose collectives run below Python",
    HostState.DEVICE_SYNC: "waits for its device",
    HostState.DATALOADER: "waits for its data loader",
    HostState.LOCK: "waits for a lock, an event or a thread",
    HostState.SLEEP: "sleeps",
    HostState.FILE_READ: "reads a file",
    HostState.CHECKPOINT_IO: "writes a checkpoint",
    HostState.STORE_WAIT: "waits for the rendezvous store",
    HostState.GC: "runs the garbage collector",
    HostState.COMPILE: "compiles",
    HostState.SUBPROCESS: "waits for another process",
    HostState.NETWORK: "waits on a network connection",
    HostState.CPU_LOOP: "runs code of its own",
    HostState.EXIT: "has left its program and shuts down",
    HostState.INTERPRETER: "is in a native call that keeps the interpreter's lock",
    HostState.STOPPED: "is stopped by a signal",
    HostState.UNKNOWN: "is idle in a call below Python",
    HostState.LAUNCHER: "is the launcher",
    HostState.WORKER: "is a worker at work",
    HostState.WORKER_IDLE: "is an idle worker",
}
_NEXT: Mapping[HostState, str] = {
    HostState.DATALOADER: "look at the data workers of {who}: what do they read; num_workers=0 avoids a forked lock",
    HostState.LOCK: "find who holds the lock on {who}: py-spy dump --native of the process and its children",
    HostState.INTERPRETER: "py-spy dump --native of {who} names the call; it must release the GIL while it waits",
    HostState.FILE_READ: "look at the file system under {who}",
    HostState.NETWORK: "look at the other end of the connection of {who}, and give the call a time-out",
    HostState.CHECKPOINT_IO: "look at the disk under {who}; is a save called on every rank that must take part",
    HostState.STOPPED: "continue {who} (kill -CONT), or end the job and start it again",
    HostState.STORE_WAIT: "see which key {who} waits for and who should set it",
    HostState.COMPILE: "wait for the compiler on {who}, or find why it compiles on these ranks alone",
}


def cause_of_state(state: HostState) -> Cause:
    """The word for a state as a cause; UNKNOWN for states that only wait."""
    return _CAUSES.get(state, Cause.UNKNOWN)


def words_of_state(state: HostState) -> str:
    """What a process in that state does, as the end of a sentence that begins with it."""
    return _WORDS[state]


def next_of_state(state: HostState | None, who: str) -> str:
    """What a person can do now about `who`, ranks or processes; None when no stack tells what they do."""
    if state is None:
        return f"py-spy dump --subprocesses --pid PID on {who}, then explain both together"
    return _NEXT.get(state, "take a second stack of {who} ten seconds later: does it move").format(who=who)
