"""A simulated probe. Usage: python sim.py world.json

It is started on every member of a set at the same time, with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT,
EMBERWARD_HOST and EMBERWARD_DEVICES in its environment, and prints one JSON object. It keeps nothing between calls: what
happens follows from the world file, the environment, and randomness that the members of a set share.
"""

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time

LIFE = 300.0  # a hang ends by itself after this many seconds


def own_environment():
    e = os.environ
    devices = [int(d) for d in e.get("EMBERWARD_DEVICES", "").split(",") if d.strip()]
    return {
        "rank": int(e.get("RANK", "0")),
        "world": int(e.get("WORLD_SIZE", "1")),
        "local": int(e.get("LOCAL_RANK", "0")),
        "host": e.get("EMBERWARD_HOST", "a"),
        "devices": devices or [int(e.get("LOCAL_RANK", "0"))],
        "pid": os.getpid(),
        "token": random.SystemRandom().getrandbits(48),
    }


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:  # a zombie has ended
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def put(path, value):
    part = f"{path}.{os.getpid()}.part"
    with open(part, "w") as f:
        json.dump(value, f)
    os.replace(part, path)


def meet(me, folder, limit):
    """The members of this set, by rank, or None when somebody did not come in time."""
    if me["world"] == 1:
        return [me]
    addr = os.environ.get("MASTER_ADDR", "local").replace("/", "_")
    place = os.path.join(folder, f"{addr}-{os.environ.get('MASTER_PORT', '0')}-{me['world']}")
    os.makedirs(place, exist_ok=True)
    mine = os.path.join(place, str(me["rank"]))
    put(mine, me)

    def roster():
        names = [n for n in os.listdir(place) if n.isdigit()]
        if len(names) < me["world"]:
            return None
        out = []
        for r in range(me["world"]):
            try:
                with open(os.path.join(place, str(r))) as f:
                    m = json.load(f)
            except (OSError, ValueError):
                return None
            if not alive(m["pid"]):
                return None
            out.append(m)
        return out

    pause, until, members = 0.01, time.monotonic() + limit, None
    while members is None and time.monotonic() < until:
        members = roster()
        if members is None:
            time.sleep(pause)
            pause = min(pause * 1.3, 0.1)
    if members is None:
        return None
    # Nobody goes on before all have seen all: a member that ends early would look as if it had never come.
    put(f"{mine}.seen", me["token"])
    until, pause = time.monotonic() + 3.0, 0.01
    while time.monotonic() < until:
        seen = 0
        for m in members:
            try:
                with open(os.path.join(place, f"{m['rank']}.seen")) as f:
                    seen += json.load(f) == m["token"]
            except (OSError, ValueError):
                pass
        if seen == len(members):
            break
        time.sleep(pause)
        pause = min(pause * 1.3, 0.1)
    return members


def device_names(members):
    """For each member the devices it stands for: all of its list when it is alone on its host, else the one of its LOCAL_RANK."""
    per_host = {}
    for m in members:
        per_host[m["host"]] = per_host.get(m["host"], 0) + 1
    out = []
    for m in members:
        d = m["devices"]
        if per_host[m["host"]] > 1 and len(d) > 1:
            d = [d[m["local"] % len(d)]]
        out.append([f"{m['host']}:{x}" for x in d])
    return out


def links(names, exercised):
    """Pairs of devices that this set uses, each with the ranks at its ends."""
    flat = [(rank, d) for rank, ds in enumerate(names) for d in ds]
    n = len(flat)
    if exercised == "ring":
        pairs = {tuple(sorted((i, (i + 1) % n))) for i in range(n)} if n > 1 else set()
    else:
        pairs = {(i, j) for i in range(n) for j in range(i + 1, n)}
    return [(flat[i], flat[j]) for i, j in sorted(pairs)]


def ends(fault, names, used):
    """The ranks at which this fault shows in this set; empty when it does not take part."""
    size = sum(len(ds) for ds in names)
    if size < fault.get("min_set", 1) or size > fault.get("max_set", 10**9):
        return []
    hosts = {d.split(":")[0] for ds in names for d in ds}
    w = fault["where"]
    if w == "anywhere":
        return list(range(len(names)))
    if "device" in w:
        return [r for r, ds in enumerate(names) if w["device"] in ds]
    if "host" in w:
        if fault.get("only_across") and len(hosts) < 2:
            return []
        return [r for r, ds in enumerate(names) if any(d.split(":")[0] == w["host"] for d in ds)]
    hit = []
    for (ra, da), (rb, db) in used:
        ha, hb = da.split(":")[0], db.split(":")[0]
        if "link" in w:
            on = {da, db} == set(w["link"]) or (ha != hb and {ha, hb} == set(w["link"]))
        else:
            left, right = w["switch"]
            on = (ha in left and hb in right) or (ha in right and hb in left)
        if on:
            hit += [ra, rb]
    return sorted(set(hit))


def hang(stubborn):
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    until = time.monotonic() + LIFE
    while time.monotonic() < until:
        time.sleep(1.0)
    os._exit(1)


