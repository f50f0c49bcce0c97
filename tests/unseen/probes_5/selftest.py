#!/usr/bin/env python3
"""Checks simulator, worlds and scoring without emberward.

    selftest.py            # in one process, some seconds
    selftest.py --starts   # also real starts of machine.py, about 10 s
"""
import copy
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

import machine

HERE = os.path.dirname(os.path.abspath(__file__))


def load():
    worlds = []
    for path in sorted(glob.glob(os.path.join(HERE, "worlds", "*.json"))):
        with open(path, encoding="utf-8") as f:
            worlds.append(json.load(f))
    return worlds


class Bench:
    """Tests of one world without processes: counts the starts of each device as the state folder does."""

    def __init__(self, world, salt="0", age=0.0):
        self.world, self.salt, self.age, self.k = world, salt, age, {}

    def test(self, devices):
        roster = []
        for d in devices:
            self.k[d] = self.k.get(d, 0) + 1
            host, _, number = d.rpartition(":")
            roster.append({"host": host, "devices": [int(number)], "counts": {d: self.k[d]}})
        return machine.stage(self.world, "main", self.salt, roster, self.age)

    def bad(self, devices):
        return any(p["do"] in ("exit", "signal", "hang") or (p["do"] == "answer" and not p["json"].get("busy") and not p["json"]["ok"])
                   for p in self.test(devices))

    def value(self, devices):
        values = [p["json"]["value"] for p in self.test(devices) if p["do"] == "answer" and "value" in p["json"]]
        return values[0] if values else None


def all_devices(world):
    return [f"{h}:{d}" for h in world["hosts"] for d in range(world["per_host"])]


