#!/usr/bin/env python3
"""A simulated machine behind the probe contract of `emberward doctor`.

    machine.py WORLD [--probe NAME] [--state DIR] [--salt N]

WORLD is a name in worlds/ or a path of a JSON file.  It is started as one
member of a set; who else is in the set it learns over TCP at
MASTER_ADDR:MASTER_PORT (rank 0 listens, bounded wait).  What the set does is
then decided by `outcome`, a pure function of the world and of the members.

Only the standard library, and of that only what starts fast (_socket and
_signal instead of socket and signal): a start costs about 0.05 s.
"""
import math
import os
import sys
import time

SAFETY = 100          # seconds after which a "hanging" member ends by itself
MASK = (1 << 64) - 1


# ---------------------------------------------------------------- draws
def bits(*key):
    """A 64-bit number that depends on the key only (FNV-1a, then splitmix)."""
    h = 0xCBF29CE484222325
    for b in repr(key).encode():
        h = ((h ^ b) * 0x100000001B3) & MASK
    h = (h + 0x9E3779B97F4A7C15) & MASK
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & MASK
    return h ^ (h >> 31)


def uniform(*key):
    return (bits(*key) + 0.5) / 2.0 ** 64


def normal(*key):
    u, v = uniform("u", *key), uniform("v", *key)
    return math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)


# ---------------------------------------------------------------- who is who
def owners(members):
    """For each member the names of the devices that are its own.

    EMBERWARD_DEVICES can be read in two ways, and both are met here: the
    device(s) of this member, or the devices of the set on this host, of which
    LOCAL_RANK picks one.
    """
    by_host = {}
    for m in members:
        by_host.setdefault(m["host"], []).append(m)
    out = []
    for m in members:
        devs, beside = m["devs"], by_host[m["host"]]
        if len(devs) > 1:
            alike = len(beside) > 1 and all(x["devs"] == devs for x in beside)
            if alike or (len(beside) == 1 and m["lrank"] > 0):
                devs = [devs[m["lrank"] % len(devs)]]
        out.append(["%s:%s" % (m["host"], d) for d in devs])
    return out


def has(part, host, devs):
    """Does a member (host, devs) hold the part, named `host` or `host:3`?"""
    return part in devs if ":" in part else part == host


