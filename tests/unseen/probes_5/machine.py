#!/usr/bin/env python3
"""One member of a simulated cluster, behind the probe contract of `emberward doctor`.

    machine.py WORLD [--probe main] [--state DIR] [--salt N]

WORLD is a file of worlds/ (or its name without .json). The contract comes from the environment: RANK, WORLD_SIZE,
LOCAL_RANK, MASTER_ADDR, MASTER_PORT, EMBERWARD_HOST, EMBERWARD_DEVICES.

Rank 0 is the director: it hears from every member who they are and how often each of their devices was started,
stages the whole test with `stage()`, and hands each member its part: answer, end, crash, hang or be silent. Members
only play. So one pure function holds all that happens, and the self-test calls it without any process.
"""
import json
import math
import os
import sys
import time

MEET_S = 30.0     # how long members wait for each other
LIFE_S = 100      # nothing outlives this

# ---------------------------------------------------------------- chance


def draw(*key):
    """A number in [0, 1) that depends on the key alone."""
    h = 0xCBF29CE484222325
    for byte in "|".join(map(str, key)).encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        h = ((h ^ (h >> shift)) * factor) & 0xFFFFFFFFFFFFFFFF
    return ((h ^ (h >> 31)) >> 11) / 9007199254740992.0


def bell(*key):
    """A standard normal number that depends on the key alone."""
    return math.sqrt(-2.0 * math.log(1.0 - draw("r", *key))) * math.cos(2.0 * math.pi * draw("a", *key))


# ---------------------------------------------------------------- what happens in one test

WORDS = {
    "exit": "RuntimeError: CUDA error: device unavailable (46)",
    "segv": ("*** Process received signal *** Signal: Segmentation fault (11), address not mapped\n"
             "[ 3] /usr/lib/x86_64-linux-gnu/libnccl.so.2(+0x6e8d4)[0x7f21c0a6e8d4]"),
    "wrong": "checksum differs: expected 0x5bd1e995, got 0x5bd1e997",
    "link": "ibv_poll_cq: completion with error 12, vendor err 129, opcode 0",
    "reset": "torch.distributed.DistBackendError: recv failed: Connection reset by peer",
    "late": "torch.distributed.DistBackendError: wait timeout after 2000ms",
}


def struck(world, salt, probe, part, owner, counts):
    """Does a part with a chance strike in this start? Depends on how often its own devices were started."""
    chance = part.get("chance", 1.0)
    if chance >= 1.0:
        return True
    return draw(world["name"], world["seed"], salt, probe, "part", owner,
                *(counts[d] for d in owner.split("+") if d in counts)) < chance


def try_key(world, salt, probe, tag, devices, counts):
    return (world["name"], world["seed"], salt, probe, tag, *(f"{d}#{counts[d]}" for d in sorted(devices)))


def loss_of_tail(tail, u, v):
    """What one test loses when the noise has a heavy tail: in `often` of the tests a Pareto amount, never over `cap`."""
    if u >= tail["often"]:
        return 0.0
    return min(tail["cap"], tail["scale"] * ((1.0 - v) ** (-1.0 / tail["alpha"]) - 1.0))


