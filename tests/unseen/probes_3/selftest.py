"""Checks simulator, worlds and scoring; never starts the doctor.

    python3 selftest.py            in this process, some seconds: worlds well formed, outcomes alike and repeatable, a
                                   plain search finds what the worlds say within their budgets, scoring right
    python3 selftest.py --starts   also some sets with real starts, and score.py with a stand-in doctor
    python3 selftest.py --salts N  the plain search with N draws instead of one (its misses are told, only salt 0 counts)
"""
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import machine
import make_worlds
import score

HERE = os.path.dirname(os.path.abspath(__file__))
START_S = 0.1          # wall time a start costs on a busy machine of 2 cores
ROUND_S = 0.3


# ---- a laboratory in this process ---------------------------------------------------------------------------------
class Lab:
    def __init__(self, world, salt):
        self.world, self.salt, self.tries, self.elapsed, self.starts, self.rounds = world, salt, {}, 0.0, 0, 0
        self.limit = float(world["arguments"][3])

    def round(self, probe, sets):
        """Disjoint sets at once -> for each set one (state, value, detail) per member; state ok, bad or busy."""
        results, longest = [], 0.0
        for devices in sets:
            tries = {}
            for d in devices:
                self.tries[probe, d] = tries[d] = self.tries.get((probe, d), 0) + 1
            parts = machine.outcome(self.world, probe, [[d] for d in devices], tries, self.elapsed, self.salt)
            told = []
            for part in parts:
                longest = max(longest, self.limit if part["act"] in ("hang", "deaf") else part["delay"])
                answer = part.get("answer", {})
                if part["act"] != "answer":
                    told.append(("bad", None, None))
                elif answer.get("busy"):
                    told.append(("busy", None, None))
                else:
                    told.append(("ok" if answer["ok"] else "bad", answer["value"] if answer["ok"] else None,
                                 answer.get("detail")))
            results.append(told)
            self.starts += len(devices)
        self.rounds += 1
        self.elapsed += longest + START_S * sum(map(len, sets)) + ROUND_S
        return results


