"""A simulated machine behind the probe contract: one member of a set per start.

    python -I -S machine.py WORLD.json --probe NAME --state DIR [--salt N]

Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, EMBERWARD_HOST, EMBERWARD_DEVICES. The members of a
set meet at MASTER_ADDR:MASTER_PORT; then every member derives the same outcome of the whole set from hashes of
world, salt, devices and number of tries (`outcome` below, pure) and plays its own part of it.
"""
# Only what starts fast: json, socket and signal would double the processor time of a start.
import _signal as signal
import _socket as socket
import marshal
import math
import os
import sys
import time

from _json import encode_basestring_ascii as quoted

MASK = (1 << 64) - 1
MEET_S = 15.0    # how long members wait for each other
LIFE_S = 100     # nothing of ours lives longer


# ---- chance -------------------------------------------------------------------------------------------------------
def unit(*parts):
    """A number in [0, 1) from a hash of the parts."""
    x = 0xCBF29CE484222325
    for b in "|".join(map(str, parts)).encode():
        x = ((x ^ b) * 0x100000001B3) & MASK
    for shift, mul in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53), (33, 1)):
        x ^= x >> shift
        x = (x * mul) & MASK
    return x / 2.0 ** 64


def gauss(*parts):
    a, b = unit(*parts, "a"), unit(*parts, "b")
    z = math.sqrt(-2.0 * math.log(max(a, 1e-12))) * math.cos(2.0 * math.pi * b)
    return max(-3.2, min(3.2, z))