# ---------------------------------------------------------------- outcome
def outcome(world, probe, members, salt=0):
    """What every rank does: a list of (action, words or answer)."""
    p = dict(world["probe"])
    p.update(world.get("probe_by_name", {}).get(probe, {}))
    seed = (world["name"], world.get("seed", 0), salt)
    own = owners(members)
    size = len(members)
    acts = [None] * size

    # -- busy members take no part
    busy = world.get("busy", {})
    part = []
    for r, m in enumerate(members):
        b = any(d in busy.get("always", ()) for d in own[r])
        if busy.get("p"):
            b = b or uniform("busy", seed, own[r], m["n"]) < busy["p"]
        if b:
            acts[r] = ("answer", {"ok": busy.get("ok", True), "busy": True,
                                  "detail": "device in use by another job (pid %d)"
                                  % (20000 + bits(own[r]) % 9000)})
        else:
            part.append(r)
    if not part:
        return acts
    devices = sum(len(own[r]) for r in part)
    hosts = sorted({members[r]["host"] for r in part})
    ring = p.get("exercised") == "ring"
    key = sorted((own[r], members[r]["n"]) for r in part)

    def adjacent(x, y, both):
        """Does the set send from x to y (or back, if both)?"""
        at_x = [i for i, r in enumerate(part) if has(x, members[r]["host"], own[r])]
        at_y = [i for i, r in enumerate(part) if has(y, members[r]["host"], own[r])]
        if not ring:
            return bool(at_x and at_y)
        n = len(part)
        if any((i + 1) % n in at_y for i in at_x):
            return True
        return both and any((i + 1) % n in at_x for i in at_y)

    # -- which faults show in this set, and on which ranks
    shown = []
    for i, f in enumerate(world.get("faults", ())):
        if probe not in f.get("probes", [probe]):
            continue
        w = f["where"]
        if "all" in w:
            at = list(part)
        elif "device" in w or "host" in w:
            x = w.get("device") or w["host"]
            at = [r for r in part if has(x, members[r]["host"], own[r])]
        elif "net" in w:
            at = [r for r in part if members[r]["host"] == w["net"]] if len(hosts) > 1 else []
        elif "link" in w:
            x, y = w["link"]
            at = [r for r in part if has(x, members[r]["host"], own[r])
                  or has(y, members[r]["host"], own[r])] if adjacent(x, y, not w.get("one_way")) else []
        elif "switch" in w:
            inside = [r for r in part if members[r]["host"] in w["switch"]]
            at = inside if 0 < len(inside) < len(part) else []
        if not at or not f.get("min", 1) <= devices <= f.get("max", 1 << 30):
            continue
        if "p" in f:
            k = sorted((own[r], members[r]["n"]) for r in at) if "link" in w or "switch" in w \
                else [(own[at[0]], members[at[0]]["n"])]
            if uniform("fault", seed, i, k) >= f["p"]:
                continue
        shown.append((f, at))

    # -- those that end a member, the hardest first
    order = ("segv", "exit", "hang", "deaf")
    for what in order:
        for f, at in shown:
            if f["what"] != what:
                continue
            for r in part:
                if acts[r] is None and (r in at or f.get("peers") == "same"):
                    acts[r] = (what, f)
    ended = [f for f, at in shown if f["what"] in order]
    if ended:
        ways = {f.get("peers", "reset") for f in ended}
        for r in part:
            if acts[r] is None and "reset" in ways:
                acts[r] = ("reset", None)
            elif acts[r] is None and "hang" in ways:
                acts[r] = ("hang", ended[0])
        # what is left are peers that do not notice

    # -- the value, the same measurement seen by everyone in the set
    noise = p.get("noise", 0.01)
    z = noise * normal("noise", seed, key)
    tail = p.get("tail")
    if tail and uniform("tail?", seed, key) < tail["p"]:
        if "times" in tail:
            z += tail["times"] - 1.0
        else:
            z -= tail["mean"] * -math.log(uniform("tail", seed, key))
    speed = max(0.05, 1.0 + z)
    if devices > 1:
        speed *= p.get("inter", 1.0) if len(hosts) > 1 else p.get("intra", 1.0)
        speed *= p.get("per_doubling", 1.0) ** math.log2(devices)
    models = world.get("models", {})
    speed *= min([models.get(h, 1.0) for h in hosts])
    warm = p.get("first_start")
    if warm and any(members[r]["n"] == 0 for r in part):
        speed *= warm
    wrong = []
    for f, at in shown:
        if f["what"] == "slow":
            speed *= f["times"]
        elif f["what"] == "wrong":
            wrong += at

    rank0_only = p.get("rank0_only") and size > 1
    for r in part:
        if acts[r] is not None:
            continue
        a = {"ok": True}
        v = speed * (1.0 + 0.1 * noise * normal("own", seed, own[r], members[r]["n"]))
        lower = p.get("higher_is_better") is False
        v = p["base"] / v if lower else p["base"] * v
        a["value"] = v
        a["unit"] = p.get("unit", "GB/s")
        a["higher_is_better"] = not lower
        a["detail"] = "%s, %d device%s, answer as expected" % (
            p.get("what", "all-reduce 64 MiB"), devices, "" if devices == 1 else "s")
        if size > 1 and p.get("exercised"):
            a["exercised"] = p["exercised"]
        if wrong:
            a["ok"] = False
            want = 1024.0 * devices
            got = want + 0.5 * (1 + bits("wrong", seed, key) % 64)
            a["detail"] = "%s: sum %.1f, expected %.1f" % (
                p.get("what", "all-reduce 64 MiB"), got, want)
        acts[r] = ("answer", a)
        for f, at in shown:
            if f["what"] == "only_rank0" and r != 0:
                acts[r] = ("silent", None)
            elif r in at and f["what"] in ("rubbish", "silent"):
                acts[r] = (f["what"], f)
            elif r in at and f["what"] == "no_value" and acts[r][0] == "answer":
                del acts[r][1]["value"]
                del acts[r][1]["unit"]
        if rank0_only and r != 0:
            acts[r] = ("silent", None)
    return acts