def stage(world, probe, salt, roster, age):
    """The parts of all members. roster: in the order of ranks, {"host", "devices": [number], "counts": {"host:n": k}};
    age: seconds since the first start in this world. Returns one part for each rank."""
    sim = world["sim"]
    counts = {}
    for member in roster:
        counts.update(member["counts"])
    names = [[f"{m['host']}:{d}" for d in m["devices"]] for m in roster]
    parts = [None] * len(roster)
    sure = sim["value"]

    # 1. who is busy takes no part
    for rank, mine in enumerate(names):
        for device in mine:
            taken = device in sim.get("busy", ()) or (
                sim.get("busy_chance", 0.0) > draw(*try_key(world, salt, probe, "busy", [device], counts)))
            if taken:
                parts[rank] = {"do": "answer", "secs": 0.01, "json": {
                    "ok": sim.get("busy_ok", True), "busy": True, "detail": f"{device} is used by another job"}}
                break
    active = [rank for rank, part in enumerate(parts) if part is None]
    devices = [d for rank in active for d in names[rank]]
    if not devices:
        return parts
    hosts = sorted({d.rpartition(":")[0] for d in devices})
    size, across = len(devices), len(hosts) > 1
    if sim.get("exercised") == "ring":
        talk = {frozenset((devices[i], devices[(i + 1) % size])) for i in range(size) if size > 1}
    else:
        talk = None                                     # everybody with everybody

    # 2. the probe itself
    if "everywhere" in sim:
        for rank in active:
            parts[rank] = {"do": "exit", "code": sim["everywhere"]["code"], "err": sim["everywhere"]["words"], "secs": 0.01}
        return parts
    flaky = sim.get("flaky")
    fails = bool(flaky) and draw(*try_key(world, salt, probe, "flaky", devices, counts)) < flaky["chance"]
    if fails and flaky["does"] == "exit":
        for rank in active:
            parts[rank] = {"do": "exit", "code": 1, "err": flaky["words"], "secs": 0.01}
        return parts

    # 3. sick parts
    speed, grave = 1.0, []                              # grave: (part, devices that show it themselves)
    for part in sim.get("sick", ()):
        if "device" in part:
            owner, own = part["device"], [part["device"]] if part["device"] in devices else []
            least = {"always": 1, "company": 2}[part.get("when", "always")]
            here = bool(own) and size >= least
        elif "link" in part:
            owner, own = "+".join(part["link"]), list(part["link"])
            here = all(d in devices for d in own) and (talk is None or frozenset(own) in talk)
        else:                                           # hosts whose network is sick: inside a host all is well
            owner, own = "net", [d for d in devices if d.rpartition(":")[0] in part["network"]]
            here = bool(own) and across
        if not here or not struck(world, salt, probe, part, owner, counts):
            continue
        if part["does"] == "slow":
            speed = min(speed, 1.0 - part["by"])
        else:
            grave.append((part, own))

    # 4. how fast the set is
    if size == 1:
        base = sure["alone"]
    elif not across:
        base = sure.get("inside", sure["alone"])
        halves = {int(d.rpartition(":")[2]) >= sure["socket_of"] for d in devices} if "socket_of" in sure else set()
        if len(halves) == 2:
            base *= sure["sockets"]
    else:
        base = sure.get("across", sure["alone"])
    if size > 1:
        base *= sure.get("doubling", 1.0) ** math.log2(size)
    slowest = 1.0
    if sure.get("spread"):
        well = [d for d in devices if not any(p.get("device") == d for p in sim.get("sick", ()))]
        slowest = min((1.0 + sure["spread"] * max(-2.0, min(2.0, bell(world["name"], world["seed"], salt, "make", d)))
                       for d in well), default=1.0)
    models = sim.get("models")
    if models:
        slowest *= min(models.get(h, 1.0) for h in hosts)
    cold = sim.get("cold")
    secs = sim.get("secs", 0.02)
    if cold and any(counts[d] == 1 and d.rpartition(":")[0] not in cold.get("not", ()) for d in devices):
        slowest *= cold["speed"]
        secs = cold["secs"]
    drift = sim.get("drift")
    if drift:
        slowest *= 1.0 - drift["by"] * (1.0 - math.exp(-max(0.0, age) / drift["after_s"]))
    noise = 1.0 + sure["noise"] * max(-3.5, min(3.5, bell(*try_key(world, salt, probe, "noise", devices, counts))))
    if "tail" in sure:
        noise *= 1.0 - loss_of_tail(sure["tail"], draw(*try_key(world, salt, probe, "often", devices, counts)),
                                    draw(*try_key(world, salt, probe, "much", devices, counts)))
    value = base * speed * slowest * noise
    if not sure.get("higher", True):
        value = base / (speed * slowest) * (2.0 - noise)

    def answer(ok=True, detail=None):
        body = {"ok": ok, "value": round(value, 4), "unit": sure["unit"], "higher_is_better": sure.get("higher", True)}
        if size > 1:
            body["exercised"] = sim.get("exercised", "all")
        if detail:
            body["detail"] = detail
        return {"do": "answer", "json": body, "secs": secs}

    # 5. each member's part: its own sickness first, else what the gravest sickness of its company does to it
    order = {"exit": 0, "segv": 0, "hang": 1, "wrong": 2}
    grave.sort(key=lambda g: order[g[0]["does"]])
    for rank in active:
        own = next((p for p, sick in grave if set(sick) & set(names[rank])), None)
        lead = grave[0][0] if grave else None
        if lead is None or (own and order[own["does"]] == order[lead["does"]]):
            act, role = own, "own"
        else:                                           # a crash elsewhere comes before one's own wrong sum
            act, role = lead, "other"
        if act is None:
            parts[rank] = answer()
        elif role == "own" or act.get("others") == "same":
            words = act.get("words", WORDS.get("link" if "device" not in act else act["does"], ""))
            if act["does"] == "exit":
                parts[rank] = {"do": "exit", "code": act.get("code", 1), "err": words, "secs": secs}
            elif act["does"] == "segv":
                parts[rank] = {"do": "signal", "signal": act.get("signal", 11), "err": words, "secs": secs}
            elif act["does"] == "hang":
                parts[rank] = {"do": "hang", "deaf": act.get("deaf", False)}
            else:
                parts[rank] = answer(False, words if "words" in act else WORDS["wrong"])
        else:
            after = act.get("others", "reset")
            if after == "reset":
                parts[rank] = {"do": "exit", "code": 1, "err": WORDS["reset"], "secs": secs + 0.03}
            elif after == "late":
                parts[rank] = {"do": "exit", "code": 1, "err": WORDS["late"], "secs": secs + 2.0}
            elif after == "hang":
                parts[rank] = {"do": "hang", "deaf": False}
            elif after == "wrong":
                parts[rank] = answer(False, WORDS["wrong"])
            else:                                       # "fine": only the sick member's own check sees it
                parts[rank] = answer()
    if fails:
        for rank in active:
            parts[rank] = answer(False, flaky["words"])
    if sim.get("rank0_only") and size > 1:
        for rank in active[1:]:
            parts[rank] = {"do": "silent", "secs": secs}
    return parts