def one_in(n, spaced, tries, *parts):
    """Exactly one try of each block of n tries hits; `spaced`: in the block's first half, so never two in a row."""
    block, place = divmod(tries - 1, n)
    room = max(1, n // 2) if spaced else n
    return place == int(unit(*parts, "block", block) * room)


# ---- what happens to a set ----------------------------------------------------------------------------------------
def host_of(device):
    return device.rsplit(":", 1)[0]


def culprits(world, probe, effect, devices, tries, salt):
    """The devices of this test at which the effect shows (empty: it does not show)."""
    n, size = effect.get("one_in"), len(devices)
    if size < effect.get("from_size", 1):
        return []

    def lucky(device):
        return not n or one_in(n, effect.get("spaced", False), tries[device], world["name"], salt, probe,
                               effect["effect"], device)
    kind = effect["at"]
    if kind == "device":
        return [d for d in devices if d in effect["who"] and lucky(d)]
    if kind == "all":
        return [d for d in devices if lucky(d)]
    if kind == "link":
        found = []
        ring = world["probes"][probe].get("exercised") == "ring"
        for a, b in effect["links"]:
            if a in devices and b in devices:
                gap = abs(devices.index(a) - devices.index(b))
                if not ring or gap in (1, size - 1):
                    found += [a, b]
        return found
    inner = [d for d in devices if host_of(d) in effect["hosts"]]
    if kind == "uplink":                                    # a test over the border of this group of hosts
        return inner if inner and len(inner) < size else []
    if kind == "leaf":                                      # any test of two or more with one behind it
        return inner if size > 1 else []
    if kind == "disturb":                                   # the others on the host of `who`, not itself
        who = effect["who"][0]
        return [d for d in inner if d != who] if who in devices else []
    raise ValueError(kind)


RANK_OF_EFFECT = {"hang": 0, "deaf": 0, "segv": 1, "exit": 2, "late": 3, "silent": 4, "rubbish": 5, "wrong": 6}


def outcome(world, probe, members, tries, elapsed, salt):
    """members: devices of each rank; tries: device -> number of its starts of this probe, this one included.
    Gives one part per rank: {"act": ..., "delay": s, "words": stderr, "answer": {...}}."""
    spec = world["probes"][probe]
    name = world["name"]
    always, sometimes = spec.get("busy", []), spec.get("busy_chance", 0.0)

    def is_busy(device):
        return device in always or (sometimes and
                                    unit(name, salt, "busy", device, tries[device]) < sometimes)
    parts = [None] * len(members)
    here = []
    for rank, own in enumerate(members):
        if any(is_busy(d) for d in own):
            parts[rank] = {"act": "answer", "delay": 0.0, "words": "", "answer": {
                "ok": False, "busy": True, "detail": "device in use by another job, left alone"}}
        else:
            here.append(rank)
    devices = [d for rank in here for d in members[rank]]
    size = len(devices)
    if not size:
        return parts
    key = ",".join("%s#%d" % (d, tries[d]) for d in sorted(devices))

    speed = {d: spec.get("speed", {}).get(host_of(d), 1.0) for d in devices}
    hard = []
    for effect in spec.get("effects", []):
        hit = culprits(world, probe, effect, devices, tries, salt)
        if not hit:
            continue
        if effect["effect"] == "slow":
            for d in hit:
                speed[d] *= effect["factor"]
        else:
            hard.append((effect, hit))
    hard.sort(key=lambda item: RANK_OF_EFFECT[item[0]["effect"]])
    if "cold" in spec:
        for d in devices:
            if tries[d] == 1:
                speed[d] *= spec["cold"]
    if "drift" in spec:
        for d in devices:
            speed[d] *= 1.0 - spec["drift"]["loss"] * (1.0 - math.exp(-elapsed / spec["drift"]["seconds"]))

    nature = spec.get("nature", {})
    if size == 1:
        common = nature.get("alone", 1.0)
    elif len({host_of(d) for d in devices}) == 1:
        common = nature.get("inside", 1.0)
    else:
        common = nature.get("across", 1.0)
    common *= 1.0 - nature.get("per_doubling", 0.0) * math.log2(size)
    coupled = spec.get("coupled", True)

    for rank in here:
        own = members[rank]
        if coupled:
            pace = min(speed.values()) * math.exp(spec["noise"] * gauss(name, salt, probe, key))
        else:
            pace = min(speed[d] for d in own)
            pace *= math.exp(spec["noise"] * gauss(name, salt, probe, key, own[0]))
        pace *= common * (1.0 + 0.001 * (unit(name, salt, key, own[0], "clock") - 0.5))
        value = spec["base"] * pace if spec["higher"] else spec["base"] / pace
        answer = {"ok": True, "value": round(value, 3), "unit": spec["unit"], "higher_is_better": spec["higher"]}
        if "classes" in spec:
            answer["detail"] = spec["classes"][host_of(own[0])]
        elif spec.get("detail"):
            answer["detail"] = spec["detail"]
        if size > 1 and spec.get("exercised"):
            answer["exercised"] = spec["exercised"]
        delay = spec.get("seconds", 0.05)
        first = spec.get("first_start")
        if first and any(tries[d] == 1 and host_of(d) in first["hosts"] for d in (devices if coupled else own)):
            delay += first["seconds"]
        part = {"act": "answer", "delay": delay, "words": "", "answer": answer}

        mine = [e for e, hit in hard if any(d in hit for d in own)]
        if mine:
            effect = mine[0]
            play(part, effect, True, size)
        else:
            for effect, _ in hard:
                spread = effect.get("spread", "reset")
                if spread == "none" or size == 1:
                    continue
                if spread == "same":
                    play(part, effect, False, size)
                else:
                    part.update(act="exit", code=1, delay=0.2, words=(
                        "RuntimeError: collective failed: Connection reset by peer\n"))
                break
        parts[rank] = part
    return parts


def play(part, effect, own, size):
    """Put an effect into a member's part."""
    what = effect["effect"]
    if what == "late":
        if size == 1:
            part["delay"] += effect["seconds"]
        elif own:
            part.update(act="exit", code=1, delay=effect["seconds"],
                        words="ConnectionRefusedError: [Errno 111] store is gone\n")
        else:
            part.update(act="exit", code=1, delay=effect["patience"],
                        words="TimeoutError: store: not all members came within %.1f s\n" % effect["patience"])
    elif what == "wrong":
        part["answer"]["ok"] = False
        part["answer"]["detail"] = effect.get("words", "answer differs from the known one: 4095.9697 for 4096")
    elif what == "segv":
        part.update(act="segv", words=effect.get("words", ""))
    elif what == "exit":
        part.update(act="exit", code=effect.get("code", 1), words=effect.get("words", ""))
    elif what in ("hang", "deaf"):
        part.update(act=what if own or effect.get("spread") != "same" else "hang")
    else:
        part.update(act=what)


# ---- a member -----------------------------------------------------------------------------------------------------
def owners(told):
    """told: (host, device numbers, local rank) by rank -> devices of each rank."""
    lists = {}
    for host, numbers, _ in told:
        lists.setdefault(host, []).append(numbers)
    result = []
    for host, numbers, local in told:
        same = lists[host]
        if len(same) > 1 and len(numbers) > 1 and all(n == same[0] for n in same):
            numbers = [numbers[local % len(numbers)]]
        result.append(["%s:%d" % (host, n) for n in numbers])
    return result


def count(state, probe, devices):
    """One more start of each device; the number of starts so far."""
    tries = {}
    for device in devices:
        fd = os.open(os.path.join(state, "%s.%s" % (probe, device.replace(":", "."))),
                     os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, b"x")
        tries[device] = os.fstat(fd).st_size
        os.close(fd)
    return tries


def since(state):
    path = os.path.join(state, "began")
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.close(fd)
    except FileExistsError:
        pass
    return max(0.0, time.time() - os.stat(path).st_mtime)


def picture(state, probe, told):
    members = owners(told)
    return {"members": members, "tries": count(state, probe, [d for m in members for d in m]),
            "elapsed": round(since(state), 3)}


def to_json(x):
    if x is True or x is False:
        return "true" if x else "false"
    if isinstance(x, str):
        return quoted(x)
    if isinstance(x, dict):
        return "{%s}" % ", ".join("%s: %s" % (quoted(k), to_json(v)) for k, v in x.items())
    return repr(x)


def read_world(path):
    """A world's JSON is a Python literal but for three words."""
    with open(path, encoding="utf-8") as f:
        return eval(f.read(), {"__builtins__": {}, "true": True, "false": False, "null": None})


def read_all(connection, until):
    data = b""
    while True:
        connection.settimeout(max(0.01, until - time.monotonic()))
        more = connection.recv(65536)
        if not more:
            break
        data += more
    return marshal.loads(data)


def meet(rank, size, mine, state, probe):
    if size == 1:
        return picture(state, probe, [mine])
    place = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ["MASTER_PORT"]))
    until = time.monotonic() + MEET_S
    if rank == 0:
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        while True:
            try:
                server.bind(place)
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        server.listen(256)
        told, open_ = {0: mine}, []
        while len(told) < size:
            server.settimeout(max(0.01, until - time.monotonic()))
            connection = socket.socket(fileno=server._accept()[0])
            try:
                who, what = read_all(connection, until)
            except (OSError, ValueError, EOFError, TypeError):
                continue                                    # somebody else knocked
            told[who] = what
            open_.append(connection)
        result = picture(state, probe, [told[r] for r in range(size)])
        line = marshal.dumps(result)
        for connection in open_:
            try:
                connection.sendall(line)
                connection.close()
            except OSError:
                pass
        server.close()
        return result
    while True:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.settimeout(2.0)
            connection.connect(place)
            connection.sendall(marshal.dumps([rank, mine]))
            connection.shutdown(socket.SHUT_WR)
            result = read_all(connection, until)
            connection.close()
            return result
        except ConnectionRefusedError:
            connection.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def stop(code, words=""):
    sys.stdout.flush()
    if words:
        sys.stderr.write(words)
        sys.stderr.flush()
    os._exit(code)


