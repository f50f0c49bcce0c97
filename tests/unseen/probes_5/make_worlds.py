#!/usr/bin/env python3
"""States the 36 worlds, writes worlds/NAME.json and the table in README.md.

    make_worlds.py            # a few seconds: looks for the seeds of the worlds with chance (see selftest.early)
"""
import json
import os
import re

import selftest

HERE = os.path.dirname(os.path.abspath(__file__))


def named(pattern, n, start=1):
    return [pattern.format(i) for i in range(start, start + n)]


def speed(alone, unit="TFLOP/s", noise=0.006, **more):
    return {"alone": alone, "unit": unit, "noise": noise, **more}


def device(fault, name, alone_on_host=False):
    accept = [{"kind": "device", "names": [name]}]
    if alone_on_host:
        accept.append({"kind": "host", "names": [name.rpartition(":")[0]], "wider": True, "why": "the host has only this device"})
    return {"fault": fault, "accept": accept}


def link(fault, a, b):
    return {"fault": fault, "accept": [{"kind": "link", "names": [[a, b]]}]}


WORLDS = []


def world(name, what, hosts, per_host, sim, truth=(), way="", budget=60, limit=8):
    WORLDS.append({
        "name": name, "kind": "fault" if truth else "sound", "what": what, "hosts": hosts, "per_host": per_host, "probes": ["main"],
        "arguments": ["--budget", str(budget), "--probe-limit", str(limit)], "budget": budget, "seed": 0, "sim": sim,
        "truth": list(truth), "way": way})


# ------------------------------------------------------------------ with a fault

world("f01-no-such-device", "One device of 32 fell off the bus: its member exits with code 46 in every start; its company waits two seconds and exits with a timeout.",
      named("kiln{:02}", 4), 8,
      {"value": speed(212.0), "sick": [{"device": "kiln02:3", "does": "exit", "code": 46, "others": "late"}]},
      [device("A", "kiln02:3")], "32 singles, the bad one again: 34 starts")

world("f02-segv-reset", "One device's member dies of SIGSEGV in every start, with a native frame in its last words; its company is reset and exits 1.",
      named("ash{}", 6), 4,
      {"value": speed(97.0), "sick": [{"device": "ash5:1", "does": "segv"}]},
      [device("A", "ash5:1")], "24 singles, the bad one again: 26 starts")

world("f03-hang-deaf", "One device hangs in every start and heeds no signal but SIGKILL; its company hangs too, but heeds SIGTERM.",
      named("coal-{:02}", 12), 2,
      {"value": speed(310.0), "sick": [{"device": "coal-09:1", "does": "hang", "deaf": True, "others": "hang"}]},
      [device("A", "coal-09:1")], "24 singles cost one limit, the bad one again: 26 starts, 10 s", limit=5)

world("f04-wrong-always", "One host's only device gives a wrong sum in every start; in company every member reports it.",
      named("soot{}", 10, 0), 1,
      {"value": speed(54.0), "sick": [{"device": "soot4:0", "does": "wrong", "others": "wrong"}]},
      [device("A", "soot4:0", True)], "10 singles, the bad one again: 12 starts", budget=40)

world("f05-wrong-1-of-2", "One device of 20 gives a wrong sum in one of two starts, alone and in company; every member reports it.",
      named("fern{}", 5), 4,
      {"value": speed(133.0), "sick": [{"device": "fern3:2", "does": "wrong", "chance": 0.5, "others": "wrong"}]},
      [device("A", "fern3:2")], "4 rounds of 20 singles, the suspect 6 times: about 90 starts")

world("f06-wrong-1-of-5", "One device of 14 gives a wrong sum in one of five starts; in company every member reports it.",
      named("moss-{}", 7), 2,
      {"value": speed(88.0), "sick": [{"device": "moss-6:0", "does": "wrong", "chance": 0.2, "others": "wrong"}]},
      [device("A", "moss-6:0")], "10 rounds of 14 singles, the suspect 10 times: about 150 starts")

world("f07-wrong-1-of-10-own", "One host's only device gives a wrong sum in one of ten starts; in company only its own check sees it, the others report success.",
      named("reed{}", 8), 1,
      {"value": speed(61.5), "sick": [{"device": "reed2:0", "does": "wrong", "chance": 0.1, "others": "fine"}]},
      [device("A", "reed2:0", True)], "20 rounds of all 8, then the suspect 10 times: about 170 starts")

world("f08-wrong-1-of-50", "One of eight hosts gives a wrong sum in one of 50 starts; in company every member reports it.",
      named("tarn{}", 8), 1,
      {"value": speed(402.0), "sick": [{"device": "tarn7:0", "does": "wrong", "chance": 0.02, "others": "wrong"}]},
      [device("A", "tarn7:0", True)], "100 rounds of 8 singles, then the suspect: about 900 starts; splitting sets needs fewer", budget=180)

