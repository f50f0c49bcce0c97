#!/usr/bin/env python3
"""One member of a probe on a simulated GPU machine (standard library only).

    python -I -S machine.py WORLD.json --probe main --state DIR --salt 0

Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, EMBERWARD_HOST and EMBERWARD_DEVICES.
Members of a set meet at MASTER_ADDR:MASTER_PORT, exchange who they are, and each derives the same
course of events from that (`plan`); then each plays its own part of it (`play`).
"""
import json
import math
import os
import signal
import sys
import time
import zlib

MASK = (1 << 64) - 1
MEET = 15.0      # seconds to find each other
LIFE = 100       # no member outlives this
WEAK = 5         # seconds until "wait" members give up on the dead one


# ---------------------------------------------------------------- chance

def uniform(*key):
    """A number in (0, 1) that depends on nothing but the key."""
    text = "\x1f".join(map(str, key)).encode()
    x = (zlib.crc32(text) << 32 | zlib.crc32(text[::-1] + b"#")) & MASK
    for _ in range(2):
        x = (x + 0x9E3779B97F4A7C15) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        x ^= x >> 31
    return (x + 0.5) / 2.0 ** 64


def normal(*key):
    return math.sqrt(-2 * math.log(uniform("u", *key))) * math.cos(2 * math.pi * uniform("v", *key))


# ---------------------------------------------------------------- what happens

def own_devices(roster):
    """Devices "host:n" of each rank. A list of several that all members of a host share is picked from by LOCAL_RANK."""
    lists = {}
    for m in roster:
        lists.setdefault(m["host"], []).append(m["devices"])
    out = []
    for m in roster:
        mine = lists[m["host"]]
        devs = m["devices"]
        if len(mine) > 1 and len(devs) > 1 and all(x == devs for x in mine):
            devs = [devs[m["local"] % len(devs)]]
        out.append(["%s:%s" % (m["host"], d) for d in devs])
    return out


def holds(where, device):
    return where == "*" or device in where or device.split(":")[0] in where


