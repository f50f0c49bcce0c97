"""Whether a pickle stays within bounds, decided before it is read: what it allocates is bounded by its own length.

[Note: pickle bombs]
Python's unpickler believes a pickle's numbers: nine bytes with a memo index of 20 million take 305 MB, and a byte array
is allocated in the length that its opcode says. Here every opcode is walked once, with the nesting of each value in
place of the value. Opcodes: Python 3.13, ``pickletools``.
"""

from typing import Final

MAX_BYTES = 1 << 30
"""Longest pickle that is read. A torch file's is some kilobytes; DCP's metadata has 130 bytes a chunk and more."""
MAX_NESTING = 256
"""How deep values may lie in one another. Real files stay below 20; Python's own recursion ends near 1,000."""

MAX_WAITING = 1 << 20
"""Values that may wait for what is made of them. A pickler passes on the items of lists and dicts 1,000 at a time
(``pickle``, `_BATCHSIZE`); only a tuple waits whole."""

_PUSH, _SIZED, _LINES, _PUT, _GET, _TAKE, _ADD, _MARKED, _ADD_MARKED, _OTHER = range(10)
_KINDS: Final[dict[int, tuple[int, int]]] = {
    **{ord(opcode): (_PUSH, 0) for opcode in "N)]}\x88\x89\x8f"},
    **{ord(opcode): (_PUSH, size) for opcode, size in {"K": 1, "M": 2, "J": 4, "G": 8}.items()},
    **{ord(opcode): (_SIZED, 1) for opcode in "UC\x8a\x8c"},
    **{ord(opcode): (_SIZED, 4) for opcode in "TXB\x8b"},
    **{ord(opcode): (_SIZED, 8) for opcode in "\x8d\x8e\x96"},
    **{ord(opcode): (_LINES, 1) for opcode in "ILFSVP"},
    ord("c"): (_LINES, 2),
    **{ord(opcode): (_PUT, size) for opcode, size in {"q": 1, "r": 4, "p": 0, "\x94": -1}.items()},
    **{ord(opcode): (_GET, size) for opcode, size in {"h": 1, "j": 4, "g": 0}.items()},
    **{ord(opcode): (_TAKE, n) for opcode, n in {"Q": 1, "\x85": 1, "\x86": 2, "\x87": 3, "R": 2, "\x81": 2}.items()},
    **{ord(opcode): (_TAKE, n) for opcode, n in {"\x92": 3, "\x93": 2}.items()},
    **{ord(opcode): (_ADD, n) for opcode, n in {"a": 1, "s": 2, "b": 1}.items()},
    **{ord(opcode): (_MARKED, 0) for opcode in "tld\x91"},
    **{ord(opcode): (_ADD_MARKED, 0) for opcode in "eu\x90"},
    **{ord(opcode): (_OTHER, size) for opcode, size in {"(": 0, "0": 0, "1": 0, "2": 0, "\x80": 1, "\x95": 8}.items()},
}
"""What each opcode does, and its number: of bytes (`_PUSH`), of the bytes of a length (`_SIZED`), of lines (`_LINES`),
of the bytes of an index (`_PUT` and `_GET`; 0: a line, -1: the next one), of values that it takes (`_TAKE`, `_ADD`)."""


class PickleBound(ValueError):
    """A pickle that is cut, has opcodes that no torch file needs, or exceeds a bound."""


def require_bounded(data: bytes) -> None:
    """Raises PickleBound unless the first pickle in `data` is whole and stays within the bounds. Walks each opcode."""
    if len(data) > MAX_BYTES:
        raise PickleBound(f"a pickle of {len(data)} bytes; {MAX_BYTES} are read at most")
    at = -1
    try:
        at = _Walk(data).run()
    except IndexError:
        raise PickleBound("an opcode takes more values than there are") from None
    if at > len(data):
        raise PickleBound(f"an opcode says that it has {at - len(data)} bytes more than the pickle")


class _Walk:
    """The walk over a pickle; `stack` and `memo` hold how deep each value nests."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.stack: list[int] = []
        self.marks: list[int] = []
        self.memo: list[int] = []

    def run(self) -> int:
        """Where the pickle ends; beyond the data when an argument does."""
        data, stack, marks, end, at = self.data, self.stack, self.marks, len(self.data), 0
        while at < end:
            opcode = data[at]
            at += 1
            if opcode == 0x2E:  # "."
                stack.pop()
                return at
            kind, count = _KINDS.get(opcode, (None, 0))
            if kind == _PUSH:
                at += count
                stack.append(0)
            elif kind == _SIZED:
                at += count + int.from_bytes(data[at : at + count], "little")
                stack.append(0)
            elif kind in (_PUT, _GET):
                index = len(self.memo) if count < 0 else int.from_bytes(data[at : at + count], "little")
                if count == 0:
                    index, at = self._line(at)
                at += max(0, count)
                self._remember(index) if kind == _PUT else stack.append(self.memo[index])
            elif kind == _TAKE:
                self._push(max(stack.pop() for _ in range(count)) + 1)
            elif kind == _ADD:
                deepest = max(stack.pop() for _ in range(count)) + 1
                self._push(max(stack.pop(), deepest))
            elif kind in (_MARKED, _ADD_MARKED):
                deepest = self._from_mark() + 1
                self._push(deepest if kind == _MARKED else max(stack.pop(), deepest))
            elif kind == _LINES:
                for _ in range(count):
                    at = self._end_of_line(at)
                stack.append(0)
            elif kind == _OTHER:
                at += count
                self._other(opcode)
            else:
                raise PickleBound(f"opcode {bytes([opcode])!r} at byte {at - 1}, which no torch file needs")
            if len(stack) > MAX_WAITING:
                raise PickleBound(f"more than {MAX_WAITING} values before anything is made of them")
            if marks and len(stack) < marks[-1]:
                raise PickleBound(f"an opcode at byte {at - 1} takes what lies below its mark")
        raise PickleBound("a pickle without an end")

    def _other(self, opcode: int) -> None:
        match chr(opcode):
            case "(":
                self.marks.append(len(self.stack))
                if len(self.marks) > MAX_NESTING:
                    raise PickleBound(f"values nested deeper than {MAX_NESTING}")
            case "0":
                self.stack.pop()
            case "1":
                self._from_mark()
            case "2":
                self.stack.append(self.stack[-1])

    def _from_mark(self) -> int:
        """How deep the deepest value above the mark nests; they are gone then."""
        mark = self.marks.pop()
        deepest = max(self.stack[mark:], default=-1)
        del self.stack[mark:]
        return deepest

    def _push(self, nested: int) -> None:
        if nested > MAX_NESTING:
            raise PickleBound(f"values nested deeper than {MAX_NESTING}")
        self.stack.append(nested)

    def _remember(self, index: int) -> None:
        """Keeps the value on top; a pickler counts from 0, so no index lies beyond the next one."""
        if not 0 <= index <= len(self.memo):
            raise PickleBound(f"memo index {index} after {len(self.memo)} entries")
        self.memo[index : index + 1] = self.stack[-1:]

    def _end_of_line(self, at: int) -> int:
        end = self.data.find(b"\n", at)
        if end < 0:
            raise PickleBound("a line without an end")
        return end + 1

    def _line(self, at: int) -> tuple[int, int]:
        """The number in a line and where the next one begins."""
        end = self._end_of_line(at)
        index = int(self.data[at : end - 1])
        if not 0 <= index <= len(self.memo):
            raise PickleBound(f"memo index {index} after {len(self.memo)} entries")
        return index, end