world("f09-wrong-1-of-50-five", "One of five hosts gives a wrong sum in one of 50 starts; in company every member reports it.",
      ["birch", "cedar", "elm", "larch", "rowan"], 1,
      {"value": speed(19.2, "GB/s"), "sick": [{"device": "elm:0", "does": "wrong", "chance": 0.02, "others": "wrong"}]},
      [device("A", "elm:0", True)], "100 rounds of 5 singles, then the suspect: about 600 starts", budget=180)

world("f10-segv-in-company", "A device is good alone; every set of two or more with it dies of SIGSEGV, all members alike with the same last words.",
      named("peat{}", 6), 4,
      {"value": speed(145.0), "sick": [{"device": "peat1:2", "when": "company", "does": "segv", "others": "same"}]},
      [device("A", "peat1:2")], "24 singles, one round of pairs, the failed two with good partners: about 56 starts")

world("f11-wrong-in-company", "A device is good alone; every set of two or more with it gets a wrong sum, reported by every member.",
      named("silt{}", 8), 2,
      {"value": speed(77.0), "sick": [{"device": "silt6:1", "when": "company", "does": "wrong", "others": "wrong"}]},
      [device("A", "silt6:1")], "16 singles, one round of pairs, the failed two with good partners: about 40 starts")

world("f12-slow-5-of-64", "One of 64 hosts is 5% slow; noise 0.7%, and the hosts differ by 0.3% by make.",
      named("cr{:02}", 64), 1,
      {"value": speed(148.7, noise=0.007, spread=0.003), "sick": [{"device": "cr37:0", "does": "slow", "by": 0.05}]},
      [device("A", "cr37:0", True)], "64 singles, the slowest eight and eight others three times: about 115 starts", limit=20)

world("f13-time-20-of-64", "The value is a time in ms, lower is better. One device of 64 takes a quarter more (20% slower); noise 1.5%.",
      named("vale{:02}", 16), 4,
      {"value": speed(36.4, "ms", noise=0.015, higher=False), "sick": [{"device": "vale11:3", "does": "slow", "by": 0.2}]},
      [device("A", "vale11:3")], "64 singles, the suspect and four others again: about 75 starts", limit=20)

world("f14-slow-50", "One device of 32 runs at half speed, alone and in company; noise 2%.",
      named("dune{}", 4), 8,
      {"value": speed(262.0, noise=0.02), "sick": [{"device": "dune4:6", "does": "slow", "by": 0.5}]},
      [device("A", "dune4:6")], "32 singles, the suspect and others again: about 40 starts", limit=10)

world("f15-bad-link-inside", "Two devices of one host are good with all others and fail with each other: both exit 1 with error 12, the rest of the set is reset.",
      named("glen{}", 4), 8,
      {"value": speed(188.0), "sick": [{"link": ["glen3:1", "glen3:5"], "does": "exit"}]},
      [link("A", "glen3:1", "glen3:5")], "4 sets of 8, the failed set split, both ends with others: about 90 starts")

world("f16-two-links-apart", "Two broken links among eight hosts, without a common end: sets with both ends get a wrong sum, reported by every member.",
      named("ford{}", 8), 1,
      {"value": speed(23.4, "GB/s"), "sick": [{"link": ["ford1:0", "ford6:0"], "does": "wrong", "others": "wrong"},
                                               {"link": ["ford3:0", "ford8:0"], "does": "wrong", "others": "wrong"}]},
      [link("A", "ford1:0", "ford6:0"), link("B", "ford3:0", "ford8:0")], "7 rounds of 4 pairs: 56 starts, the failed ones again")

world("f17-two-links-one-end", "Two broken links among ten hosts with a common end; that host is good with the seven others. Both ends exit 1 with error 12, the rest is reset.",
      named("weir{:02}", 10), 1,
      {"value": speed(11.8, "GB/s"), "sick": [{"link": ["weir04:0", "weir07:0"], "does": "exit"},
                                               {"link": ["weir04:0", "weir10:0"], "does": "exit"}]},
      [link("A", "weir04:0", "weir07:0"), link("B", "weir04:0", "weir10:0")], "9 rounds of 5 pairs: 90 starts, the failed ones again")

world("f18-slow-link-ring", "`exercised` is \"ring\" (closed). The link between two of eight hosts runs at 60%: a set in which they are neighbours is slow for all members.",
      named("quay{}", 8), 1,
      {"value": speed(46.0, "GB/s", noise=0.01), "exercised": "ring",
       "sick": [{"link": ["quay2:0", "quay5:0"], "does": "slow", "by": 0.4}]},
      [link("A", "quay2:0", "quay5:0")], "7 rounds of 4 pairs: 56 starts; rings in other orders need fewer")