def plan(world, probe, salt, roster):
    """One action for each rank.

    roster: [{"host", "devices": ["3"], "local": 0, "count": 1}, ...] by rank; count: how often this
    member's device was started, this start included.
    """
    sim, pr = world["sim"], world["probes"][probe]
    seed = (world["name"], world.get("seed", 0), salt, probe)
    owned = own_devices(roster)
    counts = {}
    for devs, m in zip(owned, roster):
        for d in devs:
            counts[d] = m["count"]
    test = ",".join("%s*%d" % (d, counts[d]) for d in sorted(counts))

    def draw(*key):
        return uniform(*(seed + (test,) + key))

    # who is busy
    busy = set()
    for b in sim.get("busy", []):
        for r, devs in enumerate(owned):
            if any(holds(b["where"], d) and uniform(*(seed + ("busy", d, counts[d]))) < b.get("p", 1) for d in devs):
                busy.add(r)
    active = [r for r in range(len(roster)) if r not in busy]
    used = [d for r in active for d in owned[r]]
    rank_of = {d: r for r in active for d in owned[r]}
    span = {d.split(":")[0] for d in used}
    ring = pr.get("exercised") == "ring"

    def talk(a, b):
        if a not in rank_of or b not in rank_of:
            return False
        if not ring:
            return True
        i, j = active.index(rank_of[a]), active.index(rank_of[b])
        return i == j or (i - j) % len(active) in (1, len(active) - 1)

    # which faults show
    shown = []           # (fault, culprit ranks)
    factor = 1.0
    tries = pr.get("tries", 1)
    for n, f in enumerate(sim.get("faults", [])):
        if f.get("probe", probe) != probe:
            continue
        scope = f.get("when", "always")
        if scope == "company" and len(used) < 2 or scope == "cross" and len(span) < 2:
            continue
        if "pair" in f:
            sick = list(f["pair"]) if talk(*f["pair"]) else []
        elif "behind" in f:
            inside = [d for d in used if holds(f["behind"], d)]
            sick = inside if inside and len(inside) < len(used) else []
        else:
            sick = [d for d in used if holds(f["where"], d)]
        sick = [d for d in sick if counts[d] > f.get("after", 0)]
        p = 1 - (1 - f.get("p", 1)) ** tries
        if not sick:
            continue
        if f.get("per") == "test":          # one draw for the whole test, and it hits one member
            if draw("fault", n) >= p:
                continue
            sick = [sick[int(draw("whom", n) * len(sick))]]
        else:
            sick = [d for d in sick if p >= 1 or draw("fault", n, d) < p]
        if not sick:
            continue
        if "slow" in f:
            factor = min(factor, 1 - f["slow"])
        else:
            shown.append((f, {rank_of[d] for d in sick}))

    # the value of the whole test
    value = pr.get("base")
    if value is not None and used:
        topo = pr.get("topology", {})
        if len(used) > 1:
            factor *= topo.get("cross" if len(span) > 1 else "host", 1)
            factor *= topo.get("size", 1) ** max(0, math.ceil(math.log2(len(used))) - 1)
        factor *= min(c.get("factor", 1) for c in [class_of(sim, d) for d in used])
        for c in sim.get("cold", []):
            if any(holds(c["where"], d) and counts[d] <= c.get("first", 1) for d in used):
                factor *= c["factor"]
        drift = sim.get("drift")
        if drift:
            factor *= 1 - max(min(drift["most"], drift["each"] * (counts[d] - 1)) for d in used)
        factor *= 1 + sim.get("noise", 0.005) * normal(*(seed + (test, "noise")))
        tail = sim.get("tail")
        if tail and draw("tail") < tail["p"]:
            factor *= 1 - min(0.7, -tail["mean"] * math.log(draw("tail size")))
        value = value * factor if pr.get("higher", True) else value / factor

    actions = []
    for r, devs in enumerate(owned):
        delay = pr.get("seconds", 0.05)
        for s in sim.get("late", []):
            if any(holds(s["where"], d) and counts[d] <= s.get("first", 1) for d in devs):
                delay += s["seconds"]
        if r in busy:
            say = {"ok": False, "busy": True, "detail": "device in use: %d MiB taken by another process" % (
                2000 + int(uniform(*(seed + ("mem", devs[0]))) * 70000))}
            actions.append({"do": "answer", "say": say, "delay": delay, "err": ""})
            continue
        say = {"ok": True}
        if value is not None:
            say["value"] = round(value * (1 + 0.0008 * normal(*(seed + (test, "member", r)))), pr.get("digits", 2))
            say["unit"] = pr["unit"]
            say["higher_is_better"] = pr.get("higher", True)
        kind = class_of(sim, devs[0])
        name = kind.get("class", sim.get("gpu", "NVIDIA H100 80GB HBM3"))
        if kind.get("says"):
            say["class"] = name
        style = pr.get("detail", "object")
        if style == "object":
            say["detail"] = {"gpu": name, "driver": "550.90.07"}
            if kind.get("says"):
                say["detail"]["class"] = name
        elif style == "text":
            say["detail"] = "%s, driver 550.90.07" % name
        if len(used) > 1 and pr.get("exercised"):
            say["exercised"] = pr["exercised"]
        if "tries" in pr:
            say["tries"] = tries
        act = {"do": "answer", "say": say, "delay": delay, "err": pr.get("chatter", "")}
        for f, culprits in shown:
            mine = r in culprits
            do = f["do"] if mine else f.get("others", "reset")
            if do == "nothing":
                continue
            if do == "same":
                do = f["do"]
            act = dict(act, do=do, code=f.get("code", 1), signal=f.get("signal", 11))
            if do == "wrong":
                say = dict(say, ok=False)
                note = f.get("note", "checksum mismatch")
                say["detail"] = dict(say["detail"], error=note) if isinstance(say.get("detail"), dict) else note
                act.update(do="answer", say=say)
            elif do in ("exit", "signal"):
                act["err"] += f.get("words", "").replace("HOST", roster[r]["host"]).replace("DEV", devs[0].split(":")[1])
            elif do == "reset":
                act.update(do="exit", code=1)
                act["err"] += "%s: [rank%d] recv failed: Connection reset by peer\n" % (roster[r]["host"], r)
            elif do == "abort":
                act.update(do="signal", signal=6)
                act["err"] += ("[rank%d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)\n"
                               "terminate called after throwing an instance of 'c10::DistBackendError'\n" % r)
                act["delay"] += 1
            elif do == "wait":
                act.update(do="exit", code=1)
                act["err"] += "[rank%d] timed out waiting for the others after %d s\n" % (r, WEAK)
                act["delay"] += WEAK
            if mine:
                break
        actions.append(act)
    return actions