def pairings(devices):
    ring = list(devices) + ([None] if len(devices) % 2 else [])
    n = len(ring)
    for _ in range(n - 1):
        yield [[ring[i], ring[n - 1 - i]] for i in range(n // 2) if None not in (ring[i], ring[n - 1 - i])]
        ring = [ring[0], ring[-1]] + ring[1:-1]


def plain_search(world, salt):
    """Singles thrice, suspects again, pairs, then singles for as long as there is budget. -> verdicts, lab"""
    lab, accused, links = Lab(world, salt), set(), set()
    everyone = make_worlds.devices(world["hosts"], world["devices"])
    busy, fails, tested = set(), {}, {}

    def singles(probe, who, values, details):
        for d, [(state, value, detail)] in zip(who, lab.round(probe, [[d] for d in who])):
            if state == "busy":
                continue
            tested[probe, d] = tested.get((probe, d), 0) + 1
            if state == "bad":
                fails.setdefault((probe, d), 0)
                fails[probe, d] += 1
            elif lab.tries[probe, d] > 1:
                values.setdefault(d, []).append(value)
                details[d] = detail
    for probe, spec in world["probes"].items():
        higher, values, details = spec["higher"], {}, {}
        for _ in range(3):
            singles(probe, everyone, values, details)
        free = [d for d in everyone if (probe, d) in tested]
        busy = set(everyone) - set(free)
        dead = [d for d in free if fails.get((probe, d), 0) >= 2]
        if len(dead) > 0.7 * len(free):
            continue                                        # fails everywhere: the probe's fault
        accused.update(dead)

        def levels():
            level = {}
            for d, v in values.items():
                level.setdefault(str(details[d]), []).append(statistics.median(v))
            return {k: statistics.median(v) for k, v in level.items()}

        def ratios():
            level = levels()
            return {d: [x / level[str(details[d])] if higher else level[str(details[d])] / x for x in v]
                    for d, v in values.items()}
        means = {d: statistics.mean(r) for d, r in ratios().items()}
        slowest = sorted(means, key=means.get)[:4]
        for _ in range(4):
            singles(probe, slowest + sorted(means, key=means.get)[-4:], values, details)
        now = ratios()
        spread = statistics.median(abs(x - statistics.median(r)) for r in now.values() for x in r) * 1.6
        for d in slowest:
            bound = 1 - max(0.03, 4 * spread / len(now[d]) ** 0.5)
            if statistics.median(now[d]) < bound and statistics.mean(now[d]) < bound:
                accused.add(d)

        able = [d for d in free if d not in accused]
        cells, of = {}, levels()

        def pairs(sets):
            for pair, told in zip(sets, lab.round(probe, sets)):
                if any(s == "busy" for s, _, _ in told):
                    continue
                a, b = pair
                where = machine.host_of(a) == machine.host_of(b)
                if any(s == "bad" for s, _, _ in told):
                    cells.setdefault((a, b), []).append((where, None))
                else:
                    worst = min(v / of[str(x)] if higher else of[str(x)] / v for _, v, x in told)
                    cells.setdefault((a, b), []).append((where, worst))
        whole = len(able) <= 18
        for i, sets in enumerate(pairings(able)):
            if i < 3 or whole and lab.elapsed < 0.6 * world["budget"]:
                pairs(sets)
        level = {w: statistics.median(x) for w in (True, False)
                 if (x := [v for c in cells.values() for k, v in c if k == w and v])}

        def bad(cell):
            odd = [v is None or v < 0.82 * level[w] for w, v in cells[cell]]
            return sum(odd) > 0.6 * len(odd)
        again = [c for c in cells if bad(c)]
        again = [c for c in again if all(sum(d in other for other in again) < 3 for d in c)]
        while again and lab.elapsed < 0.85 * world["budget"]:       # bad ones again, but where one device stands out
            sets = []
            for c in again:
                if not any(d in other for other in sets for d in c):
                    sets.append(list(c))
            pairs(sets)
            again = [c for c in again if list(c) not in sets]
        wrong = [c for c in cells if bad(c)]
        if len(wrong) > 0.9 * len(cells):
            continue
        rest = set(wrong)
        while rest:
            score_of = {}
            for d in able:
                mine = [c for c in cells if d in c]
                if len({x for c in rest if d in c for x in c}) > 2:
                    score_of[d] = sum(c in rest for c in mine) / len(mine)
            best = max(score_of, key=score_of.get, default=None)
            if best is None or score_of[best] < 0.55:
                break
            accused.add(best)
            rest = {c for c in rest if best not in c}
        links.update(c for c in rest if not set(c) & accused and len(cells[c]) > 1)
    if not accused and not links:
        probe = next(iter(world["probes"]))
        who = [d for d in everyone if d not in busy]
        for _ in range(72):
            if lab.elapsed + START_S * len(who) + ROUND_S + 2 > world["budget"]:
                break
            singles(probe, who, {}, {})
        rate = {d: fails.get((probe, d), 0) for d in who}
        if 0 < sum(r > 0 for r in rate.values()) <= len(who) / 3:
            accused.update(d for d, r in rate.items() if r >= 2)
    verdicts = [{"kind": "device", "devices": [d]} for d in sorted(accused)]
    return verdicts + [{"kind": "link", "links": [list(c)]} for c in sorted(links)], lab


# ---- checks -------------------------------------------------------------------------------------------------------
def check_worlds():
    every = score.names()
    assert [n[:3] for n in every] == ["f%02d" % i for i in range(1, 25)] + ["s%02d" % i for i in range(1, 13)]
    hosts_seen = set()
    for name in every:
        w = score.load(name)
        assert w["name"] == name and 1 <= len(w["hosts"]) <= 16 and 1 <= w["devices"] <= 8, name
        assert 25 <= w["budget"] <= 60 and w["arguments"][:2] == ["--budget", str(w["budget"])], name
        assert w == machine.read_world(os.path.join(HERE, "worlds", name + ".json")), name
        assert len(set(w["hosts"])) == len(w["hosts"]) and not any(":" in h or "," in h for h in w["hosts"])
        devs = set(make_worlds.devices(w["hosts"], w["devices"]))
        assert bool(w["truth"]) == name.startswith("f"), name
        for f in w["truth"]:
            assert not f["namings"][0].get("wider")
            for n in f["namings"]:
                for item in n["items"]:
                    known = w["hosts"] if n["kind"] in ("host", "switch") else devs
                    assert all(x in known for x in (item if n["kind"] == "link" else [item])), (name, item)
        hosts_seen.add((len(w["hosts"]), w["devices"]))
    assert min(hosts_seen)[0] == 1 and max(hosts_seen)[0] == 16


def check_outcomes():
    for name in score.names():
        w = score.load(name)
        devs = make_worlds.devices(w["hosts"], w["devices"])
        for probe in w["probes"]:
            for size in (1, 2, 3, len(devs)):
                some = devs[:size]
                tries = {d: 2 for d in some}
                one = machine.outcome(w, probe, [[d] for d in some], tries, 3.0, 0)
                assert one == machine.outcome(w, probe, [[d] for d in some], tries, 3.0, 0)
                assert len(one) == size and all(one), name
                for part in one:
                    if part["act"] == "answer":
                        assert json.loads(machine.to_json(part["answer"])) == part["answer"]
            host = [d for d in devs if machine.host_of(d) == w["hosts"][0]]
            assert len(machine.outcome(w, probe, [host], {d: 1 for d in host}, 0.0, 0)) == 1
    values = [machine.unit("x", i) for i in range(4000)]
    assert 0.48 < statistics.mean(values) < 0.52
    noise = [machine.gauss("y", i) for i in range(4000)]
    assert abs(statistics.mean(noise)) < 0.06 and 0.94 < statistics.stdev(noise) < 1.06
    hits = [t for t in range(1, 501) if machine.one_in(50, False, t, "z")]
    assert len(hits) == 10
    hits = [t for t in range(1, 401) if machine.one_in(8, True, t, "z")]
    assert len(hits) == 50 and min(b - a for a, b in zip(hits, hits[1:])) >= 4
    for name, n, first, second in (("f08", 10, 8, 20), ("f09", 50, 30, 75)):
        w = score.load(score.names(name)[0])
        e, = w["probes"]["main"]["effects"]
        hits = [t for t in range(1, 101) if machine.one_in(n, False, t, w["name"], 0, "main", "wrong", e["who"][0])]
        print("  %s: wrong at tries %s" % (w["name"], hits[:3]))
        assert hits[0] <= first and hits[1] <= second, name
    same = [["h", [0, 1], 0], ["h", [0, 1], 1], ["g", [3], 0]]
    assert machine.owners(same) == [["h:0"], ["h:1"], ["g:3"]]
    assert machine.owners([["h", [0, 1], 0], ["g", [0, 1], 0]]) == [["h:0", "h:1"], ["g:0", "g:1"]]
    assert machine.owners([["h", [2], 0], ["h", [5], 1]]) == [["h:2"], ["h:5"]]


def check_search(salts, told=True):
    for salt in range(salts):
        good = 0
        for name in score.names():
            w = score.load(name)
            verdicts, lab = plain_search(w, salt)
            right, missed, extra = score.judge(w, verdicts)
            good += right
            line = "  salt %d %-26s %-5s %2d rounds %4d starts %5.1f of %d s %s %s" % (
                salt, name, "right" if right else "WRONG", lab.rounds, lab.starts, lab.elapsed, w["budget"],
                missed or "", extra or "")
            if told or not right or lab.elapsed > w["budget"]:
                print(line)
            if salt == 0:
                assert right and lab.elapsed <= w["budget"], name
        print("  salt %d: %d of 36" % (salt, good))


def check_scoring():
    def judged(world, *verdicts):
        return score.judge(score.load(score.names(world)[0]), list(verdicts))

    def dev(*d):
        return {"kind": "device", "devices": list(d), "hosts": [], "links": []}
    assert judged("f01", dev("amber3:6")) == (True, [], [])
    assert judged("f01") == (False, ["A"], [])
    assert judged("f01", dev("amber3:6", "amber3:5"))[2] == ["device amber3:5"]
    assert judged("f01", {"kind": "host", "hosts": ["amber3"]}) == (False, ["A"], ["host amber3"])
    assert judged("f04", {"kind": "host", "hosts": ["dune5"]})[0] and judged("f04", dev("dune5"))[0]
    assert judged("f12", {"kind": "link", "links": [["lynx5:0", "lynx2:1"]]})[0]
    assert judged("f12", dev("lynx5:0", "lynx2:1"))[0] is False
    assert judged("f13", {"kind": "link", "links": [["moor4", "moor0"]]}) == (False, ["B"], [])
    assert judged("f13", {"kind": "link", "links": [["moor4", "moor0"], ["moor2:0", "moor5:0"]]})[0]
    assert judged("f15", {"kind": "switch", "hosts": ["oakBn1", "oakBn2", "oakBn3"]})[0]
    assert judged("f15", {"kind": "switch", "hosts": ["oakBn1", "oakBn2"]}) == (False, ["A"], [])
    assert judged("f17", dev("quay4:0"), dev("quay4:1"), dev("quay4:2"))[0]
    assert judged("f19", dev("silt14:0", "silt05:1"))[0] and judged("f19", dev("silt14:0"))[1] == ["A"]
    assert judged("f21", dev("umber:0"))[2] == ["device umber:0"]
    assert judged("s01") == (True, [], []) and judged("s01", dev("aster2:0"))[0] is False
    assert judged("s01", {"kind": "device"})[0] is False and judged("s01", "odd")[0] is False
    for name in score.names():
        w = score.load(name)
        for pick in range(3):
            said = []
            for f in w["truth"]:
                n = f["namings"][min(pick, len(f["namings"]) - 1)]
                said.append({"kind": n["kind"], score.FIELD[n["kind"]]: n["items"]})
            assert score.judge(w, said)[0], name
    assert score.read_answer('warning {x\n{"verdicts": []}') == {"verdicts": []}
    assert score.read_answer("{}") is None and score.read_answer("") is None


# ---- with real starts ---------------------------------------------------------------------------------------------
def real(name, devices, state, probe="main", style="own", seconds=20.0):
    """Starts one member per device; -> (exit code or None, stdout, stderr) by rank; ends those that hang."""
    w = score.load(score.names(name)[0])
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    members, seen = [], {}
    for rank, d in enumerate(devices):
        host, number = d.split(":")
        local = seen[host] = seen.get(host, -1) + 1
        numbers = number if style == "own" else ",".join(x.split(":")[1] for x in devices if x.startswith(host + ":"))
        env = {"RANK": str(rank), "WORLD_SIZE": str(len(devices)), "LOCAL_RANK": str(local), "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": str(port), "EMBERWARD_HOST": host, "EMBERWARD_DEVICES": numbers}
        members.append(subprocess.Popen(
            [sys.executable, "-I", "-S", os.path.join(HERE, "machine.py"),
             os.path.join(HERE, "worlds", w["name"] + ".json"), "--probe", probe, "--state", state], env=env,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True))
    until, result = time.monotonic() + seconds, []
    for m in members:
        try:
            code = m.wait(max(0.05, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
            m.terminate()
            try:
                m.wait(2.0)
            except subprocess.TimeoutExpired:
                code = "deaf"
            try:
                os.killpg(m.pid, signal.SIGKILL)            # its forked child too
            except ProcessLookupError:
                pass
        out, err = m.communicate()
        result.append((code, out, err))
    return result


STAND_IN = r"""
import json, shlex, subprocess, sys, os
hosts = sys.argv[sys.argv.index("--hosts") + 1].split(",")
probe = sys.argv[sys.argv.index("--probe") + 1].split("=", 1)
world = json.load(open(shlex.split(probe[1])[4]))
env = dict(os.environ, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="1",
           EMBERWARD_HOST=hosts[0], EMBERWARD_DEVICES="0")
subprocess.run(shlex.split(probe[1]), env=env, stdout=subprocess.DEVNULL, check=True)
field = {"device": "devices", "host": "hosts", "switch": "hosts", "link": "links"}
said = [{"kind": f["namings"][0]["kind"], field[f["namings"][0]["kind"]]: f["namings"][0]["items"]}
        for f in world["truth"]]
if world["name"].startswith("s"):
    said = [{"kind": "host", "hosts": [hosts[0]]}]
print(json.dumps({"tests": [], "verdicts": said}, indent=1))
sys.exit(3)
"""

LEAVER = r"""
import json, os, shlex, subprocess, sys, time
probe = sys.argv[sys.argv.index("--probe") + 1].split("=", 1)[1]
env = dict(os.environ, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="1",
           EMBERWARD_HOST="cn12", EMBERWARD_DEVICES="0")
subprocess.Popen(shlex.split(probe), env=env, stdout=subprocess.DEVNULL)
time.sleep(1)
print("not JSON")
"""


def check_starts():
    with tempfile.TemporaryDirectory() as place:
        def state(n):
            return os.path.join(place, n)
        (code, out, err), = real("f01", ["amber3:6"], state("a"))
        assert code == -signal.SIGSEGV and not out and b"libnccl" in err, (code, out, err)
        both = real("f01", ["amber3:6", "amber1:0"], state("a"))
        assert both[0][0] == -signal.SIGSEGV and both[1][0] == 1 and b"reset" in both[1][2], both
        for style in ("own", "list"):
            four = real("f10", ["juno1:0", "juno1:1", "juno2:3", "juno3:0"], state("b"), style=style)
            answers = [json.loads(o) for _, o, _ in four]
            assert all(a["ok"] and a["exercised"] == "all" for a in answers), four
            assert max(a["value"] for a in answers) < 1.002 * min(a["value"] for a in answers)
            three = real("f10", ["juno1:2", "juno1:3", "juno3:3"], state("b"), style=style)
            assert [json.loads(o)["ok"] for _, o, _ in three] == [False] * 3
        deaf = real("f04", ["dune4:0", "dune5:0"], state("c"), seconds=5.0)
        assert [d[0] for d in deaf] == [None, "deaf"], deaf
        silent, = real("f22", ["vale1:1"], state("d"))
        assert silent[0] == 0 and not silent[1]
        late = real("f23", ["wold4:1", "wold1:0"], state("e"))
        assert [x[0] for x in late] == [1, 1]
        box = real("f02", ["box:0", "box:1", "box:6"], state("f"))
        assert json.loads(box[0][1])["busy"] and box[1][0] == box[2][0] == -signal.SIGSEGV
        one, = real("f11", ["kite4:0"], state("g"), probe="copy")
        assert json.loads(one[1])["ok"] is False
        odd, = real("f01", ["amber9:0"], state("h"))
        assert odd[0] == 2
        script, out = os.path.join(place, "stand_in.py"), os.path.join(place, "results.json")
        with open(script, "w", encoding="utf-8") as f:
            f.write(STAND_IN)
        subprocess.run([sys.executable, os.path.join(HERE, "score.py"), "%s %s" % (sys.executable, script), "--out", out,
                        "--worlds", "f12,f16,s04", "--keep", os.path.join(place, "kept")], check=True,
                       stdout=subprocess.DEVNULL)
        with open(out, encoding="utf-8") as f:
            result = json.load(f)
        t = result["total"]
        assert (t["faulty"], t["faulty_right"], t["sound"], t["sound_right"]) == (2, 2, 1, 0), t
        assert [r["member_starts"] for r in result["worlds"]] == [1, 1, 1] and result["worlds"][0]["exit"] == 3
        assert len(os.listdir(os.path.join(place, "kept"))) == 6
        with open(script, "w", encoding="utf-8") as f:
            f.write(LEAVER)
        row = score.run("%s %s" % (sys.executable, script), score.load("f03-hang"), 0, 5, None)
        assert row["members_left_over"] == 1 and not row["right"] and not row["answered"], row


def main():
    salts = int(sys.argv[sys.argv.index("--salts") + 1]) if "--salts" in sys.argv else 1
    check_worlds()
    check_outcomes()
    check_scoring()
    check_search(salts, told="--quiet" not in sys.argv)
    if "--starts" in sys.argv:
        check_starts()
    print("all well")


if __name__ == "__main__":
    main()
