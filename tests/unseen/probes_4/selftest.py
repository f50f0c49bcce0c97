#!/usr/bin/env python3
"""Checks simulator, truth and scoring, without the doctor.

    python3 selftest.py            in this process
    python3 selftest.py --starts   also with real starts of members (about two minutes)
"""
import copy
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import machine      # noqa: E402
import score        # noqa: E402


def devices(w):
    return ["%s:%d" % (h, i) for h in w["hosts"] for i in range(w["devices"])]


def roster(devs, n):
    return [{"host": d.split(":")[0], "devices": [d.split(":")[1]], "local": 0, "count": n} for d in devs]


def look(w, probe, devs, n, salt="0"):
    """What each member does, in short: (do, ok, value)."""
    return [(a["do"], a["say"].get("ok"), a["say"].get("value"), a["say"].get("busy", False)) if a["do"] == "answer" else (a["do"], None, None, False)
            for a in machine.plan(w, probe, salt, roster(devs, n))]


def fails(seen):
    return any(not busy and (do != "answer" or not ok) for do, ok, _, busy in seen)


def bare(w, with_faults=True):
    """The same machine without noise, look-alikes and stray errors, chance made certain."""
    w = copy.deepcopy(w)
    s = w["sim"]
    for k in ("tail", "drift", "cold", "late", "busy"):
        s.pop(k, None)
    s["noise"] = 0
    s["faults"] = [dict(f, p=1) for f in s["faults"] if f.get("where") != "*"] if with_faults else []
    return w


def sick(b, clean, probe, devs):
    """Does the test show a fault: does it differ from the same machine without faults?"""
    x, y = look(b, probe, devs, 5), look(clean, probe, devs, 5)
    if fails(x):
        return True
    return any(p[2] is not None and abs(p[2] / q[2] - 1) > 0.03 for p, q in zip(x, y))


def touches(devs, bad):
    """Does a test of these devices hold the bad part, by truth alone?"""
    kind, parts = bad["accepted"][0]["kind"], bad["accepted"][0]["parts"]
    hosts = {d.split(":")[0] for d in devs}
    if kind == "device":
        return any(d in parts for d in devs)
    if kind == "host":
        return bool(hosts & set(parts))
    if kind == "switch":
        return bool(hosts & set(parts)) and bool(hosts - set(parts))
    return any(set(p) <= set(devs) for p in parts)


def check_truth(w, t):
    b, clean = bare(w), bare(w, False)
    devs, rng = devices(w), random.Random(w["name"])
    sets = [[d] for d in devs]
    pairs = [list(p) for p in itertools.combinations(devs, 2)]
    sets += pairs if len(pairs) < 1000 else rng.sample(pairs, 1000)
    for _ in range(200):
        sets.append(rng.sample(devs, rng.randint(1, len(devs))))
    for bad in t["bad"]:                # every test that could tell something about the bad part
        for p in bad["accepted"][0]["parts"]:
            ends = p if isinstance(p, list) else [d for d in devs if d == p or d.split(":")[0] == p]
            sets += [[e, d] for e in ends for d in devs if d != e]
    hit = {bad["fault"]: 0 for bad in t["bad"]}
    for s in sets:
        shows = any(sick(b, clean, probe, s) for probe in w["probes"])
        touching = [bad["fault"] for bad in t["bad"] if touches(s, bad)]
        assert not shows or touching, (w["name"], "shows without a bad part", s)
        for x in touching:
            hit[x] += shows
        if touching and not shows:      # silent only where the fault asks for company or for the network
            scopes = {f.get("when", "always") for f in b["sim"]["faults"]}
            ring = any(p.get("exercised") == "ring" for p in w["probes"].values())
            assert ring and len(s) > 2 or "company" in scopes and len(s) == 1 or "cross" in scopes and len({d.split(":")[0] for d in s}) == 1, \
                (w["name"], "silent with a bad part", s)
    assert all(hit.values()), (w["name"], hit)
    every = look(clean, next(iter(w["probes"])), devs, 5)
    assert not fails(every)