def main(argv):
    signal.alarm(LIFE_S)
    option = dict(zip(argv[1::2], argv[2::2]))
    world = read_world(argv[0])
    probe, state, salt = option["--probe"], option["--state"], int(option.get("--salt", "0"))
    os.makedirs(state, exist_ok=True)
    env = os.environ
    rank, size = int(env.get("RANK", "0")), int(env.get("WORLD_SIZE", "1"))
    local, host = int(env.get("LOCAL_RANK", "0")), env.get("EMBERWARD_HOST", "")
    numbers = [int(n) for n in env.get("EMBERWARD_DEVICES", "").split(",") if n.strip()] or [local]
    if host not in world["hosts"] or any(not 0 <= n < world["devices"] for n in numbers):
        stop(2, "no such device here: %s:%s\n" % (host, numbers))
    try:
        seen = meet(rank, size, [host, numbers, local], state, probe)
    except (OSError, ValueError, EOFError) as e:
        stop(1, "members did not meet: %s\n" % e)
    part = outcome(world, probe, seen["members"], seen["tries"], seen["elapsed"], salt)[rank]
    act = part["act"]
    if act == "deaf":
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(s, signal.SIG_IGN)
        if os.fork() == 0:
            signal.alarm(LIFE_S)                            # a forked child has no alarm of its parent
    if act in ("hang", "deaf"):
        while True:
            time.sleep(5)
    time.sleep(part["delay"])
    if act == "segv":
        import resource
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stderr.write(part["words"])
        sys.stderr.flush()
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(5)
    if act == "exit":
        stop(part["code"], part["words"])
    if act == "silent":
        stop(0)
    if act == "rubbish":
        os.write(1, b"\x00\xfe{{]]  0x7f3a ?? \xc3\x28 -- ring buffer wrapped\n")
        stop(0)
    print(to_json(part["answer"]))
    stop(0)


if __name__ == "__main__":
    main(sys.argv[1:])
