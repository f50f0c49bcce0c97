#!/usr/bin/env python3
"""Writes worlds/*.json and the table in README.md.  The worlds are stated here."""
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
WORLDS = []


def names(pattern, n, first=1):
    return [pattern % i for i in range(first, first + n)]


def args(budget, limit):
    return ["--budget", str(budget), "--probe-limit", str(limit)]


def device(d, fault, per_host, why="the one bad device"):
    """Accepted namings of one device; on a host of one device the host is the same thing."""
    out = [{"fault": fault, "kind": "device", "devices": [d], "hosts": [], "links": [], "why": why}]
    if per_host == 1:
        out.append({"fault": fault, "kind": "host", "devices": [], "hosts": [d.split(":")[0]], "links": [],
                    "wider": True, "why": "the host has only this device: host and device are one thing here"})
    return out


def host(h, fault, per_host, why="the one bad host"):
    return [{"fault": fault, "kind": "host", "devices": [], "hosts": [h], "links": [], "why": why},
            {"fault": fault, "kind": "device", "devices": ["%s:%d" % (h, i) for i in range(per_host)],
             "hosts": [], "links": [], "wider": True,
             "why": "every device of the host named (in one verdict or several) is the same parts"}]


def link(x, y, fault, why="only this pair"):
    return [{"fault": fault, "kind": "link", "devices": [], "hosts": [], "links": [[x, y]],
             "why": why + "; either order of the ends is accepted"}]


def world(name, about, hosts, per_host, arguments, truth=(), plan="", probes=("main",), seed=0, **kw):
    w = {"name": name, "about": about, "sound": not truth, "hosts": hosts, "devices_per_host": per_host,
         "probes": list(probes), "arguments": arguments, "seed": seed}
    probe = {"what": "all-reduce 64 MiB", "base": 100.0, "unit": "GB/s", "higher_is_better": True,
             "noise": 0.01, "exercised": "all"}
    probe.update(kw.pop("probe", {}))
    w["probe"] = probe
    w.update(kw)
    w["plan"] = plan
    w["truth"] = list(truth)
    WORLDS.append(w)


GONE = "RuntimeError: CUDA error: no CUDA-capable device is detected (device has fallen off the bus, Xid 79)"
REMOTE = "NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129\n" \
         "RuntimeError: NCCL error: remote process exited or there was a network error"

# ------------------------------------------------------------------ 24 faulty
world("f01-dead-alone", "One device of 32 is gone: its member exits 1 in every start, alone too; in company the others "
      "get a reset connection and exit 1 as well.", names("dka%02d", 4), 8, args(40, 8),
      device("dka03:5", "A", 8), "32 singles at once, the bad one again: about 35 starts",
      faults=[{"where": {"device": "dka03:5"}, "what": "exit", "words": GONE, "peers": "reset"}])

world("f02-segv-native", "A device whose member dies of SIGSEGV, with the native frame (libnccl.so.2) in its last words; "
      "its company exits 1 with 'connection reset'.", names("sgv%d", 8), 1, args(30, 8),
      device("sgv6:0", "A", 1), "8 singles, 1 again: 10 starts",
      faults=[{"where": {"device": "sgv6:0"}, "what": "segv", "peers": "reset"}])

world("f03-seed2-gpu7", "Seed 2: devices 0-3 of the first host are in use by others; its device 7 is fine alone and every set "
      "of two or more with it dies of SIGSEGV, all members alike.", names("lab%d", 2), 8, args(45, 8),
      device("lab1:7", "A", 8, "GPU 7: computes alone, breaks every job it joins"),
      "16 singles, 1 round of pairs, the failed pair with good partners: about 40 starts",
      busy={"always": ["lab1:0", "lab1:1", "lab1:2", "lab1:3"], "ok": True},
      faults=[{"where": {"device": "lab1:7"}, "what": "segv", "min": 2, "peers": "same"}])