def rounds(w, n, probe=None):
    """n rounds of starts alone: for each device the numbers of those that fail."""
    probe = probe or next(iter(w["probes"]))
    return {d: [i for i in range(1, n + 1) if fails(look(w, probe, [d], i))] for d in devices(w)}


def check_chance(w, t):
    """Salt 0: a fault of chance shows soon, and stray errors do not pick on a sound device."""
    bad = {p for x in t["bad"] for p in x["accepted"][0]["parts"] if isinstance(p, str)}
    chance = [f for f in w["sim"]["faults"] if f.get("p", 1) < 1]
    if not chance:
        return
    r = rounds(w, 10)
    for f in chance:
        if f.get("where") != "*":
            got = r[f["where"][0]]
            assert got and got[0] <= 3 and len(got) >= 3, (w["name"], f["where"], got)
    sound = {d: [i for i in x if i <= 6] for d, x in r.items() if d not in bad and d.split(":")[0] not in bad}
    many = 2 if w["probes"]["main"].get("tries", 1) > 1 and t["sound"] else 1
    assert max(map(len, sound.values())) <= many, (w["name"], {d: x for d, x in sound.items() if len(x) > 1})


def check_values(w, t):
    """A slow part is told from noise with few starts."""
    for f in w["sim"]["faults"]:
        if "slow" in f:
            assert f["slow"] >= 8 * w["sim"].get("noise", 0.005), (w["name"], f)


def check_score(truth):
    for n, t in truth.items():
        assert score.judge(t, [])["right"] == all(b["nobody_accepted"] for b in t["bad"]), n
        for choice in itertools.product(*[b["accepted"] for b in t["bad"]]):
            v = [{"kind": a["kind"], "devices": [], "hosts": [], "links": [], score.FIELD[a["kind"]]: a["parts"]} for a in choice]
            assert score.judge(t, v)["right"], (n, choice)
            v.append({"kind": "device", "devices": ["other:0"], "hosts": [], "links": []})
            assert not score.judge(t, v)["right"], n
    t = truth["f23-dead-and-slow"]
    r = score.judge(t, [{"kind": "device", "devices": ["pod2:1"]}])
    assert r["missed"] == ["B"] and not r["right"] and not r["wrongly_named"]
    t = truth["f07-two-nodes"]
    assert score.judge(t, [{"kind": "link", "links": [["beta", "alpha"]]}])["right"]
    assert not score.judge(t, [{"kind": "host", "hosts": ["beta"]}])["right"]


# ---------------------------------------------------------------- real starts

