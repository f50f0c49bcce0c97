"""A view of this machine in which an examined script may do what it likes: nothing that it does stays. No torch.

[Note: the scratch layer]
In a mount namespace of its own every folder of the machine is the lower layer of an overlayfs whose upper layer lies
in the scratch folder: writes, renames and removals are real for all processes inside, whatever language they are
written in, and end with the scratch folder. Lower folders that contain other mounts cannot be one overlay (a user
namespace may not see below a mount that it inherited), so such a folder is rebuilt entry by entry. Loopback is the only
network; other processes cannot be seen or signalled. A mount that cannot be a lower layer is read-only inside.
Sources: Documentation/filesystems/overlayfs.rst, user_namespaces(7), pid_namespaces(7), Linux 5.11 or later.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

MAX_MOUNTS = 3000
"""Mounts of one view; a machine that needs more is examined without a view of its own."""

_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
_KEPT_FLAGS = 2 | 4 | 8 | 1024 | 2048  # nosuid, nodev, noexec, noatime, nodiratime: locked in a user namespace
_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MNT_DETACH, _PR_SET_PDEATHSIG, _SIGKILL = 2, 1, 9
_AS_THEY_ARE = ("/dev",)
_READ_ONLY = ("/sys",)
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


class NoSandboxError(Exception):
    """The kernel or its settings do not allow a view of its own; the text says which step failed."""


@dataclass(slots=True)
class Sandbox:
    """What the view consists of: the mount points of the machine, and folders that could not be layered."""

    is_there: bool = True
    points: tuple[str, ...] = ()
    read_only: list[str] = field(default_factory=list)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise NoSandboxError(f"{name}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _call("mount", texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])


def run_inside(scratch: Path, keep: Path, work: Callable[[Sandbox], int]) -> int:
    """The exit code of ``work``, which runs in a process of its own inside the view. Raises NoSandboxError.

    `keep` is the folder that is the real one inside, too; `scratch` holds the layers. All processes that were started
    inside have ended afterwards, also when this process is killed. Blocks until then. Call it with one thread.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _outer(scratch, keep, work, theirs)
    os.close(theirs)
    try:
        with os.fdopen(ours, "rb") as pipe:
            problem = pipe.read()
        _, status = os.waitpid(child, 0)
    except BaseException:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, _SIGKILL)
            os.waitpid(child, 0)
        raise
    if problem:
        raise NoSandboxError(problem.decode("utf-8", "replace"))
    return os.waitstatus_to_exitcode(status)


def _outer(scratch: Path, keep: Path, work: Callable[[Sandbox], int], pipe: int) -> None:
    """Enters the namespaces and forks their first process. Never returns."""
    code = 1
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        _unshare()
        first = os.fork()
        if first == 0:
            _inner(scratch, keep, work, pipe)
        os.close(pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    except (NoSandboxError, OSError) as error:
        os.write(pipe, str(error).encode() or b"unknown")
    finally:
        os._exit(code if 0 <= code < 256 else 1)


def _inner(scratch: Path, keep: Path, work: Callable[[Sandbox], int], pipe: int) -> None:
    """Process 1 of the view: builds it, says that it stands by closing `pipe`, and works. Never returns."""
    code = 1
    is_said = False
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        sandbox = _View(scratch, keep).enter()
        os.close(pipe)
        is_said = True
        code = work(sandbox)
    except (NoSandboxError, OSError) as error:
        if is_said:
            raise
        os.write(pipe, str(error).encode() or b"unknown")
    except BaseException:  # noqa: BLE001 (this process has nobody else to say it)
        traceback.print_exc()
    finally:
        os._exit(code)


def _unshare() -> None:
    user, group = os.geteuid(), os.getegid()
    spaces = _NEWNS | _NEWPID | _NEWNET | _NEWIPC
    if _libc.unshare(spaces) == 0:
        return
    _call("unshare", spaces | _NEWUSER)
    Path("/proc/self/setgroups").write_text("deny", encoding="utf-8")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="utf-8")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="utf-8")