world("f04-hang-deaf", "A host's device hangs in every start, ignores SIGTERM, SIGINT and SIGHUP and leaves a forked child that "
      "holds stdout open; its company waits for ever (but heeds SIGTERM).", names("dea%02d", 16), 1, args(60, 4),
      device("dea11:0", "A", 1), "16 singles at once cost one limit (4 s), once again to confirm: 17 starts, 8 s",
      faults=[{"where": {"device": "dea11:0"}, "what": "deaf", "forks": True, "peers": "hang"}])

world("f05-hang-in-company", "A device is fine alone and hangs in every set of two or more; the whole set hangs with it.",
      names("hic%d", 4), 4, args(60, 5), device("hic2:1", "A", 4),
      "16 singles, 8 pairs at once (5 s), the failed two with good partners (5 s): 36 starts, about 15 s",
      faults=[{"where": {"device": "hic2:1"}, "what": "hang", "min": 2, "peers": "hang"}])

world("f06-wrong-1-of-3", "A device computes a wrong sum in one of three starts; in company everybody in the set then reports the "
      "wrong sum.", names("wrt%d", 8), 2, args(60, 8), device("wrt5:0", "A", 2),
      "6 rounds of 16 singles, then the suspect 6 times: about 100 starts", seed=26,
      faults=[{"where": {"device": "wrt5:0"}, "what": "wrong", "p": 1 / 3}])

world("f07-wrong-1-of-6", "A device computes a wrong sum in one of six starts, alone and in company.", names("wrs%d", 6), 1,
      args(60, 8), device("wrs2:0", "A", 1),
      "15 rounds of 6 singles, then the suspect 15 times: about 105 starts", seed=29,
      faults=[{"where": {"device": "wrs2:0"}, "what": "wrong", "p": 1 / 6}])

world("f08-slow-10-of-64", "One of 64 hosts is 10% slow, noise 0.8%.", names("jz%02d", 64), 1, args(60, 20),
      device("jz41:0", "A", 1), "64 singles, the five slowest and five others three times: about 100 starts",
      probe={"noise": 0.008, "what": "matmul bf16", "unit": "TFLOP/s", "base": 240.0},
      faults=[{"where": {"device": "jz41:0"}, "what": "slow", "times": 0.90}])

world("f09-slow-7-of-32", "One of 32 hosts is 7% slow, noise 0.8%.", names("svn%02d", 32), 1, args(60, 12),
      device("svn18:0", "A", 1), "32 singles, the five slowest and five others three times: about 65 starts",
      probe={"noise": 0.008, "what": "matmul bf16", "unit": "TFLOP/s", "base": 310.0},
      faults=[{"where": {"device": "svn18:0"}, "what": "slow", "times": 0.93}])

world("f10-slow-12-noisy-ms", "The value is a time (lower is better); one device takes 12% longer, and the noise is 2.5%.",
      names("twl%d", 8), 2, args(60, 8), device("twl3:1", "A", 2),
      "4 rounds of 16 singles, suspects four times more: about 90 starts",
      probe={"noise": 0.025, "what": "block forward+backward", "unit": "ms", "higher_is_better": False, "base": 84.0},
      faults=[{"where": {"device": "twl3:1"}, "what": "slow", "times": 1 / 1.12}])

world("f11-slow-60-in-company", "A device on a narrow PCIe: alone as fast as any, every collective with it 60% slower.",
      names("pci%d", 4), 4, args(60, 8), device("pci4:2", "A", 4),
      "16 singles, 2 rounds of pairs: about 50 starts",
      faults=[{"where": {"device": "pci4:2"}, "what": "slow", "times": 0.40, "min": 2}])

world("f12-company-of-3", "Alone and in pairs all is well; a set of three or more with this device gets a wrong sum, reported by "
      "every member.", names("tri%d", 4), 4, args(60, 8), device("tri3:3", "A", 4),
      "one set of 16, 2 of 8, 4 of 4, threes with good partners: about 70 starts",
      faults=[{"where": {"device": "tri3:3"}, "what": "wrong", "min": 3}])

