#!/usr/bin/env python3
"""Checks the simulator and the scoring without emberward.

    selftest.py            in-process: outcomes of chosen sets, chance, scoring (under 10 s)
    selftest.py --starts   starts members for real, for some worlds (about 30 s)
"""
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

import machine
import score

HERE = os.path.dirname(os.path.abspath(__file__))
WORLDS = {w["name"]: w for _, w in score.load()}
COUNT = {}


def test(w, devs, probe="main", style="A"):
    """One start of a set of devices, in-process; a list of (action, what)."""
    local, members = {}, []
    for d in devs:
        h, i = d.split(":")
        COUNT[w["name"], d] = COUNT.get((w["name"], d), -1) + 1
        lr = local[h] = local.get(h, -1) + 1
        members.append({"host": h, "lrank": lr, "devs": [i], "n": COUNT[w["name"], d]})
    if style == "B":
        for m in members:
            m["devs"] = [x.split(":")[1] for x in devs if x.split(":")[0] == m["host"]]
    return machine.outcome(w, probe, members)


def everything(w):
    return ["%s:%d" % (h, i) for h in w["hosts"] for i in range(w["devices_per_host"])]


def fails(acts):
    return any(a != "answer" or not x["ok"] or "value" not in x for a, x in acts if not (a == "answer" and x.get("busy")))


def value(acts):
    vs = [x["value"] for a, x in acts if a == "answer" and "value" in x]
    return sum(vs) / len(vs) if vs else None