# ---------------------------------------------------------------- meeting
def meet(line, rank, size, addr, port, wait):
    """Every member's line, in order of rank; OSError when they do not come."""
    import _socket
    end = time.monotonic() + wait

    def left():
        t = end - time.monotonic()
        if t <= 0:
            raise TimeoutError("rendezvous at %s:%d: not all of %d members within %g s"
                               % (addr, port, size, wait))
        return t

    def ip():
        try:
            return _socket.getaddrinfo(addr, port, _socket.AF_INET)[0][4][0]
        except OSError:
            return "127.0.0.1"          # all members are on one machine here

    def read(s, lines):
        buf = b""
        while buf.count(b"\n") < lines:
            s.settimeout(left())
            got = s.recv(65536)
            if not got:
                raise ConnectionError("rendezvous: peer closed")
            buf += got
        return buf.decode().split("\n")[:lines]

    if rank == 0:
        srv = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        srv.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        while True:
            try:
                srv.bind((ip(), port))
                break
            except OSError:
                left()
                time.sleep(0.1)
        srv.listen(size + 8)
        came, conns = {0: line}, []
        while len(came) < size:
            srv.settimeout(left())
            fd, _ = srv._accept()
            s = _socket.socket(fileno=fd)
            try:
                said = read(s, 1)[0]
                r, n = said.split("|")[:2]
            except (ConnectionError, ValueError):
                continue
            if int(n) == size and int(r) not in came:
                came[int(r)] = said
                conns.append(s)
        text = ("\n".join(came[r] for r in range(size)) + "\n").encode()
        for s in conns:
            s.settimeout(left())
            try:
                s.sendall(text)
            except OSError:
                pass
        for s in conns:
            s.close()
        srv.close()
        return text.decode().split("\n")[:size]
    pause, to = 0.02, ip()
    while True:
        s = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        try:
            s.settimeout(left())
            s.connect((to, port))
            s.sendall(line.encode() + b"\n")
            return read(s, size)
        except TimeoutError:
            raise
        except OSError:                  # not there yet, or gone again
            s.close()
            time.sleep(min(pause, left()))
            pause = min(0.15, pause * 1.5)


# ---------------------------------------------------------------- ways to end
NATIVE = """[%(h)s:%(pid)d] *** Process received signal ***
[%(h)s:%(pid)d] Signal: Segmentation fault (11)
[%(h)s:%(pid)d] Signal code: Address not mapped (1)
[%(h)s:%(pid)d] Failing at address: 0x7f3c00000%(d)d18
[%(h)s:%(pid)d] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x42520)[0x7f3d1c242520]
[%(h)s:%(pid)d] [ 1] /usr/lib/x86_64-linux-gnu/libnccl.so.2(+0x5f3c1)[0x7f3cd825f3c1]
[%(h)s:%(pid)d] [ 2] /usr/lib/x86_64-linux-gnu/libnccl.so.2(ncclProxyProgress+0x1a7)[0x7f3cd8261a07]
[%(h)s:%(pid)d] *** End of error message ***
"""


def say(text):
    os.write(2, text.encode())


def sleep_on(deaf, forks):
    import _signal
    if deaf:
        for s in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
            _signal.signal(s, _signal.SIG_IGN)
    if forks and os.fork() == 0:
        _signal.alarm(SAFETY)            # the child keeps stdout open
    end = time.monotonic() + SAFETY
    while time.monotonic() < end:
        time.sleep(SAFETY)
    os._exit(9)