def circle(items, r):
    """Round r of pairs by the circle method; with an odd number one sits out."""
    items = list(items) + ([None] if len(items) % 2 else [])
    n = len(items)
    turn = [items[0]] + [items[1 + (i + r) % (n - 1)] for i in range(n - 1)]
    return [(a, b) for a, b in zip(turn[:n // 2], reversed(turn[n // 2:])) if a and b]


# ---------------------------------------------------------------- early: what chance does for salt 0


def early(world, salt="0"):
    """Complaints about what chance does in the first starts; make_worlds.py takes the first seed without any.

    Faults of chance show soon enough: a fault in one of n strikes twice within 2n starts of the device and three times
    within 4n, because a doctor that starts each device 2n times has done its share; and within 10n starts between 6 and 15
    times, so that the first strikes are not bought with a higher rate. No gift either: the second strike comes after n/2 starts,
    and no more than seven come within 4n.
    Sound parts are not struck twice early on. Beside a fault of chance: in rounds of pairs the first two strikes meet two
    different partners. Where the probe itself fails by chance: before any device is struck a second time, half of all devices were struck
    once (alone, round by round, and in rounds of pairs), because a thing that happened twice to one and to nobody else is
    evidence. Later counts never stand out: no device has so many strikes that chance gives that to somebody in fewer than
    one of ten campaigns.
    Noise: no sound device is low twice in its first four starts, by the measure of its world.
    """
    out = []
    sim, devices = world["sim"], all_devices(world)
    for part in sim.get("sick", ()):
        p = part.get("chance", 1.0)
        if p >= 1.0:
            continue
        bench, n = Bench(world, salt), round(1 / p)
        hits = [k + 1 for k in range(10 * n) if bench.bad([part["device"]])]
        if len(hits) < 3 or hits[1] > 2 * n or hits[2] > 4 * n:
            out.append(f"{part['device']} does not strike twice in {2 * n} starts and three times in {4 * n}: {hits[:4]}")
        if not 6 <= len(hits) <= 15:
            out.append(f"{part['device']} strikes {len(hits)} times in {10 * n}")
        if len(hits) > 1 and hits[1] <= n / 2 or sum(k <= 4 * n for k in hits) > 7:
            out.append(f"{part['device']} strikes too often early on: {hits}")
        bench = Bench(world, salt)
        struck = [set(s) for r in range(4 * n) for s in circle(devices, r) if bench.bad(list(s))][:2]
        if len(struck) < 2 or struck[0] & struck[1] != {part["device"]}:
            out.append(f"rounds of pairs: the first two strikes share more than {part['device']}: {struck}")
    flaky = sim.get("flaky")
    if flaky:
        n = round(1 / flaky["chance"])
        singles, pairs = Bench(world, salt), Bench(world, salt)
        for label, tests in (("alone", ([[d] for d in devices] for _ in range(5 * n))),
                             ("in pairs", (circle(devices, r) for r in range(5 * n)))):
            bench = singles if label == "alone" else pairs
            hit, total, doubled = {d: 0 for d in devices}, 0, False
            for r, sets in enumerate(tests):
                for s in sets:
                    if bench.bad(list(s)):
                        total += 1
                        for d in s:
                            hit[d] += 1
                struck = sum(1 for d in devices if hit[d])
                if max(hit.values()) >= 2 and not doubled:
                    doubled = True
                    if struck < len(devices) / 2:
                        out.append(f"{label}: somebody is struck twice in round {r + 1}, when only {struck} were struck at all")
                top = max(hit.values())
                tests_of_one, rate = r + 1, flaky["chance"]
                tail = 1.0 - sum(binomial(tests_of_one, i, rate) for i in range(top))
                if top >= 2 and tail * len(devices) < 0.1:
                    out.append(f"{label}: {top} strikes in {tests_of_one} rounds stand out")
                    break
    low = {"s02-heavy-tails": 0.08, "s12-noise-of-64": 0.06, "s08-thermal-drift": 0.025}.get(world["name"])
    if low:
        bench = Bench(world, salt)
        for d in devices:
            few = [bench.value([d]) / sim["value"]["alone"] for _ in range(4)]
            if sum(v < 1 - low for v in few) >= 2:
                out.append(f"{d} is low twice in four starts: {few}")
                break
    return out


def binomial(n, k, p):
    return machine.math.comb(n, k) * p ** k * (1 - p) ** (n - k)


# ---------------------------------------------------------------- each world does what its text says


def check_world(w, say):
    name, sim, devices = w["name"], w["sim"], all_devices(w)
    hosts, per = w["hosts"], w["per_host"]
    say(len(set(hosts)) == len(hosts) and 4 <= len(hosts) <= 64 and 1 <= per <= 8, name, "4 to 64 hosts with 1 to 8 devices")
    say(w["kind"] == ("fault" if w["truth"] else "sound"), name, "kind and truth agree")
    for t in w["truth"]:
        for a in t["accept"]:
            for n in a["names"]:
                for part in n if isinstance(n, list) else [n]:
                    say(part in (devices if a["kind"] in ("device", "link") else hosts), name, f"{part} exists")
    complaints = early(w)
    say(not complaints, name, f"chance for salt 0: {complaints}")
    sick_devices = {p["device"] for p in sim.get("sick", ()) if "device" in p}
    sound_alone = [d for d in devices if d not in sick_devices]

    bench = Bench(w)
    if "everywhere" in sim:
        say(all(bench.bad([d]) for d in devices), name, "fails everywhere")
        return
    if not sim.get("flaky"):
        say(not any(bench.bad([d]) for d in sound_alone for _ in range(3)), name, "no sound device fails alone")
    for part in sim.get("sick", ()):
        one = part.get("chance", 1.0) >= 1.0
        busy = set(sim.get("busy", ()))
        others = [d for d in sound_alone if d not in busy and not any(d in p.get("link", ()) for p in sim["sick"])
                  and not any(d.rpartition(":")[0] in p.get("network", ()) for p in sim["sick"])]
        if "device" in part:
            d = part["device"]
            say(d not in busy, name, "the sick device is free")
            if part["does"] != "slow" and one:
                alone = part.get("when", "always") == "always"
                say(all(bench.bad([d]) == alone for _ in range(3)), name, f"{d} alone")
                say(all(bench.bad([d, o]) and bench.bad([o, d]) for o in others[:3]), name, f"{d} in company")
            if part["does"] == "slow":
                mine = [bench.value([d]) for _ in range(40)]
                theirs = [bench.value([o]) for o in others[:40]]
                up = sim["value"].get("higher", True)
                share = (sum(mine) / len(mine)) / (sum(theirs) / len(theirs))
                share = share if up else 1 / share
                say(abs(share - (1 - part["by"])) < 0.012, name, f"{d} has {share:.3f} of the speed")
                pair = bench.value([d, others[0]])
                say((pair if up else 1 / pair) < (min(theirs) if up else 1 / max(theirs)), name, "slow in company too")
        elif "link" in part:
            a, b = part["link"]
            if part["does"] == "slow":
                good = bench.value([a, others[0]])
                say(bench.value([a, b]) < 0.7 * good and bench.value([b, a]) < 0.7 * good, name, "the link is slow")
                say(bench.value([a, others[0], b, others[1]]) > 0.9 * good, name, "no neighbours in the ring, no harm")
                say(bench.value([a, others[0], others[1], b]) < 0.7 * good, name, "the ring is closed")
            else:
                say(bench.bad([a, b]) and bench.bad([b, others[0], a]), name, "the link is broken")
            say(not any(bench.bad([e, o]) for e in (a, b) for o in others), name, "both ends are good with the others")
        else:
            inner = [d for d in devices if d.rpartition(":")[0] in part["network"]]
            if part["does"] == "slow":
                good = bench.value(others[:2])
                say(all(bench.value([d, o]) < 0.65 * good for d in inner for o in others[:3]), name, "slow over the network")
                say(bench.value(inner[:2]) < 0.65 * good, name, "slow behind the switch too")
            else:
                say(all(bench.bad([d, o]) for d in inner for o in others[:3]), name, "fails over the network")
                say(not bench.bad(inner), name, "good within the host")
    # sets of sound parts only are good
    linked = {e for p in sim.get("sick", ()) for e in p.get("link", ())[:1]}
    net = {h for p in sim.get("sick", ()) for h in p.get("network", ())}
    good = [d for d in sound_alone if d not in linked and d.rpartition(":")[0] not in net]
    if not sim.get("flaky"):
        say(not bench.bad(good), name, "all sound devices together are good")
    if w["kind"] == "sound" and not sim.get("flaky"):
        sums = Bench(w)
        say(not any(sums.bad(list(s)) for r in range(3) for s in circle(devices, r)), name, "pairs are good")


# ---------------------------------------------------------------- the scoring


def check_scoring(worlds, say):
    import score
    for w in worlds:
        for which in (0, -1):
            verdicts = [verdict_of(t["accept"][which]) for t in w["truth"]]
            got = score.judge(w, verdicts)
            say(got["right"], w["name"], f"the truth is right: {got}")
        if w["truth"]:
            say(not score.judge(w, [])["right"], w["name"], "silence is not right")
            first = verdict_of(w["truth"][0]["accept"][0])
            say(score.judge(w, [first])["right"] == (len(w["truth"]) == 1), w["name"], "one of several is not enough")
        named = {n for t in w["truth"] for a in t["accept"] for n in json.dumps(a["names"]).split('"')}
        innocent = next(d for d in all_devices(w) if d not in named)
        also = [verdict_of(t["accept"][0]) for t in w["truth"]] + [{"kind": "device", "devices": [innocent], "certainty": 0.9}]
        say(not score.judge(w, also)["right"], w["name"], "naming an innocent is wrong")
    f15 = next(w for w in worlds if w["name"].startswith("f15"))
    say(score.judge(f15, [{"kind": "link", "links": [["glen3:5", "glen3:1"]]}])["right"], "scoring", "ends in either order")
    f18 = next(w for w in worlds if w["name"].startswith("f18"))
    say(score.judge(f18, [{"kind": "link", "links": [["quay5", "quay2:0"]]}])["right"], "scoring", "host for its only device")
    f19 = next(w for w in worlds if w["name"].startswith("f19"))
    say(not score.judge(f19, [{"kind": "device", "devices": ["holt2:0", "holt2:1"]}])["right"], "scoring", "half a host is not enough")
    say(score.judge(f19, [{"kind": "device", "devices": [f"holt2:{d}"]} for d in range(4)])["right"], "scoring", "four verdicts as one")
    s01 = next(w for w in worlds if w["name"].startswith("s01"))
    say(not score.judge(s01, None)["right"], "scoring", "no readable answer is not right")


def verdict_of(accept):
    field = {"device": "devices", "link": "links", "host": "hosts", "switch": "hosts"}[accept["kind"]]
    return {"kind": accept["kind"], field: copy.deepcopy(accept["names"]), "certainty": 0.99}


# ---------------------------------------------------------------- real starts


def start(world, sets, state, port, salt="0", shared=False, limit=4.0):
    """Starts the members of each set at once; returns for each (rc, stdout, stderr, seconds)."""
    began, children = time.monotonic(), []
    for i, members in enumerate(sets):
        seen = {}
        for rank, d in enumerate(members):
            host, _, number = d.rpartition(":")
            local = seen.get(host, 0)
            seen[host] = local + 1
            given = ",".join(m.rpartition(":")[2] for m in members if m.rpartition(":")[0] == host) if shared else number
            env = {"PATH": os.environ.get("PATH", ""), "RANK": str(rank), "WORLD_SIZE": str(len(members)), "LOCAL_RANK": str(local),
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port + i), "EMBERWARD_HOST": host, "EMBERWARD_DEVICES": given}
            children.append(subprocess.Popen(
                [sys.executable, "-I", "-S", os.path.join(HERE, "machine.py"), os.path.join(HERE, "worlds", world + ".json"),
                 "--probe", "main", "--state", state, "--salt", salt],
                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    results = []
    for c in children:
        try:
            out, err = c.communicate(timeout=max(0.1, limit - (time.monotonic() - began)))
            results.append((c.returncode, out, err))
        except subprocess.TimeoutExpired:
            c.terminate()
            try:
                out, err = c.communicate(timeout=0.5)
                results.append((c.returncode, out, err))
            except subprocess.TimeoutExpired:
                c.kill()
                c.communicate()
                results.append(("deaf", "", ""))
    return results


def check_starts(say):
    with tempfile.TemporaryDirectory(prefix="probes_5_test.") as root:
        check_starts_in(root, say)


def check_starts_in(root, say):
    def fresh():
        return tempfile.mkdtemp(dir=root)
    port = 20000 + os.getpid() % 12000
    r = start("f01-no-such-device", [["kiln01:0"], ["kiln02:3"]], fresh(), port)
    say(r[0][0] == 0 and json.loads(r[0][1])["ok"] and r[1][0] == 46, "start", f"dead: {r}")
    r = start("f02-segv-reset", [["ash1:0", "ash5:1", "ash2:0"]], fresh(), port + 10)
    say([x[0] for x in r] == [1, -11, 1] and "libnccl" in r[1][2] and "reset" in r[0][2], "start", f"segv: {r}")
    r = start("f03-hang-deaf", [["coal-09:1", "coal-01:0"]], fresh(), port + 20)
    say([x[0] for x in r] == ["deaf", -15], "start", f"hang: {r}")
    r = start("f16-two-links-apart", [["ford1:0", "ford6:0"], ["ford1:0", "ford2:0"]], fresh(), port + 30)
    say([json.loads(x[1])["ok"] for x in r] == [False, False, True, True], "start", f"links: {r}")
    r = start("s10-rank-0-answers", [["hop1:0", "hop1:1", "hop2:0"]], fresh(), port + 40, shared=True)
    say(json.loads(r[0][1])["ok"] and [x[1] for x in r[1:]] == ["", ""] and all(x[0] == 0 for x in r), "start", f"rank 0: {r}")
    r = start("f15-bad-link-inside", [["glen3:1", "glen3:5", "glen3:2"]], fresh(), port + 50, shared=True)
    say(["error 12" in x[2] for x in r] == [True, True, False], "start", f"LOCAL_RANK picks from a shared list: {r}")
    state = fresh()
    w = next(w for w in load() if w["name"].startswith("f05"))
    bench = Bench(w)
    for i in range(6):
        want = bench.test(["fern3:2"])[0]["json"]
        got = json.loads(start(w["name"], [["fern3:2"]], state, port + 60)[0][1])
        say(got == want, "start", f"a start gives what stage() gives: {got} {want}")
    state = fresh()
    before = os.times()
    start("f21-dead-and-slow", [[f"heath{i:02}:0"] for i in range(1, 25)], state, port + 70, limit=20.0)
    after = os.times()
    each = (after[2] + after[3] - before[2] - before[3]) / 24
    print(f"processor time of a start: {each:.3f} s")
    began = time.monotonic()
    r = start("f12-slow-5-of-64", [[f"cr{i:02}:0" for i in range(1, 65)]], state, port + 71, limit=20.0)
    values = {json.loads(x[1])["value"] for x in r if x[1]}
    print(f"a set of 64: {time.monotonic() - began:.1f} s")
    say(len(values) == 1 and max(values) < 148.7 * 0.97, "start", f"a set of 64 is slow for all alike: {values} {r[0][2]}")


def main():
    failures, checks = [], 0

    def say(ok, world, text):
        nonlocal checks
        checks += 1
        if not ok:
            failures.append(f"{world}: {text}")

    worlds = load()
    say(len(worlds) == 36 and sum(w["kind"] == "fault" for w in worlds) == 24, "worlds", "24 with a fault, 12 sound")
    for w in worlds:
        check_world(w, say)
    check_scoring(worlds, say)
    if "--starts" in sys.argv:
        check_starts(say)
    for f in failures:
        print("FAILED", f)
    print(f"{checks} checks, {len(failures)} failed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