def medians(w, ds, k=9):
    out = {}
    for d in ds:
        vs = sorted(v for v in (value(test(w, [d])) for _ in range(k)) if v is not None)
        if vs:
            out[d] = vs[len(vs) // 2]
    return out


def check_worlds():
    W = WORLDS
    # every world's names exist, and its truth names only what is there
    seen = {}
    for w in W.values():
        all_devs = set(everything(w))
        assert len(w["hosts"]) == len(set(w["hosts"])) and 2 <= len(w["hosts"]) <= 64 and 1 <= w["devices_per_host"] <= 8
        for h in w["hosts"]:
            assert seen.setdefault(h, w["name"]) == w["name"], h
        for t in w["truth"]:
            assert set(t["devices"]) <= all_devs and set(t["hosts"]) <= set(w["hosts"]), w["name"]
            assert all(e in all_devs for l in t["links"] for e in l), w["name"]
        assert len(json.dumps(w)) < 40000 and machine.load(w["name"]) == w
        assert float(w["arguments"][1]) <= 60

    def pair(w, a, b, **k):
        return test(W[w], [a, b], **k)

    # devices bad alone
    for name, bad in (("f01-dead-alone", "dka03:5"), ("f02-segv-native", "sgv6:0"), ("f04-hang-deaf", "dea11:0")):
        for d in everything(W[name]):
            assert fails(test(W[name], [d])) == (d == bad), d
        good = [d for d in everything(W[name]) if d != bad]
        assert not fails(test(W[name], good)) and fails(test(W[name], good[:3] + [bad]))
        acts = test(W[name], good[:2] + [bad])
        assert {a for a, _ in acts[:2]} <= {"reset", "hang"} and acts[2][0] not in ("reset", "answer")
    # bad in company of m or more
    for name, bad, m in (("f03-seed2-gpu7", "lab1:7", 2), ("f05-hang-in-company", "hic2:1", 2), ("f12-company-of-3", "tri3:3", 3),
                         ("f20-busy-and-bad", "bab3:6", 2), ("f23-one-rank-answers", "ora4:1", 2)):
        w = W[name]
        good = [d for d in everything(w) if d != bad and d not in w.get("busy", {}).get("always", ())]
        assert not any(fails(test(w, [d])) for d in everything(w)) and not fails(test(w, good))
        for n in range(2, 6):
            assert fails(test(w, good[:n - 1] + [bad])) == (n >= m), (name, n)
            assert fails(test(w, [bad] + good[:n - 1])) == (n >= m), (name, n)
            assert fails(test(w, ([bad] + good[:n - 1])[::-1], style="B")) == (n >= m), (name, n)
            assert not fails(test(w, good[:n]))
    b = W["f20-busy-and-bad"]
    assert test(b, ["bab3:0"])[0][1]["busy"] and not fails(test(b, ["bab3:6", "bab3:0"]))
    # chance: the fault shows soon and often enough, and nobody else's
    for name, bad, k in (("f06-wrong-1-of-3", "wrt5:0", 3), ("f07-wrong-1-of-6", "wrs2:0", 6)):
        w = W[name]
        shows = [fails(test(w, [bad])) for _ in range(20 * k)]
        assert 10 <= sum(shows) <= 30 and sum(shows[:2 * k]) >= 2 and sum(shows[:4 * k]) >= 3, (name, [i for i, s in enumerate(shows) if s])
        print("   %s shows in starts %s" % (name, [i for i, s in enumerate(shows) if s][:12]))
        for d in everything(w):
            assert d == bad or not any(fails(test(w, [d])) for _ in range(10))
        assert not fails(test(w, [d for d in everything(w) if d != bad]))
    # slow ones
    for name, bad, by in (("f08-slow-10-of-64", "jz41:0", .90), ("f09-slow-7-of-32", "svn18:0", .93),
                          ("f10-slow-12-noisy-ms", "twl3:1", 1.12), ("f18-two-at-once", "two13:1", .65),
                          ("f19-three-at-once", "thr8:1", .75)):
        m = medians(W[name], everything(W[name]))
        med = sorted(m.values())[len(m) // 2]
        dead = {"two04:0", "thr3:0"}
        worst = sorted(m, key=lambda d: -abs(m[d] / med - 1))[0]
        assert worst == bad and abs(m[bad] / med - by) < .02, (name, worst, m[worst] / med)
        assert not dead & set(m)
    one = [value(test(W["f08-slow-10-of-64"], [d])) for d in everything(W["f08-slow-10-of-64"])]
    print("   f08 first look: bad %.3f of the median, the rest from %.3f" % (
        one[40] / sorted(one)[32], sorted(one[:40] + one[41:])[0] / sorted(one)[32]))
    m = medians(W["f24-hot-host"], everything(W["f24-hot-host"]))
    assert all((v < 85) == d.startswith("hot7:") for d, v in m.items())
    w = W["f11-slow-60-in-company"]
    assert value(test(w, ["pci4:2"])) > 95 and value(pair(w["name"], "pci4:2", "pci1:0")) < 45 < value(pair(w["name"], "pci4:1", "pci1:0"))
    # links
    for name, x, y, how in (("f13-bad-partner", "prt1:2", "prt3:1", fails), ("f14-one-way-link", "owl2:0", "owl7:0", lambda a: value(a) < 70),
                            ("f15-ring-link", "rng04:0", "rng09:0", fails)):
        for a, c in itertools.permutations(everything(W[name]), 2):
            assert how(pair(name, a, c)) == ({a, c} == {x, y}), (name, a, c)
    w, ds = W["f15-ring-link"], everything(W["f15-ring-link"])
    assert not fails(test(w, ds)) and fails(test(w, ds[:3] + [ds[3], ds[8]] + ds[4:8])) and fails(test(w, [ds[8], ds[0], ds[3]]))
    assert not fails(test(w, [ds[3], ds[0], ds[8], ds[1]]))
    acts = test(W["f13-bad-partner"], ["prt1:0", "prt1:2", "prt2:0", "prt3:1"])
    assert [a for a, _ in acts] == ["reset", "exit", "reset", "exit"]
    # hosts, switches
    w = W["f16-slow-network-host"]
    assert value(test(w, ["net5:0", "net5:1"])) > 75 and value(test(w, ["net5:0", "net1:1"])) < 25 < 38 < value(test(w, ["net4:0", "net1:1"]))
    w = W["f17-leaf-switch"]
    for a, c in itertools.combinations(w["hosts"], 2):
        assert (value(test(w, [a + ":0", c + ":0"])) < 70) == (a.startswith("r2") != c.startswith("r2"))
    # probes of two, rubbish
    w = W["f21-second-probe"]
    assert not fails(pair(w["name"], "scp2:3", "scp1:0")) and fails(pair(w["name"], "scp2:3", "scp1:0", probe="net"))
    assert not fails(test(w, ["scp2:3"], probe="net")) and not fails(test(w, everything(w)))
    w = W["f22-rubbish-and-no-value"]
    assert [d for d in everything(w) if fails(test(w, [d]))] == ["rub03:0", "rub08:0"]
    # sound ones
    for name in ("s01-busy-devices", "s02-heavy-tails", "s03-slow-start", "s04-outlier-1-in-30", "s05-two-models", "s06-all-slow-64",
                 "s08-flapping-busy", "s09-first-start", "s10-topology"):
        w = W[name]
        for d in everything(w):
            assert not any(fails(test(w, [d])) for _ in range(3))
        assert not fails(test(w, everything(w)))
    for name, tol in (("s01-busy-devices", .02), ("s02-heavy-tails", .08), ("s04-outlier-1-in-30", .02), ("s06-all-slow-64", .04),
                      ("s08-flapping-busy", .03), ("s09-first-start", .03)):
        m = medians(W[name], everything(W[name]))
        med = sorted(m.values())[len(m) // 2]
        assert all(abs(v / med - 1) < tol for v in m.values()), (name, min(m.values()) / med)
    COUNT.clear()
    w = W["s04-outlier-1-in-30"]
    outs = {d: [i for i in range(30) if value(test(w, [d])) < 80] for d in everything(w)}
    print("   s04 outliers alone, by start:", {d: o for d, o in outs.items() if o})
    assert max(len([i for i in o if i < 8]) for o in outs.values()) <= 1, "two outliers on one device within 8 starts"
    assert 8 <= sum(map(len, outs.values())) <= 26
    assert all(fails(test(W["s07-fails-everywhere"], [d])) for d in everything(W["s07-fails-everywhere"]))
    w = W["s12-no-company-anywhere"]
    assert not any(fails(test(w, [d])) for d in everything(w))
    assert all(a == "exit" for a, _ in test(w, everything(w)[:2]))
    w = W["s05-two-models"]
    m = medians(w, everything(w), 3)
    assert sum(v < 80 for v in m.values()) == 6


def check_owners():
    o = machine.owners
    M = lambda h, l, d: {"host": h, "lrank": l, "devs": d.split(",")}
    assert o([M("a", 0, "3"), M("b", 0, "3")]) == [["a:3"], ["b:3"]]
    assert o([M("a", 0, "3"), M("a", 1, "5")]) == [["a:3"], ["a:5"]]
    assert o([M("a", 0, "3,5"), M("a", 1, "3,5"), M("b", 0, "1")]) == [["a:3"], ["a:5"], ["b:1"]]
    assert o([M("a", 0, "0,1"), M("b", 0, "0,1")]) == [["a:0", "a:1"], ["b:0", "b:1"]]
    assert o([M("a", 1, "0,1,2")]) == [["a:1"]]


def check_score():
    for w in WORLDS.values():
        must = [t for t in w["truth"] if not t.get("wider")]
        assert score.judge(w, must)[0], w["name"]
        for t in w["truth"]:            # the wider namings, each for its fault
            rest = [m for m in must if m["fault"] != t["fault"]]
            assert score.judge(w, rest + [t])[0], w["name"]
        other = {"kind": "device", "devices": [next(d for d in everything(w) if d not in json.dumps(w["truth"]))]
                 if len(everything(w)) > 1 and any(d not in json.dumps(w["truth"]) for d in everything(w)) else ["x:9"]}
        assert not score.judge(w, must + [other])[0], w["name"]
        if must:
            assert not score.judge(w, [])[0] and (len(must) == 1 or not score.judge(w, must[1:])[0])
        else:
            assert score.judge(w, [])[0]
    J = lambda n, *v: score.judge(WORLDS[n], list(v))[0]
    assert J("f14-one-way-link", {"kind": "link", "links": [["owl7", "owl2"]], "devices": []})
    assert J("f14-one-way-link", {"kind": "link", "links": [[["owl7", 0], "owl2:0"]]})
    assert not J("f14-one-way-link", {"kind": "host", "hosts": ["owl7"]})
    assert not J("f13-bad-partner", {"kind": "link", "links": [["prt1", "prt3"]]})
    assert J("f24-hot-host", *[{"kind": "device", "devices": ["hot7:%d" % i]} for i in range(4)])
    assert not J("f24-hot-host", *[{"kind": "device", "devices": ["hot7:%d" % i]} for i in range(3)])
    assert not J("f01-dead-alone", {"kind": "host", "hosts": ["dka03"]})
    assert J("f18-two-at-once", {"kind": "device", "devices": ["two04:0", "two13:1"], "hosts": ["two04", "two13"]})
    assert J("f17-leaf-switch", {"kind": "switch", "hosts": ["r2n4", "r2n1", "r2n2", "r2n3"]})
    assert not J("f17-leaf-switch", {"kind": "switch", "hosts": ["r2n4", "r2n1", "r2n2"]})
    assert score.find_verdicts(score.find_json('log {x}\n{"a": 1, "verdicts": []}\nbye')) == []


# ---------------------------------------------------------------- real starts
def start(w, devs, probe, state, limit, style="A"):
    """Members as processes; per member (exit or 'killed', stdout, stderr), seconds."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    local, ps, t0 = {}, [], time.monotonic()
    for r, d in enumerate(devs):
        h, i = d.split(":")
        lr = local[h] = local.get(h, -1) + 1
        dd = i if style == "A" else ",".join(x.split(":")[1] for x in devs if x.split(":")[0] == h)
        env = dict(os.environ, RANK=str(r), WORLD_SIZE=str(len(devs)), LOCAL_RANK=str(lr), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=str(port), EMBERWARD_HOST=h, EMBERWARD_DEVICES=dd)
        ps.append(subprocess.Popen([os.path.realpath(sys.executable), "-I", "-S", os.path.join(HERE, "machine.py"), w["name"],
                                    "--probe", probe, "--state", state], env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True))
    end, out = t0 + limit, []
    for p in ps:
        try:
            o, e = p.communicate(timeout=max(0.05, end - time.monotonic()))
            out.append((p.returncode, o, e))
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGTERM)
            time.sleep(0.1)
            heeded = p.poll() is not None
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            o, e = p.communicate()
            out.append(("term" if heeded else "kill", o, e))
    return out, time.monotonic() - t0


def real():
    def go(name, devs, probe="main", limit=12, **k):
        with tempfile.TemporaryDirectory() as d:
            t0 = os.times()
            out, s = start(WORLDS[name], devs, probe, d, limit, **k)
            t1 = os.times()
            cpu = t1.children_user + t1.children_system - t0.children_user - t0.children_system
            print("   %-24s %2d members %5.2f s, %.3f s of processor a member: %s" % (
                name, len(devs), s, cpu / len(devs), [o[0] for o in out][:8]))
            assert s < limit + 3
            return out
    for name, devs in (("f01-dead-alone", ["dka01:0"]), ("s10-topology", ["top1:0", "top2:3", "top2:4"]),
                       ("f08-slow-10-of-64", everything(WORLDS["f08-slow-10-of-64"]))):
        for rc, o, e in go(name, devs):
            assert rc == 0 and json.loads(o)["ok"] is True and not e, (rc, o, e)
    out = go("f02-segv-native", ["sgv1:0", "sgv6:0"])
    assert [o[0] for o in out] == [1, -11] and b"libnccl.so.2(+0x5f3c1)" in out[1][2]
    out = go("f03-seed2-gpu7", ["lab1:6", "lab1:7"], style="B")
    assert [o[0] for o in out] == [-11, -11]
    out = go("f04-hang-deaf", ["dea10:0", "dea11:0"], limit=2)
    assert [o[0] for o in out] == ["term", "kill"], out
    out = go("f05-hang-in-company", ["hic2:1", "hic3:0", "hic3:1"], limit=2)
    assert {o[0] for o in out} == {"term"}
    out = go("f13-bad-partner", ["prt3:1", "prt1:2", "prt2:0"])
    assert [o[0] for o in out] == [1, 1, 1] and b"error 12" in out[0][2] and b"reset by peer" in out[2][2]
    out = go("f14-one-way-link", ["owl7:0", "owl2:0"])
    assert all(json.loads(o[1])["value"] < 60 and json.loads(o[1])["exercised"] == "all" for o in out)
    out = go("f20-busy-and-bad", ["bab3:0", "bab3:6", "bab4:0"])
    a = [json.loads(o[1]) for o in out]
    assert a[0]["busy"] and not a[0]["ok"] and a[1]["ok"] is False and a[2]["ok"] is False
    out = go("f21-second-probe", ["scp2:3", "scp2:2"], probe="net")
    assert [o[0] for o in out] == [1, 1]
    out = go("f22-rubbish-and-no-value", ["rub03:0", "rub08:0", "rub01:0"])
    assert out[0][0] == 0 and out[0][1].startswith(b"\x00") and "value" not in json.loads(out[1][1]) and "value" in json.loads(out[2][1])
    out = go("f23-one-rank-answers", ["ora1:0", "ora4:1", "ora2:0"])
    assert [bool(o[1]) for o in out] == [True, False, False]
    t = time.monotonic()
    out = go("s03-slow-start", ["cold1:0", "cold2:0"])
    assert time.monotonic() - t > 3 and all(json.loads(o[1])["ok"] for o in out)
    out = go("s11-rank-0-answers", ["rk1:0", "rk1:1"])
    assert [bool(o[1]) for o in out] == [True, False]
    out = go("s07-fails-everywhere", ["mis1:0"])
    assert out[0][0] == 1 and b"ModuleNotFoundError" in out[0][2]


if __name__ == "__main__":
    check_owners()
    check_score()
    check_worlds()
    print("in-process checks passed")
    if "--starts" in sys.argv:
        real()
        print("real starts passed")