world("f13-bad-partner", "Two devices on different hosts are good with everybody else and fail with each other (both exit 1, the "
      "rest of the set is reset).", names("prt%d", 3), 4, args(60, 8), link("prt1:2", "prt3:1", "A", "good with all others"),
      "a set of 12, halves and quarters in turn, both ends with others: about 70 starts",
      faults=[{"where": {"link": ["prt1:2", "prt3:1"]}, "what": "exit", "words": REMOTE, "peers": "reset"}])

world("f14-one-way-link", "The link from one host to another runs at half speed in that direction only; sets with both are slow for "
      "all members. `exercised` is \"all\".", names("owl%d", 8), 1, args(60, 8),
      link("owl2:0", "owl7:0", "A", "both ends are fast with all others"),
      "8 singles, 7 rounds of 4 pairs: about 64 starts; splitting needs fewer",
      faults=[{"where": {"link": ["owl2:0", "owl7:0"]}, "one_way": True, "what": "slow", "times": 0.5}])

world("f15-ring-link", "`exercised` is \"ring\": only neighbours in the order of ranks talk. The link between two of 12 hosts is broken: "
      "when they are neighbours both exit 1 with error 12 and the rest is reset.", names("rng%02d", 12), 1, args(60, 8),
      link("rng04:0", "rng09:0", "A", "both ends work with all others"),
      "11 rounds of 6 pairs: 132 starts; rings in other orders need fewer", probe={"exercised": "ring"},
      faults=[{"where": {"link": ["rng04:0", "rng09:0"]}, "what": "exit", "words": REMOTE, "peers": "reset"}])

world("f16-slow-network-host", "By nature sets inside a host are fast and sets over hosts at 40%; one host's network gives 55% of what "
      "the others have. Inside it all is well.", names("net%d", 8), 4, args(60, 12), host("net5", "A", 4),
      "8 sets of one device a host in pairs of hosts, 2 rounds, with two different devices of the suspect: about 60 starts",
      probe={"intra": 0.8, "inter": 0.4}, faults=[{"where": {"net": "net5"}, "what": "slow", "times": 0.55}])

LEAF = ["r2n%d" % i for i in range(1, 5)]
REST = ["r%dn%d" % (r, i) for r in (1, 3) for i in range(1, 5)]
world("f17-leaf-switch", "12 hosts in three racks of four; the uplink of rack 2's leaf switch gives half: sets that cross it are slow, "
      "sets within rack 2 and sets without rack 2 are fast. The host names tell the rack.",
      ["r%dn%d" % (r, i) for r in (1, 2, 3) for i in range(1, 5)], 1, args(60, 8),
      [{"fault": "A", "kind": "switch", "devices": [], "hosts": LEAF, "links": [], "why": "the hosts behind the leaf"},
       {"fault": "A", "kind": "host", "devices": [], "hosts": LEAF, "links": [], "wider": True,
        "why": "all four hosts behind the leaf, and no other, named as hosts: the administrator looks at what they share"},
       {"fault": "A", "kind": "device", "devices": [h + ":0" for h in LEAF], "hosts": [], "links": [], "wider": True,
        "why": "the same, one device a host"},
       {"fault": "A", "kind": "link", "devices": [], "hosts": [],
        "links": [[a + ":0", b + ":0"] for a in LEAF for b in REST], "wider": True,
        "why": "every link over the uplink, and no other, is the same set of paths"}],
      "12 singles, 3 to 4 rounds of 6 pairs, sets of the four: about 70 starts",
      faults=[{"where": {"switch": LEAF}, "what": "slow", "times": 0.5}])

world("f18-two-at-once", "Two faults: one device dies of SIGSEGV in every start, another on another host is 35% slow.",
      names("two%02d", 16), 2, args(60, 10), device("two04:0", "A", 2) + device("two13:1", "B", 2),
      "32 singles, the two suspects again: about 40 starts",
      faults=[{"where": {"device": "two04:0"}, "what": "segv", "peers": "reset"},
              {"where": {"device": "two13:1"}, "what": "slow", "times": 0.65}])