world("f19-network-of-a-host", "One host's network card is broken: sets within it are good, every set that joins it with another host ends: its members with error 12, the others reset.",
      named("holt{}", 6), 4,
      {"value": speed(151.0, inside=118.0, across=42.0), "sick": [{"network": ["holt2"], "does": "exit"}]},
      [{"fault": "A", "accept": [{"kind": "host", "names": ["holt2"]},
                                 {"kind": "device", "names": ["holt2:0", "holt2:1", "holt2:2", "holt2:3"], "wider": True,
                                  "why": "all devices of the host"}]}],
      "24 singles, pairs over hosts, a set of four in each host: about 80 starts")

world("f20-leaf-switch", "16 hosts in four racks of four; the leaf switch of one rack is sick: whatever goes through it, within the rack too, has 55% of the speed. The host names tell the rack.",
      [f"rk{r}n{n}" for r in (1, 2, 3, 4) for n in (1, 2, 3, 4)], 1,
      {"value": speed(91.0, "GB/s", noise=0.012), "sick": [{"network": named("rk3n{}", 4), "does": "slow", "by": 0.45}]},
      [{"fault": "A", "accept": [{"kind": "switch", "names": named("rk3n{}", 4)},
                                 {"kind": "host", "names": named("rk3n{}", 4), "wider": True, "why": "all hosts behind the switch"},
                                 {"kind": "device", "names": [f"rk3n{n}:0" for n in (1, 2, 3, 4)], "wider": True,
                                  "why": "all devices behind the switch, one a host"}]}],
      "16 singles, 2 rounds of pairs, the suspects with good partners: about 60 starts")

world("f21-dead-and-slow", "Two faults among 24 hosts: one device is dead in every start (exit 1, company reset), another is 20% slow.",
      named("heath{:02}", 24), 1,
      {"value": speed(140.0, noise=0.01), "sick": [{"device": "heath05:0", "does": "exit"}, {"device": "heath18:0", "does": "slow", "by": 0.2}]},
      [device("A", "heath05:0", True), device("B", "heath18:0", True)], "24 singles, the two and four others again: about 36 starts", limit=10)

world("f22-three-of-64", "Three faults among 64 devices on three hosts: one dies of SIGBUS, one gives a wrong sum, one hangs, each in every start.",
      named("tor{}", 8), 8,
      {"value": speed(201.0), "sick": [
          {"device": "tor2:7", "does": "segv", "signal": 7, "words": "Fatal Python error: Bus error"},
          {"device": "tor5:0", "does": "wrong", "others": "wrong"},
          {"device": "tor7:4", "does": "hang", "others": "hang"}]},
      [device("A", "tor2:7"), device("B", "tor5:0"), device("C", "tor7:4")], "64 singles cost one limit, the three again: about 75 starts", limit=12)

world("f23-busy-and-bad", "11 of 32 devices are in use by other jobs (busy, `ok` false). A free device on a half-used host is good alone and fails in company: it exits 1, the others are reset.",
      named("lab{}", 4), 8,
      {"value": speed(120.0), "busy": [f"lab1:{d}" for d in range(6)] + [f"lab3:{d}" for d in (0, 1, 4)] + ["lab4:2", "lab4:3"], "busy_ok": False,
       "sick": [{"device": "lab3:6", "when": "company", "does": "exit",
                 "words": "ncclInternalError: Internal check failed, p2p transport could not be set up"}]},
      [device("A", "lab3:6")], "32 singles, a round of pairs among the free, the failed two with good partners: about 60 starts", limit=10)

world("f24-link-and-dead", "Two faults among 32 devices: one is dead in every start; the link between two devices on two other hosts is broken (both exit 1 with error 12, the rest is reset).",
      named("fen{:02}", 16), 2,
      {"value": speed(34.0, "GB/s"), "sick": [{"device": "fen08:0", "does": "exit"}, {"link": ["fen03:1", "fen12:0"], "does": "exit"}]},
      [device("A", "fen08:0"), link("B", "fen03:1", "fen12:0")],
      "32 singles, a set of all without the dead one, halves in turn, both ends with others: about 250 starts", budget=90, limit=12)

# ------------------------------------------------------------------ sound, but they look sick

world("s01-half-busy", "17 of 32 devices are in use by other jobs and say so (`busy`, `ok` true); all others are good.",
      named("oak{}", 4), 8,
      {"value": speed(165.0), "busy": [f"oak1:{d}" for d in range(8)] + [f"oak2:{d}" for d in (0, 2, 3, 5, 6, 7)] + ["oak4:1", "oak4:4", "oak4:5"]},
      budget=40)

world("s02-heavy-tails", "Noise 1.5%, and one test in six loses an amount with a heavy tail (Pareto), up to 60%; no device more than another.",
      named("pine{}", 8), 2,
      {"value": speed(99.0, noise=0.015, tail={"often": 0.17, "scale": 0.06, "alpha": 1.4, "cap": 0.6})})