# ---------------------------------------------------------------- one member


def whose(members):
    """Devices of each member. A list of several that all members of a host share is picked from by LOCAL_RANK;
    else a member owns all devices that it was given."""
    lists = {}
    for m in members:
        lists.setdefault(m["host"], []).append(m["given"])
    for m in members:
        same = lists[m["host"]]
        shared = len(same) > 1 and len(m["given"]) > 1 and all(g == same[0] for g in same)
        m["devices"] = [m["given"][m["local"] % len(m["given"])]] if shared else m["given"]


def count(state, probe, device):
    """How often this device was started, this start included: one byte a start, appended."""
    fd = os.open(os.path.join(state, f"{probe}.{device}"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, b".")
    k = os.lseek(fd, 0, os.SEEK_CUR)                    # the end of what this process wrote
    os.close(fd)
    return k


def age_of(state):
    """Seconds since the first start in this state folder."""
    path, now = os.path.join(state, "born"), time.time()
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return 0.0
    except FileExistsError:
        return now - os.stat(path).st_mtime


def meet(me, rank, size, addr, port, direct):
    """Rank 0 gathers everybody, calls direct(members) and sends each member its part. Returns this member's part."""
    import socket
    end = time.monotonic() + MEET_S
    try:
        addr = socket.gethostbyname(addr)
        if rank == 0:
            probe = socket.socket()
            probe.bind((addr, 0))
            probe.close()
    except OSError:
        addr = "127.0.0.1"                              # simulated hosts all live here
    if rank:
        pause = 0.01
        while True:
            line = socket.socket()
            try:
                if addr.startswith("127."):
                    try:                                # from another address: else a connection can meet itself on a free port
                        line.bind(("127.77.0.1", 0))
                    except OSError:
                        pass
                line.settimeout(2.0)
                line.connect((addr, port))
                if line.getsockname() == line.getpeername():
                    raise OSError("met itself")
                line.settimeout(max(0.1, end - time.monotonic()))
                line.sendall(json.dumps([rank, size, me]).encode() + b"\n")
                with line.makefile("rb") as answer:
                    part = answer.readline()
                if part:
                    return json.loads(part)
            except OSError:
                pass
            line.close()
            if time.monotonic() > end:
                raise TimeoutError("rank 0 was not met")
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    while True:
        try:
            server.bind((addr, port))
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    server.listen(128)
    members, lines = {0: me}, {}
    while len(members) < size:
        server.settimeout(max(0.01, end - time.monotonic()))
        line, _ = server.accept()
        line.settimeout(2.0)
        try:
            with line.makefile("rb") as words:
                other, theirs, it = json.loads(words.readline())
        except (OSError, ValueError):
            line.close()
            continue
        if theirs != size or not 0 < other < size:
            line.close()
            continue
        members[other], lines[other] = it, line
    parts = direct([members[r] for r in range(size)])
    for other, line in lines.items():
        try:
            line.sendall(json.dumps(parts[other]).encode() + b"\n")
            line.close()
        except OSError:
            pass                                        # somebody was ended meanwhile
    return parts[0]


def play(part):
    import signal
    do = part["do"]
    if do == "hang":
        if part.get("deaf"):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(60)
    time.sleep(part.get("secs", 0.0))
    if do == "answer":
        sys.stdout.write(json.dumps(part["json"]) + "\n")
        sys.stdout.flush()
        return 0
    if do == "silent":
        return 0
    sys.stderr.write(part["err"] + "\n")
    sys.stderr.flush()
    if do == "signal":
        import resource
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), part["signal"])
        time.sleep(5)
    return part["code"]