def act(action, what, host, device):
    if action == "answer":
        import json
        os.write(1, (json.dumps(what) + "\n").encode())
        os._exit(0)
    if action == "silent":
        os._exit(0)
    if action == "rubbish":
        os.write(1, b"\x00\xff\xfe{{ok: tru\x1b[31m" + bytes(range(128, 256)) + b"\n[1, 2,, \n")
        os._exit(0)
    if action == "reset":
        say("[%s] NCCL WARN Net : recv failed: Connection reset by peer\n"
            "RuntimeError: NCCL error: remote process exited or there was a network error\n" % host)
        os._exit(1)
    if action == "exit":
        say(what.get("words", "error") + "\n")
        os._exit(what.get("code", 1))
    if action == "segv":
        import _signal
        import resource
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        say(NATIVE % {"h": host, "pid": os.getpid(), "d": int(device) % 10})
        _signal.signal(_signal.SIGSEGV, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGSEGV)
        time.sleep(5)
    if action in ("hang", "deaf"):
        sleep_on(action == "deaf", action == "deaf" and what.get("forks"))
    os._exit(70)


def load(name):
    here = os.path.dirname(os.path.abspath(__file__))
    path = name if name.endswith(".json") else os.path.join(here, "worlds", name + ".json")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    # Our own files; the word `eval` reads JSON here faster than importing json does.
    return eval(text, {"__builtins__": {}, "true": True, "false": False, "null": None})


def main(argv):
    import _signal
    _signal.alarm(SAFETY + 5)            # nothing of this outlives its safety time
    opts, rest, i = {}, [], 0
    while i < len(argv):
        if argv[i] in ("--probe", "--state", "--salt"):
            opts[argv[i][2:]] = argv[i + 1]
            i += 2
        else:
            rest.append(argv[i])
            i += 1
    world = load(rest[0])
    env = os.environ
    rank, size = int(env.get("RANK", "0")), int(env.get("WORLD_SIZE", "1"))
    lrank = int(env.get("LOCAL_RANK", "0") or 0)
    host = env["EMBERWARD_HOST"]
    devs = [d.strip() for d in env.get("EMBERWARD_DEVICES", "").split(",") if d.strip()] or ["0"]
    if host not in world["hosts"] or any(int(d) >= world["devices_per_host"] for d in devs):
        say("machine.py: no such host or device here: %s %s\n" % (host, ",".join(devs)))
        os._exit(64)
    mine = devs[lrank] if len(devs) > 1 and lrank < len(devs) else devs[0]

    # how often this device was started before: one byte a start in a file
    state = opts.get("state") or os.path.join(
        env.get("TMPDIR", "/tmp"), "author_probes.%d" % os.getuid(), world["name"])
    os.makedirs(state, exist_ok=True)
    fd = os.open(os.path.join(state, "%s_%s" % (host, mine)), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.write(fd, b".")
    n = os.fstat(fd).st_size - 1
    os.close(fd)

    late = world["probe"].get("late_first")
    if n == 0 and late and "%s:%s" % (host, mine) in late["devices"]:
        time.sleep(late["seconds"])
    line = "%d|%d|%s|%d|%s|%d" % (rank, size, host, lrank, ",".join(devs), n)
    lines = [line]
    if size > 1:
        try:
            lines = meet(line, rank, size, env.get("MASTER_ADDR", "127.0.0.1"),
                         int(env["MASTER_PORT"]), world["probe"].get("meet", 15))
        except OSError as e:
            say("machine.py: %s\n" % e)
            os._exit(7)
    members = []
    for text in lines:
        _, _, h, lr, ds, k = text.split("|")
        members.append({"host": h, "lrank": int(lr), "devs": ds.split(","), "n": int(k)})

    action, what = outcome(world, opts.get("probe", "main"), members, int(opts.get("salt", "0")))[rank]
    if action == "answer" and what.get("value") is not None:
        drift = world["probe"].get("drift")
        if drift:                        # everything gets slower alike, with time
            mark = os.path.join(state, "began")
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                pass
            age = max(0.0, time.time() - os.stat(mark).st_mtime)
            what["value"] *= 1.0 - drift["by"] * min(1.0, age / drift["seconds"])
        what["value"] = round(what["value"], 4)
    if action == "answer" and world["probe"].get("chatter"):
        say("[%s] NCCL INFO Bootstrap: using eth0\n" % host)
    act(action, what, host, mine)


if __name__ == "__main__":
    main(sys.argv[1:])