world("s03-slow-first-start", "The first start of every device takes 3.5 s and gives 70% (cold caches); every later one takes 20 ms and gives all. Limit 15 s.",
      named("yew{:02}", 10), 1,
      {"value": speed(58.0, noise=0.01), "cold": {"speed": 0.7, "secs": 3.5}}, limit=15)

world("s04-two-generations", "12 hosts with two devices each; five hosts are a newer model and 30% faster. A set with both runs as fast as the older. By agreement no fault.",
      named("gen4-{}", 7) + named("gen5-{}", 5), 2,
      {"value": speed(126.0, noise=0.008), "models": {h: 1.3 for h in named("gen5-{}", 5)}}, limit=10)

world("s05-fails-everywhere", "The probe fails in every start on every device: a shared library is missing. The probe is at fault.",
      named("ivy{}", 6), 4,
      {"value": speed(1.0), "everywhere": {"code": 1, "words": "OSError: libcudart.so.12: cannot open shared object file: No such file or directory"}},
      budget=40)

world("s06-probe-fails-1-of-50", "The probe itself reports a wrong sum in one of 50 tries, whatever the set; no device more than another. Looks like f08.",
      named("lime{}", 8), 1,
      {"value": speed(402.0), "flaky": {"chance": 0.02, "does": "wrong", "words": selftest.machine.WORDS["wrong"]}},
      budget=180)

world("s07-probe-fails-1-of-10", "The probe itself ends with 'Address already in use' on all members in one of ten tries, whatever the set; no device more than another.",
      named("nut{}", 8), 1,
      {"value": speed(83.0), "flaky": {"chance": 0.1, "does": "exit", "words": "OSError: [Errno 98] Address already in use: probe could not open its port"}},
      budget=90)

world("s08-thermal-drift", "32 hosts, all alike, get 11% slower with time (12 s to two thirds of it); noise 1%.",
      named("hay{:02}", 32), 1,
      {"value": speed(73.0, noise=0.01), "drift": {"by": 0.11, "after_s": 12.0}}, limit=15)

world("s09-topology", "By nature: alone 310, within a socket 150, over both sockets of a host 120, over hosts 26, and 3% less for each doubling of the set. All hosts alike.",
      named("rye{}", 4), 8,
      {"value": speed(310.0, noise=0.01, inside=150.0, socket_of=4, sockets=0.8, across=26.0, doubling=0.97)}, limit=10)

world("s10-rank-0-answers", "In sets only rank 0 prints an answer, by the probe's design; all members end with exit code 0. Alone everybody answers.",
      named("hop{}", 6), 4, {"value": speed(44.0), "rank0_only": True}, budget=40)

world("s11-busy-comes-and-goes", "One host is busy all the time; every other device is busy in three of ten starts, at random.",
      named("flax{}", 5), 4, {"value": speed(109.0), "busy": [f"flax4:{d}" for d in range(4)], "busy_chance": 0.3}, budget=45)

world("s12-noise-of-64", "64 hosts, all alike, with 3% noise: in every round some are 6 to 8% low, never the same ones.",
      named("bay{:02}", 64), 1, {"value": speed(150.0, noise=0.03)}, limit=20)


# ------------------------------------------------------------------ writing


def plain(accept):
    names = ", ".join(" - ".join(n) if isinstance(n, list) else n for n in accept["names"])
    return f"{accept['kind']} {names}"


def table():
    rows = ["| world | hosts x devices | arguments | what it is | must be named | also accepted | a way to find it |", "|---|---|---|---|---|---|---|"]
    for w in WORLDS:
        must = "; ".join(f"{t['fault']}: {plain(t['accept'][0])}" for t in w["truth"]) or "nothing"
        also = "; ".join(f"{plain(a)} ({a['why']})" for t in w["truth"] for a in t["accept"][1:])
        rows.append(f"| `{w['name']}` | {len(w['hosts'])} x {w['per_host']} | `{' '.join(w['arguments'])}` | {w['what']} | {must} | {also} | {w['way']} |")
    return "\n".join(rows)


def main():
    os.makedirs(os.path.join(HERE, "worlds"), exist_ok=True)
    for w in WORLDS:
        for seed in range(5000):
            w["seed"] = seed
            if not selftest.early(w):
                break
        else:
            raise SystemExit(f"{w['name']}: no seed meets {selftest.early(w)}")
        with open(os.path.join(HERE, "worlds", w["name"] + ".json"), "w", encoding="utf-8") as f:
            json.dump(w, f, indent=1)
            f.write("\n")
        print(w["name"], "seed", w["seed"])
    path = os.path.join(HERE, "README.md")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        text = re.sub(r"(<!-- table -->\n).*(<!-- end of table -->)", lambda m: m[1] + table() + "\n" + m[2], text, flags=re.S)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