def main(argv):
    options, world, it = {"--probe": "main", "--state": None, "--salt": "0"}, None, iter(argv)
    for word in it:
        if word in options:
            options[word] = next(it, "")
        else:
            world = word
    if world is None:
        sys.stderr.write(__doc__)
        return 2
    path = world
    if not os.path.exists(path):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worlds", world + ".json")
    with open(path, encoding="utf-8") as f:
        world = json.load(f)
    import signal
    signal.alarm(LIFE_S)
    probe, salt, env = options["--probe"], options["--salt"], os.environ
    state = options["--state"] or os.path.join(env.get("TMPDIR", "/tmp"), f"probes_5.{os.getuid()}", world["name"])
    os.makedirs(state, exist_ok=True)
    try:
        rank, size = int(env.get("RANK", "0")), int(env.get("WORLD_SIZE", "1"))
        me = {"host": env["EMBERWARD_HOST"], "local": int(env.get("LOCAL_RANK", "0")),
              "given": [int(d) for d in env["EMBERWARD_DEVICES"].split(",") if d.strip()]}
        known = me["host"] in world["hosts"] and me["given"] and max(me["given"]) < world["per_host"]
    except (KeyError, ValueError) as e:
        sys.stderr.write(f"machine.py: the contract's environment is missing or wrong: {e!r}\n")
        return 2
    if not known:
        sys.stderr.write(f"machine.py: {world['name']} has no {me['host']} with devices {me['given']}\n")
        return 2
    age = age_of(state)

    def direct(members):
        whose(members)
        for m in members:
            m["counts"] = {f"{m['host']}:{d}": count(state, probe, f"{m['host']}:{d}") for d in m["devices"]}
        return stage(world, probe, salt, members, age)

    try:
        part = direct([me])[0] if size == 1 else meet(me, rank, size, env.get("MASTER_ADDR", "127.0.0.1"),
                                                      int(env["MASTER_PORT"]), direct)
    except (OSError, KeyError) as e:
        sys.stderr.write(f"machine.py: members did not meet: {e!r}\n")
        return 1
    return play(part)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