world("f19-three-at-once", "Three faults: a dead device, one with a wrong sum in every start, one 25% slow; on three hosts.",
      names("thr%d", 8), 4, args(60, 10),
      device("thr3:0", "A", 4) + device("thr6:2", "B", 4) + device("thr8:1", "C", 4),
      "32 singles, the three suspects again: about 40 starts",
      faults=[{"where": {"device": "thr3:0"}, "what": "exit", "words": GONE, "peers": "reset"},
              {"where": {"device": "thr6:2"}, "what": "wrong"},
              {"where": {"device": "thr8:1"}, "what": "slow", "times": 0.75}])

world("f20-busy-and-bad", "Five devices of one host are in use (busy, `ok` false); another device of the same host gives wrong sums in "
      "every set of two or more.", names("bab%d", 4), 8, args(60, 10), device("bab3:6", "A", 8),
      "32 singles, 1 round of pairs among the free, the failed pair with good partners: about 75 starts",
      busy={"always": ["bab3:0", "bab3:1", "bab3:2", "bab3:3", "bab3:4"], "ok": False},
      faults=[{"where": {"device": "bab3:6"}, "what": "wrong", "min": 2}])

world("f21-second-probe", "Two probes: `main` finds nothing anywhere; `net` fails in every set of two or more with one device "
      "(it exits 1, the others are reset).", names("scp%d", 6), 4, args(60, 8), device("scp2:3", "A", 4),
      "24 singles of both, 12 pairs of both, the failed pair with good partners: about 105 starts",
      probes=("main", "net"), probe_by_name={"net": {"what": "send/recv 16 MiB", "base": 23.0}},
      faults=[{"where": {"device": "scp2:3"}, "what": "exit", "words": REMOTE, "peers": "reset", "min": 2, "probes": ["net"]}])

world("f22-rubbish-and-no-value", "Two faults: one device's member prints binary rubbish and exits 0, another's answers `ok` true without "
      "`value` and `unit`, which all others give. Company does not notice either.", names("rub%02d", 10), 1, args(45, 8),
      device("rub03:0", "A", 1, "rubbish for an answer") + device("rub08:0", "B", 1, "an answer without the number all others give"),
      "10 singles, the two again: 14 starts",
      faults=[{"where": {"device": "rub03:0"}, "what": "rubbish"}, {"where": {"device": "rub08:0"}, "what": "no_value"}])

world("f23-one-rank-answers", "Alone all answer. In a set with the sick device only rank 0 answers (ok); all other members end with "
      "exit 0 and print nothing.", names("ora%d", 5), 3, args(60, 8), device("ora4:1", "A", 3),
      "15 singles, 7 pairs, the failed pair with good partners: about 40 starts",
      faults=[{"where": {"device": "ora4:1"}, "what": "only_rank0", "min": 2}])

world("f24-hot-host", "All four devices of one host are 20% slow (a fan); alone and in company.", names("hot%d", 8), 4, args(60, 10),
      host("hot7", "A", 4), "32 singles, the four and four others again: about 45 starts",
      faults=[{"where": {"host": "hot7"}, "what": "slow", "times": 0.80}])

# ------------------------------------------------------------------ 12 sound
B = names("bsy%d", 4)
world("s01-busy-devices", "14 of 32 devices are in use by other jobs and say so (`busy`, `ok` false).", B, 8, args(40, 8),
      busy={"ok": False, "always": ["%s:%d" % (h, i) for h, n in zip(B, (6, 0, 5, 3)) for i in range(n)]})

world("s02-heavy-tails", "Noise 2%, and one test in eight loses an exponential amount of 12% on average; no device more than another.",
      names("tai%d", 8), 2, args(60, 8), probe={"noise": 0.02, "tail": {"p": 0.12, "mean": 0.12}})

world("s03-slow-start", "The first start on three of 12 devices takes 3 s (a cold file cache); values as ever, limit 10 s.",
      names("cold%d", 6), 2, args(45, 10),
      probe={"late_first": {"devices": ["cold2:0", "cold2:1", "cold5:0"], "seconds": 3}})

world("s04-outlier-1-in-30", "One test in 30, anywhere, gives 60% of the value; all else within 1%.", names("out%d", 8), 2,
      args(60, 8), probe={"tail": {"p": 1 / 30, "times": 0.6}})