class _View:
    """Builds the view below ``scratch/root`` and makes it the root of this process."""

    def __init__(self, scratch: Path, keep: Path) -> None:
        self.scratch = scratch
        self.keep = os.path.realpath(keep)
        self.root = str(scratch / "root")
        self.sandbox = Sandbox()
        self._num_mounts = 0
        self._points: tuple[str, ...] = ()

    def enter(self) -> Sandbox:
        """Builds the view and enters it; the current folder stays the current folder."""
        here = Path.cwd()
        _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
        Path(self.root).mkdir(parents=True, exist_ok=True)
        self._points = self.sandbox.points = _mount_points()
        _mount("tmpfs", self.root, "tmpfs", 0, "mode=755")
        self._mirror("/")
        target = self.root + self.keep
        Path(target).mkdir(parents=True, exist_ok=True)
        _mount(self.keep, target, None, _MS_BIND)
        _raise_loopback()
        os.chroot(self.root)
        os.chdir(here)
        _drop_capabilities()
        return self.sandbox

    def _mirror(self, path: str) -> None:
        target = self.root + path
        if path == "/proc":
            self._proc(target)
        elif path in _AS_THEY_ARE or path in _READ_ONLY:
            self._bind(path, target, is_read_only=path in _READ_ONLY)
            if Path(f"{target}/shm").is_dir():
                _mount("tmpfs", f"{target}/shm", "tmpfs", 0, "mode=1777")
        elif any(point.startswith(path.rstrip("/") + "/") for point in self._points):
            self._rebuild(path, target)
        else:
            self._overlay(path, target)

    def _rebuild(self, path: str, target: str) -> None:
        """A folder that contains mounts: its entries one by one."""
        Path(target).mkdir(exist_ok=True)
        try:
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except PermissionError:
            return
        for entry in entries:
            place = self.root + entry.path
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), place)  # noqa: PTH115, PTH211 (texts throughout)
            elif entry.is_dir(follow_symlinks=False):
                self._mirror(entry.path)
            else:
                Path(place).touch()
                self._bind(entry.path, place, is_read_only=True)

    def _overlay(self, path: str, target: str) -> None:
        self._count()
        Path(target).mkdir(exist_ok=True)
        layers = self.scratch / "layers" / str(self._num_mounts)
        upper, temporary = layers / "upper", layers / "aside"
        for folder in (upper, temporary):
            folder.mkdir(parents=True)
        with contextlib.suppress(OSError):
            upper.chmod(Path(path).stat().st_mode & 0o7777)
        lower = path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
        try:
            _mount("overlay", target, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={temporary},userxattr")
            (temporary / "work").chmod(0o700)  # nobody may enter it otherwise, and so nobody remove it
        except NoSandboxError:
            self._bind(path, target, is_read_only=True)
            self.sandbox.read_only.append(path)

    def _bind(self, path: str, target: str, *, is_read_only: bool) -> None:
        self._count()
        source = Path(path)
        if source.is_dir():
            Path(target).mkdir(exist_ok=True)
        try:
            _mount(path, target, None, _MS_BIND | _MS_REC)
        except NoSandboxError:
            return  # what cannot be shown is not there
        if is_read_only:
            flags = os.statvfs(target).f_flag & _KEPT_FLAGS
            _mount("none", target, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags)

    def _proc(self, target: str) -> None:
        Path(target).mkdir(exist_ok=True)
        _mount("proc", target, "proc", 0)
        self._bind(f"{target}/sys", f"{target}/sys", is_read_only=True)

    def _count(self) -> None:
        self._num_mounts += 1
        if self._num_mounts > MAX_MOUNTS:
            raise NoSandboxError(f"the machine needs more than {MAX_MOUNTS} mounts")


def _mount_points() -> tuple[str, ...]:
    points = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        point = line.split(" ")[4]
        for code, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
            point = point.replace(code, sign)
        points.append(point)
    return tuple(points)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(control, _SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


def _drop_capabilities() -> None:
    """Takes away what the namespaces gave; a real root keeps what it had."""
    if os.geteuid() != 0:
        header, data = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *(0,) * 6)
        _call("capset", header, data)