def start(w, probe, devs, state, limit=8.0, shared=False):
    """Starts the members of one test for real; their ends: ("exit", code, answer) or ("hang",)."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    procs, local = [], {}
    lists = {}
    for d in devs:
        lists.setdefault(d.split(":")[0], []).append(d.split(":")[1])
    for r, d in enumerate(devs):
        h, i = d.split(":")
        local[h] = local.get(h, -1) + 1
        env = {"PATH": os.environ["PATH"], "RANK": str(r), "WORLD_SIZE": str(len(devs)), "LOCAL_RANK": str(local[h]),
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "EMBERWARD_HOST": h,
               "EMBERWARD_DEVICES": ",".join(lists[h]) if shared else i}
        procs.append(subprocess.Popen([sys.executable, "-I", "-S", os.path.join(HERE, "machine.py"), os.path.join(HERE, "worlds", w["name"] + ".json"),
                                       "--probe", probe, "--state", state, "--salt", "0"],
                                      env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    end, out = time.monotonic() + limit, []
    for p in procs:
        try:
            so, se = p.communicate(timeout=max(0.2, end - time.monotonic()))
            out.append(("exit", p.returncode, json.loads(so) if so.strip() else None, se.decode()))
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            p.communicate()
            out.append(("hang",))
    return out


def same(real, act):
    if act["do"] in ("hang", "deaf"):
        return real[0] == "hang"
    if real[0] == "hang":
        return False
    if act["do"] == "answer":
        return real[1] == 0 and real[2] == act["say"]
    return real[2] is None and real[1] == (act["code"] if act["do"] == "exit" else -act["signal"]) and bool(real[3])


def check_starts(w, t, state, quick):
    devs = devices(w)
    bad = []
    for x in t["bad"]:
        for p in x["accepted"][0]["parts"]:
            bad += p if isinstance(p, list) else [d for d in devs if d == p or d.split(":")[0] == p]
    good = [d for d in devs if d not in bad]
    plans = []
    for d in dict.fromkeys((bad[:1] or []) + (bad[-1:] if len(t["bad"]) > 1 else [])):
        near = [g for g in good + bad[1:] if g.split(":")[0] == d.split(":")[0]][:1]
        far = [g for g in good if g.split(":")[0] != d.split(":")[0]][:1]
        plans += [[d], [d] + near + far]
    if len(t["bad"]) and t["bad"][0]["accepted"][0]["kind"] == "link":
        plans.append(bad[:2])
    plans += [good[:1], good[::max(1, len(good) // 5)][:5]]
    counts, n = {}, 0
    for probe in w["probes"]:
        counts.clear()
        for s in plans:
            if not s:
                continue
            for d in s:
                counts[d] = counts.get(d, 0) + 1
            ros = [dict(m, count=counts[d]) for m, d in zip(roster(s, 0), s)]
            acts = machine.plan(w, probe, "0", ros)
            hangs = any(a["do"] in ("hang", "deaf") for a in acts)
            real = start(w, probe, s, state, 4.0 if hangs else 25.0)
            n += len(s)
            for d, r, a in zip(s, real, acts):
                assert same(r, a), (w["name"], probe, s, d, r, a)
    return n


def check_shared():
    """Members that all get the list of their host pick by LOCAL_RANK; a member that owns several uses them all."""
    w = score.load("worlds/f12-nvlink-of-one.json")
    with tempfile.TemporaryDirectory() as tmp:
        r = start(w, "main", ["bigbox:4", "bigbox:5"], tmp, shared=True)
        assert [x[1] for x in r] == [1, 1], r
        r = start(w, "main", ["bigbox:3", "bigbox:4"], tmp, shared=True)
        assert [x[2]["ok"] for x in r] == [True, True], r
    one = [{"host": "bigbox", "devices": ["4", "5"], "local": 0, "count": 1}]
    assert machine.plan(w, "main", "0", one)[0]["do"] == "exit"


def main():
    truth = score.load("truth.json")
    worlds = {n: score.load("worlds/%s.json" % n) for n in truth}
    assert len(worlds) == 36 and sum(t["sound"] for t in truth.values()) == 12
    began = time.monotonic()
    problems = []
    for n, w in worlds.items():
        assert w["name"] == n and 1 <= len(w["hosts"]) <= 16 and 1 <= w["devices"] <= 8
        for check in (check_truth, check_chance, check_values):
            try:
                check(w, truth[n])
            except AssertionError as e:
                problems.append(e)
                print("PROBLEM", check.__name__, e)
    check_score(truth)
    print("in process: %.1f s, %d problems" % (time.monotonic() - began, len(problems)))
    if "--starts" in sys.argv:
        only = sys.argv[sys.argv.index("--starts") + 1:]
        began, starts = time.monotonic(), 0
        cpu = os.times()
        for n, w in worlds.items():
            if only and not any(n.startswith(x) for x in only):
                continue
            with tempfile.TemporaryDirectory() as tmp:
                starts += check_starts(w, truth[n], tmp, True)
        check_shared()
        used = os.times()
        print("real starts: %d, %.1f s, %.3f s of processor time each" % (
            starts, time.monotonic() - began, (used.children_user + used.children_system - cpu.children_user - cpu.children_system) / max(1, starts)))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