world("s05-two-models", "Half of the hosts are an older model, 25% slower; by agreement no fault.", names("mod%02d", 12), 1,
      args(45, 8), models={h: 0.75 for h in ("mod02", "mod04", "mod05", "mod08", "mod11", "mod12")})

world("s06-all-slow-64", "64 hosts, all alike at an eighth of what the data sheet says and 8% slower with time (in 40 s), noise 2%.",
      names("sea%02d", 64), 1, args(60, 20), probe={"base": 12.5, "noise": 0.02, "drift": {"by": 0.08, "seconds": 40}})

world("s07-fails-everywhere", "The probe fails in every start on every device: a module is missing. The probe is at fault.",
      names("mis%d", 6), 4, args(40, 8),
      faults=[{"where": {"all": True}, "what": "exit", "words": "Traceback (most recent call last):\n  File \"probe.py\", line 3, in <module>\n"
               "ModuleNotFoundError: No module named 'cupy'"}])

world("s08-flapping-busy", "Every device is busy in two of five starts, at random.", names("flp%d", 4), 4, args(45, 8),
      busy={"p": 0.4, "ok": True})

world("s09-first-start", "The first start on a device (or of a set with a device never started) gives 55%: caches and clocks are cold.",
      names("wrm%d", 8), 2, args(45, 8), probe={"first_start": 0.55})

world("s10-topology", "By nature: alone 100, inside a host 78, over hosts 24, and 3% less for each doubling of the set.",
      names("top%d", 4), 8, args(45, 10), probe={"intra": 0.78, "inter": 0.24, "per_doubling": 0.97})

world("s11-rank-0-answers", "In sets only rank 0 answers, by the probe's design (as nccl-tests prints); alone everybody does.",
      names("rk%d", 6), 2, args(40, 8), probe={"rank0_only": True, "chatter": True})

world("s12-no-company-anywhere", "Every start alone is good, every set of two or more fails on every member: the probe's own port is shut "
      "everywhere. No part is worse than another.", names("blk%02d", 12), 1, args(40, 8),
      faults=[{"where": {"all": True}, "what": "exit", "min": 2,
               "words": "RuntimeError: connect() to peer port 29400 failed: Connection refused"}])


def table():
    rows = ["| world | hosts x devices | arguments | what it is | must be named | also accepted | a way to find it |",
            "|---|---|---|---|---|---|---|"]

    def text(t):
        if t["kind"] == "link":
            ls = t["links"]
            return "link " + (" - ".join(ls[0]) if len(ls) == 1 else "all %d over the uplink" % len(ls))
        parts = t["devices"] if t["kind"] == "device" else t["hosts"]
        return t["kind"] + " " + ", ".join(parts)

    for w in WORLDS:
        must = "; ".join("%s: %s" % (t["fault"], text(t)) for t in w["truth"] if not t.get("wider")) or "nothing"
        wider = "; ".join(text(t) for t in w["truth"] if t.get("wider")) or ""
        rows.append("| `%s` | %d x %d | `%s` | %s | %s | %s | %s |" % (
            w["name"], len(w["hosts"]), w["devices_per_host"], " ".join(w["arguments"]),
            w["about"], must, wider, w["plan"]))
    return "\n".join(rows)


def main():
    os.makedirs(os.path.join(HERE, "worlds"), exist_ok=True)
    for w in WORLDS:
        with open(os.path.join(HERE, "worlds", w["name"] + ".json"), "w", encoding="utf-8") as f:
            json.dump(w, f, indent=1)
            f.write("\n")
    path = os.path.join(HERE, "README.md")
    if os.path.exists(path):
        text = open(path, encoding="utf-8").read()
        text = re.sub(r"(<!-- table -->).*?(<!-- end of table -->)",
                      lambda m: m.group(1) + "\n" + table() + "\n" + m.group(2), text, flags=re.S)
        open(path, "w", encoding="utf-8").write(text)
    faulty = sum(not w["sound"] for w in WORLDS)
    print("%d worlds: %d faulty, %d sound" % (len(WORLDS), faulty, len(WORLDS) - faulty))


if __name__ == "__main__":
    main()