def answer(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def main():
    with open(sys.argv[1]) as f:
        world = json.load(f)
    me = own_environment()
    folder = world.get("folder") or os.path.join(tempfile.gettempdir(), "sim-" + world["name"])
    os.makedirs(folder, exist_ok=True)
    time.sleep(world.get("start_s", {}).get(me["host"], 0.0))
    members = meet(me, folder, world.get("meet_s", 20.0))
    unit, up = world.get("unit", "GB/s"), world.get("higher_is_better", True)
    if members is None:
        answer(ok=False, value=0.0, unit=unit, higher_is_better=up, detail="timed out: a member of the set did not come")
        return 1
    names = device_names(members)
    mine = names[me["rank"]]
    exercised = world.get("exercised", "all")
    used = links(names, exercised)
    text = world["name"] + ",".join(str(m["token"]) for m in members)
    shared = random.Random(hashlib.sha256(text.encode()).digest())  # equal in all members of this set
    private = random.Random(me["token"])

    if world.get("banner"):
        for line in world["banner"]:
            print(line, flush=True)
    if world.get("stderr_mb"):
        block = ("W driver: retrained lane, corrected error\n" * 1600)[:65536]
        for _ in range(int(world["stderr_mb"] * 16)):
            sys.stderr.write(block)
        sys.stderr.flush()
    if world.get("fork_s") and os.fork() == 0:
        time.sleep(world["fork_s"])  # a helper that keeps stdout and stderr open
        os._exit(0)

    active = []
    for fault in world.get("faults", []):
        at = ends(fault, names, used)
        if at and shared.random() < fault.get("p", 1.0):
            if fault["where"] == "anywhere":
                at = [shared.choice(at)]
            active.append((fault, at))

    busy = set(world.get("busy", []))
    busy_here = [d for d in mine if d in busy]
    busy_set = [d for ds in names for d in ds if d in busy]
    if busy_set and world.get("busy_mode", "refuse") == "refuse":
        what = f"{busy_here[0]} is in use by another process" if busy_here else f"a peer is in use: {busy_set[0]}"
        answer(ok=False, busy=True, value=0.0, unit=unit, higher_is_better=up, detail=what)
        return 0

    time.sleep(world.get("seconds", 0.15) * (1 + 0.1 * private.random()))

    guilty = {f["what"]: me["rank"] in at for f, at in active}
    for fault, at in active:
        here = me["rank"] in at
        if fault["what"] == "hang":
            if here and fault.get("children"):
                for _ in range(fault["children"]):
                    if os.fork() == 0:
                        hang(fault.get("stubborn"))
            hang(fault.get("stubborn") and here)
    crashes = [f for f, _ in active if f["what"] in ("segv", "abort", "exit", "rubbish", "silent")]
    if crashes:
        for kind in ("segv", "abort"):
            if guilty.get(kind):
                sys.stderr.write("Fatal error in device driver\n")
                sys.stderr.flush()
                os.kill(os.getpid(), signal.SIGSEGV if kind == "segv" else signal.SIGABRT)
        if guilty.get("exit"):
            sys.stderr.write("RuntimeError: device error, the launch was refused\n")
            return 1
        if guilty.get("rubbish"):
            sys.stdout.write("\x00\x7fERR 0x%08x\n{\"ok\": tr" % private.getrandbits(32))
            return 0
        if guilty.get("silent"):
            return 0
        if world.get("peers", "error") == "hang":
            hang(False)
        time.sleep(0.1)
        answer(ok=False, value=0.0, unit=unit, higher_is_better=up, detail="connection closed by peer")
        return 1

    ok, detail, factor = True, "", 1.0
    for fault, at in active:
        if fault["what"] == "wrong" and (fault.get("shown", "all") == "all" or me["rank"] in at):
            ok, detail = False, "checksum differs from the expected one"
        if fault["what"] == "slow" and (world.get("report", "set") == "set" or me["rank"] in at):
            factor = min(factor, fault["factor"])
    size = sum(len(ds) for ds in names)
    hosts = {d.split(":")[0] for ds in names for d in ds}
    for least, f in world.get("size_factor", []):
        if size >= least:
            factor *= f
    if len(hosts) > 1:
        factor *= world.get("across_factor", 1.0)
    if busy_set:
        factor *= 0.6
    noise = world.get("noise", 0.01)
    drift = world.get("drift", 0.0) * (2 * shared.random() - 1)
    wobble = shared.gauss(0, noise) if world.get("report", "set") == "set" else private.gauss(0, noise)
    pace = max(factor * (1 + wobble + drift) * (1 + private.gauss(0, noise / 10)), 0.01)
    base = world.get("base", 100.0)
    fields = {
        "ok": ok,
        "value": round(base * pace if up else base / pace, 3),
        "unit": unit,
        "higher_is_better": up,
        "detail": detail or f"{size} devices, noise {noise:.1%}",
    }
    if size > 1:
        fields["exercised"] = exercised
    if busy_here:
        fields["busy"] = True
    answer(**fields)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