def class_of(sim, device):
    for c in sim.get("classes", []):
        if holds(c["where"], device):
            return c
    return {}


# ---------------------------------------------------------------- a member

def count(state, device):
    """Notes one start of the device, returns how many there were."""
    os.makedirs(state, exist_ok=True)
    fd = os.open(os.path.join(state, device.replace(":", "_")), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(fd, b".")
    n = os.fstat(fd).st_size
    os.close(fd)
    return n


def read_line(conn):
    data = b""
    while not data.endswith(b"\n"):
        part = conn.recv(65536)
        if not part:
            raise OSError("the other side closed the connection")
        data += part
    return json.loads(data)


def meet(me, rank, size, addr, port):
    import socket
    end = time.monotonic() + MEET
    if rank == 0:
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        while True:
            try:
                server.bind(("", port))
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
        server.listen(512)
        roster, conns = [None] * size, []
        roster[0] = me
        while len(conns) < size - 1:
            server.settimeout(max(0.01, end - time.monotonic()))
            conn, _ = server.accept()
            conn.settimeout(MEET)
            try:
                r, other = read_line(conn)
            except (OSError, ValueError):
                conn.close()
                continue
            roster[r] = other
            conns.append(conn)
        line = (json.dumps(roster) + "\n").encode()
        for conn in conns:
            try:
                conn.sendall(line)
            except OSError:
                pass
            conn.close()
        server.close()
        return roster
    pause = 0.02
    while True:
        try:
            try:
                conn = socket.create_connection((addr, port), timeout=5)
            except socket.gaierror:
                conn = socket.create_connection(("127.0.0.1", port), timeout=5)
            if conn.getsockname() == conn.getpeername():      # met itself on a free port
                conn.close()
                raise ConnectionRefusedError
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(pause)
            pause = min(0.15, pause * 1.5)
    conn.settimeout(MEET)
    conn.sendall((json.dumps([rank, me]) + "\n").encode())
    roster = read_line(conn)
    conn.close()
    return roster


def play(act):
    if act["do"] == "deaf":
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(s, signal.SIG_IGN)
    if act["do"] in ("hang", "deaf"):
        while True:
            time.sleep(LIFE)
    time.sleep(act["delay"])
    if act.get("err"):
        sys.stderr.write(act["err"])
        sys.stderr.flush()
    if act["do"] == "exit":
        os._exit(act["code"])
    if act["do"] == "signal":
        import resource
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(act["signal"], signal.SIG_DFL)
        os.kill(os.getpid(), act["signal"])
        time.sleep(5)
    sys.stdout.write(json.dumps(act["say"]) + "\n")
    sys.stdout.flush()
    os._exit(0)


def main(argv):
    signal.alarm(LIFE)
    path, opts = argv[0], dict(zip(argv[1::2], argv[2::2]))
    with open(path) as f:
        world = json.load(f)
    probe = opts.get("--probe", "main")
    state = opts.get("--state") or os.path.join(
        os.environ.get("TMPDIR", "/tmp"), "simulated_probes.%d" % os.getuid(), world["name"])
    env = os.environ
    rank, size = int(env.get("RANK", 0)), int(env.get("WORLD_SIZE", 1))
    me = {"host": env.get("EMBERWARD_HOST", world["hosts"][0]),
          "devices": [x.strip() for x in env.get("EMBERWARD_DEVICES", "0").split(",") if x.strip()],
          "local": int(env.get("LOCAL_RANK", 0))}
    # how often this was started: by probe and device (by list and LOCAL_RANK where several are handed over)
    key = "%s:%s" % (me["host"], me["devices"][0])
    if len(me["devices"]) > 1:
        key = "%s:%s@%d" % (me["host"], ",".join(me["devices"]), me["local"])
    me["count"] = count(os.path.join(state, probe), key)
    if size > 1:
        try:
            roster = meet(me, rank, size, env.get("MASTER_ADDR", "127.0.0.1"), int(env.get("MASTER_PORT", 29500)))
        except OSError as e:
            sys.stderr.write("rank %d of %d: the members did not meet: %s\n" % (rank, size, e))
            os._exit(1)
    else:
        roster = [me]
    play(plan(world, probe, opts.get("--salt", "0"), roster)[rank])


if __name__ == "__main__":
    main(sys.argv[1:])
