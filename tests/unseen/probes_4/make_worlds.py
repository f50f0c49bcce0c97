#!/usr/bin/env python3
"""States the 36 machines: writes worlds/NAME.json, truth.json and the table of README.md."""
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
WORLDS, TRUTH, ROWS = {}, {}, []


def names(form, n, first=1):
    return [form % i for i in range(first, first + n)]


def args(budget, limit):
    return ["--budget", str(budget), "--probe-limit", str(limit)]


def world(name, hosts, devices, what, faults=(), budget=60, limit=10, probes=None, sim=None, truth=(), seed=0, note=""):
    """truth: [(fault, [way, ...])]; way: (kind, parts) or (kind, parts, why) for wider ones, or "nobody"."""
    if len(hosts) * devices >= 48:
        limit = max(limit, 15)
    sim = dict(sim or {})
    sim["faults"] = list(faults)
    WORLDS[name] = {"name": name, "seed": seed, "hosts": hosts, "devices": devices, "budget": budget,
                    "args": args(budget, limit), "probes": probes or {"main": probe()}, "sim": sim}
    out = []
    for label, (what_is, ways) in zip("ABC", truth):
        acc, nobody = [], False
        for w in ways:
            if w == "nobody":
                nobody = True
                continue
            a = {"kind": w[0], "parts": w[1]}
            if len(w) > 2:
                a.update(wider=True, why=w[2])
            acc.append(a)
        out.append({"fault": label, "is": what_is, "accepted": acc, "nobody_accepted": nobody})
    TRUTH[name] = {"what": what, "sound": not out, "bad": out, "anything_else_accused": "wrong"}
    if note:
        TRUTH[name]["note"] = note
    ROWS.append(name)


def probe(base=700.0, unit="TFLOP/s", exercised=None, **more):
    out = {"base": base, "unit": unit, "detail": "object"}
    if exercised:
        out["exercised"] = exercised
    out.update(more)
    return out


def bw(base=380.0, exercised="all", **more):
    return probe(base, "GB/s", exercised, **more)


FABRIC = {"host": 1.0, "cross": 0.45, "size": 0.98}     # NVLink inside, the network between
ONE = "the host has only this device"
ALL = "all devices of the sick host"


def device(d, alone=False):
    ways = [("device", [d])]
    if alone:
        ways.append(("host", [d.split(":")[0]], ONE))
    return ways


def every(host, n):
    return ["%s:%d" % (host, i) for i in range(n)]


def links(devs, hosts, n, inside=()):
    """All links from devs to devices of other hosts (none to the hosts `inside`)."""
    return [[d, "%s:%d" % (h, i)] for d in devs for h in hosts
            if h != d.split(":")[0] and h not in inside for i in range(n)]


def whole_host(h, n):
    return [("host", [h]), ("device", every(h, n), ALL)]


XID79 = ("HOST kernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
         "RuntimeError: CUDA error: unspecified launch failure\n")
ECC = ("RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
       "CUDA kernel errors might be asynchronously reported at some other API call.\n")
SEGV = ("Fatal Python error: Segmentation fault\n\nThread 0x00007f3c (most recent call first):\n"
        "  <no Python frame>\nlibcuda.so.1(+0x2a1c3e)\n")
NVLINK = ("HOST: NCCL WARN Cuda failure 'uncorrectable NVLink error detected during the execution'\n"
          "ncclUnhandledCudaError: Call to CUDA function failed.\n")
IB12 = ("HOST: NCCL WARN NET/IB : Got completion from peer with status=12 opcode=0 len=0 vendor err 129\n"
        "ncclRemoteError: A call failed possibly due to a network error\n")
MISMATCH = "RuntimeError: Failed to initialize NVML: Driver/library version mismatch (550.54 / 550.90)\n"
P2P = ("HOST: NCCL WARN Cuda failure 'peer access is not supported between these two devices'\n"
       "ncclUnhandledCudaError: Call to CUDA function failed.\n")
CHATTER = "NCCL INFO cudaDriverVersion 12040\nNCCL INFO Bootstrap : Using eth0\n"
FLAKE = {"where": "*", "do": "wrong", "p": 0.01, "per": "test", "others": "nothing", "note": "result off in one element"}

# ------------------------------------------------------------------ faulty

H = names("gpu-b%02d", 8)
world("f01-off-the-bus", H, 8, "One GPU of 64 has fallen off the bus: its member exits 1 in every start; the others of its set are reset and exit 1.",
      [{"where": ["gpu-b05:6"], "do": "exit", "words": XID79, "others": "reset"}], budget=75,
      truth=[("dead device", device("gpu-b05:6"))])

H = names("nid%03d", 4)
world("f02-ecc-hard", H, 8, "An uncorrectable ECC error in every start on one device (exit 1); its company dies by SIGABRT of the watchdog. Six devices of another host are in use.",
      [{"where": ["nid001:2"], "do": "exit", "words": ECC, "others": "abort"}],
      sim={"busy": [{"where": ["nid003:0", "nid003:1", "nid003:2", "nid003:3", "nid003:6", "nid003:7"]}]},
      truth=[("failing device", device("nid001:2"))])

H = names("node%d", 6, 11)
world("f03-ecc-now-and-then", H, 4, "An ECC error in about one start of three on one device, alone and in company (a bad row that is touched now and then).",
      [{"where": ["node14:1"], "do": "exit", "p": 0.35, "words": ECC, "others": "reset"}],
      truth=[("failing device", device("node14:1"))])

H = names("dgx%02d", 4)
world("f04-driver-hang", H, 8, "A device's driver hangs in every start: no answer, and SIGTERM is ignored; its company waits for ever.",
      [{"where": ["dgx02:5"], "do": "deaf", "others": "hang"}], budget=90, limit=8,
      truth=[("hung device", device("dgx02:5"))])

H = names("lab-gpu%d", 2)
world("f05-segfault", H, 8, "A device whose member dies of SIGSEGV in every start; its company is reset. All first starts take 2 s longer (cold file cache).",
      [{"where": ["lab-gpu1:3"], "do": "signal", "signal": 11, "words": SEGV, "others": "reset"}],
      sim={"late": [{"where": "*", "seconds": 2}]}, limit=12,
      truth=[("failing device", device("lab-gpu1:3"))])

H = names("tn%d", 2)
world("f06-wrong-1-in-50", H, 8, "A device computes wrongly in one of 50 tries; each answer stands for 25 tries and says so (`tries`), so about two of five starts show it. Only the device itself reports it.",
      [{"where": ["tn2:4"], "do": "wrong", "p": 0.02, "others": "nothing", "note": "matmul residual above tolerance"}],
      probes={"main": probe(tries=25, detail="text")}, seed=1, truth=[("device with wrong results", device("tn2:4"))])

H = ["alpha", "beta"]
world("f07-two-nodes", H, 1, "Two hosts of one device: each is fine alone, together both fail (error 12). A cable, either NIC or the port: with two hosts nobody can tell.",
      [{"pair": ["alpha:0", "beta:0"], "do": "exit", "words": IB12, "others": "same"}],
      probes={"main": bw(190.0)}, budget=45,
      truth=[("link", [("link", [["alpha:0", "beta:0"]]), "nobody"])],
      note="Naming the link or nobody is right; one host or one device is a guess and counts as wrong.")

H = names("hpc%02d", 8)
world("f08-slow-20-two-classes", H, 8, "One device is 20% slow (power cap). Three of the eight hosts are of another class that says so and is 30% slower; noise 1.2%.",
      [{"where": ["hpc02:7"], "slow": 0.20}], budget=75,
      sim={"noise": 0.012, "classes": [{"where": ["hpc06", "hpc07", "hpc08"], "class": "NVIDIA H100 PCIe", "factor": 0.7, "says": True},
                                       {"where": "*", "class": "NVIDIA H100 80GB HBM3", "factor": 1, "says": True}]},
      truth=[("slow device", device("hpc02:7"))])

H = names("c1n%02d", 16)
world("f09-slow-50", H, 8, "One of 128 devices is 50% slow (clocks stuck low), alone and in company; noise 1%; one test in a hundred, anywhere, gives a wrong answer.",
      [{"where": ["c1n11:0"], "slow": 0.5}, FLAKE], budget=120, limit=20, sim={"noise": 0.01},
      truth=[("slow device", device("c1n11:0"))])

H = names("sxm%d", 4)
world("f10-slow-5", H, 8, "One device is 5% slow, noise 0.5%.",
      [{"where": ["sxm4:1"], "slow": 0.05}], sim={"noise": 0.005},
      truth=[("slow device", device("sxm4:1"))])

H = names("rack7-%d", 4)
world("f11-thermal-throttle", H, 4, "A device throttles when it is warm: the first start is as ever, every later one 28% slow; noise 1%.",
      [{"where": ["rack7-3:2"], "slow": 0.28, "after": 1}], sim={"noise": 0.01}, probes={"main": probe(detail="text")},
      truth=[("slow device", device("rack7-3:2"))])

H = ["bigbox"]
world("f12-nvlink-of-one", H, 8, "One host of eight: a device whose NVLink is down is fine alone, and every set of two or more with it fails on all members alike.",
      [{"where": ["bigbox:5"], "when": "company", "do": "exit", "words": NVLINK, "others": "same"}],
      probes={"main": bw(chatter=CHATTER)}, truth=[("device that fails with peers", device("bigbox:5"))])

H = names("gn%d", 4)
world("f13-hang-in-company", H, 4, "A device is fine alone; every set of two or more with it hangs, all members alike.",
      [{"where": ["gn3:0"], "when": "company", "do": "hang", "others": "hang"}], budget=90, limit=8,
      probes={"main": bw(detail="text")}, truth=[("device that hangs with peers", device("gn3:0"))])

H = names("a100-%02d", 6)
world("f14-pcie-narrow", H, 4, "A device whose PCIe link came up at half width: alone as fast as any, every set with it at half; only neighbours in the order of ranks talk (`ring`). One test in a hundred gives a wrong answer, anywhere.",
      [{"where": ["a100-04:3"], "when": "company", "slow": 0.5}, FLAKE],
      probes={"main": bw(24.0, "ring", topology={"host": 1.0, "cross": 0.9, "size": 0.99})}, sim={"noise": 0.01, "gpu": "NVIDIA A100-PCIE-40GB"},
      truth=[("slow device with peers", device("a100-04:3"))])

H = names("ib%02d", 8)
world("f15-nic-dead", H, 4, "A host's NIC is dead: its devices are fine alone and with each other; every set of it with another host fails on all members (error 12). Sets over hosts are slower by nature.",
      [{"where": ["ib06"], "when": "cross", "do": "exit", "words": IB12, "others": "same"}],
      probes={"main": bw(topology=FABRIC, chatter=CHATTER)},
      truth=[("host without network", whole_host("ib06", 4) + [("link", links(every("ib06", 4), H, 4), "all links from this host to the others")])])

H = names("rail%d", 4)
world("f16-rail-cable", H, 8, "Each device has its own NIC; one device's cable is bad: it is fine inside its host, and every set of it with another host fails on all members.",
      [{"where": ["rail2:6"], "when": "cross", "do": "exit", "words": IB12, "others": "same"}],
      probes={"main": bw(topology=FABRIC)},
      truth=[("device with a bad cable", device("rail2:6") + [("link", links(["rail2:6"], H, 8), "all links from this device to other hosts")])])

H = names("ws%02d", 6)
world("f17-nic-half-rate", H, 8, "Two probes: `main` (compute) finds nothing anywhere; in `net` every set of one host with another has half of what the other hosts have (its NIC came up at half rate); inside it all is well.",
      [{"where": ["ws02"], "when": "cross", "slow": 0.5, "probe": "net"}], budget=90,
      probes={"main": probe(), "net": bw(topology=FABRIC)},
      truth=[("host with slow network", whole_host("ws02", 8) + [("link", links(every("ws02", 8), H, 8), "all links from this host to the others")])])

H = names("edge%d", 8)
world("f18-slow-link", H, 1, "Eight hosts of one device; between two of them the path gives 40% less, and every set with both is slow; each is as fast as ever with all others.",
      [{"pair": ["edge3:0", "edge8:0"], "slow": 0.4}], probes={"main": bw(46.0, detail="text")}, sim={"noise": 0.01},
      truth=[("slow link", [("link", [["edge3:0", "edge8:0"]])])])

H = names("duo%d", 4)
world("f19-bridge-broken", H, 2, "Hosts of two devices with an NVLink bridge; one host's bridge is broken: every set with both its devices fails (both exit 1, the rest is reset); each is fine with the devices of other hosts.",
      [{"pair": ["duo3:0", "duo3:1"], "do": "exit", "words": P2P, "others": "reset"}],
      probes={"main": bw(100.0, topology={"host": 1.0, "cross": 0.2, "size": 1.0})}, sim={"gpu": "NVIDIA A40"},
      truth=[("link", [("link", [["duo3:0", "duo3:1"]]), ("host", ["duo3"], "the bridge is part of the host and joins its only two devices")])])

H = names("sn%02d", 8)
world("f20-hot-host", H, 8, "All eight devices of one host are 22% slow (fans), alone and in company; noise 1.2%.",
      [{"where": ["sn07"], "slow": 0.22}], budget=75, sim={"noise": 0.012},
      truth=[("slow host", whole_host("sn07", 8))])

H = names("cn%03d", 16, 101)
world("f21-driver-mismatch", H, 4, "On one host of 16 every member exits 1 (driver and library do not match after an update); their company is reset.",
      [{"where": ["cn109"], "do": "exit", "words": MISMATCH, "others": "reset"}], budget=75,
      truth=[("failing host", whole_host("cn109", 4))])

H = [r + n for r in ("r1", "r2", "r3", "r4") for n in ("n1", "n2", "n3", "n4")]
R3 = ["r3n1", "r3n2", "r3n3", "r3n4"]
R3D = [d for h in R3 for d in every(h, 2)]
world("f22-leaf-switch", H, 2, "16 hosts in four racks of four (the names tell); the uplink of rack 3's leaf switch gives half: every set of rack 3 with another rack is slow; inside rack 3 and without it all is well.",
      [{"behind": R3, "slow": 0.5}], budget=90, probes={"main": bw(topology={"host": 1.0, "cross": 0.6, "size": 0.99})}, sim={"noise": 0.01},
      truth=[("leaf switch", [("switch", R3), ("host", R3, "all hosts behind the switch"), ("device", R3D, "all devices behind the switch"),
                              ("link", links(R3D, H, 2, inside=R3), "all links over the uplink")])])

H = names("pod%d", 8)
world("f23-dead-and-slow", H, 4, "Two faults: a device that exits 1 in every start, and one on another host that is 20% slow; noise 1%.",
      [{"where": ["pod2:1"], "do": "exit", "words": XID79, "others": "reset"}, {"where": ["pod7:3"], "slow": 0.2}], sim={"noise": 0.01},
      truth=[("dead device", device("pod2:1")), ("slow device", device("pod7:3"))])

H = names("mi%d", 4)
world("f24-abort-and-wrong", H, 8, "Two faults: a device whose member dies by SIGABRT in every start, and one on another host with a wrong sum in one of three starts (in company all members then report it).",
      [{"where": ["mi1:0"], "do": "signal", "signal": 6, "words": "HSA_STATUS_ERROR_HARDWARE: memory access fault by GPU node DEV\n", "others": "reset"},
       {"where": ["mi4:6"], "do": "wrong", "p": 0.35, "others": "wrong"}],
      sim={"gpu": "AMD Instinct MI250X"}, budget=75, probes={"main": probe(detail="text")},
      truth=[("failing device", device("mi1:0")), ("device with wrong results", device("mi4:6"))])

# ------------------------------------------------------------------ sound

H = names("shared%d", 4)
world("s01-busy", H, 8, "A shared cluster: one host is wholly in use and six devices elsewhere; they say so (`busy`, `ok` false).",
      sim={"busy": [{"where": ["shared3", "shared1:0", "shared1:1", "shared2:4", "shared2:5", "shared4:0", "shared4:7"]}]})

H = names("cloud%02d", 16)
world("s02-noisy", H, 4, "Cloud machines: noise 2.5%, and one test in ten loses an exponential amount of 10% on average; no device more than another.",
      sim={"noise": 0.025, "tail": {"p": 0.1, "mean": 0.1}}, budget=75)

H = names("img%d", 6)
world("s03-slow-start", H, 4, "On three of six hosts the first start on each device takes 4 s (the container image is loaded); values as ever, limit 12 s.",
      sim={"late": [{"where": ["img2", "img3", "img6"], "seconds": 4}]}, limit=12)

H = names("new%d", 8)
world("s04-fails-everywhere", H, 4, "The probe exits 1 on every device in every start: a module is missing.",
      [{"where": "*", "do": "exit", "words": "ModuleNotFoundError: No module named 'torch'\n", "others": "same"}])

H = names("fl%d", 2)
world("s05-flaky-probe", H, 8, "A flaky probe: one bad try in a hundred on everybody; an answer stands for ten tries and says so, so one test in ten says `ok` false.",
      [dict(FLAKE)], probes={"main": probe(tries=10)})

H = names("mix%02d", 12)
world("s06-two-classes", H, 4, "Four of twelve hosts are of another class, 35% slower, and say so (`class`, also in `detail`).",
      sim={"noise": 0.01, "classes": [{"where": ["mix03", "mix04", "mix09", "mix12"], "class": "NVIDIA A100-SXM4-80GB", "factor": 0.65, "says": True},
                                      {"where": "*", "class": "NVIDIA H100 80GB HBM3", "factor": 1, "says": True}]}, budget=75)

H = names("air%d", 4)
world("s07-warming-up", H, 8, "Thermal noise: every device loses 1.5% with each start, at most 7%; noise 1.5%.",
      sim={"noise": 0.015, "drift": {"each": 0.015, "most": 0.07}}, probes={"main": probe(detail="text")})

H = names("cold%d", 6)
world("s08-cold-first-value", H, 2, "The first start on a device (or of a set with a device never started) gives 60%: clocks and caches are cold.",
      sim={"cold": [{"where": "*", "factor": 0.6}]}, budget=45)

H = names("su%d", 4)
world("s09-topology", H, 8, "By nature: inside a host 380, over hosts 45% of it, 2% less for each doubling of the set; sound.",
      probes={"main": bw(topology=FABRIC, chatter=CHATTER)}, sim={"noise": 0.01})

H = names("queue%d", 4)
world("s10-busy-comes-and-goes", H, 4, "Short jobs come and go: every device is busy in three of ten starts, at random.",
      sim={"busy": [{"where": "*", "p": 0.3}]}, budget=45)

H = ["single"]
world("s11-no-value", H, 8, "One host of eight; the probe tells only `ok`, never a value; one first start takes 3 s.",
      probes={"main": {"detail": "none", "exercised": "all"}}, sim={"late": [{"where": ["single:4"], "seconds": 3}]}, budget=45)

H = names("fw%d", 8)
world("s12-no-company-anywhere", H, 2, "Alone all is well; every set of two or more fails on every member: a library is of the wrong version everywhere.",
      [{"where": "*", "when": "company", "do": "exit", "words": "OSError: libnccl.so.2: undefined symbol: ncclCommInitRankConfig\n", "others": "same"}],
      probes={"main": bw()})


def short(way):
    parts = way["parts"]
    if way["kind"] == "link":
        return "link " + (" - ".join(parts[0]) if len(parts) == 1 else "(%s)" % way["why"])
    if len(parts) > 4:
        return "%s (%s)" % (way["kind"], way["why"])
    return "%s %s" % (way["kind"], ", ".join(parts))


def table():
    yield "| machine | hosts x devices | arguments | what it is | must be named | also accepted |"
    yield "|---|---|---|---|---|---|"
    for n in ROWS:
        w, t = WORLDS[n], TRUTH[n]
        must, also = [], []
        for b in t["bad"]:
            must.append("%s: %s" % (b["fault"], short(b["accepted"][0])))
            also += [short(a) for a in b["accepted"][1:]] + (["nobody"] if b["nobody_accepted"] else [])
        yield "| `%s` | %d x %d | `%s` | %s | %s | %s |" % (
            n, len(w["hosts"]), w["devices"], " ".join(w["args"]), t["what"], "; ".join(must) or "nothing", "; ".join(also))


def main():
    os.makedirs(os.path.join(HERE, "worlds"), exist_ok=True)
    for n, w in WORLDS.items():
        with open(os.path.join(HERE, "worlds", n + ".json"), "w") as f:
            json.dump(w, f, indent=1)
            f.write("\n")
    with open(os.path.join(HERE, "truth.json"), "w") as f:
        json.dump(TRUTH, f, indent=1)
        f.write("\n")
    readme = os.path.join(HERE, "README.md")
    if os.path.exists(readme):
        text = open(readme).read()
        text = re.sub(r"(?s)<!-- table -->.*<!-- end of table -->",
                      lambda m: "<!-- table -->\n" + "\n".join(table()) + "\n<!-- end of table -->", text)
        open(readme, "w").write(text)
    print(len(WORLDS), "worlds,", sum(not t["sound"] for t in TRUTH.values()), "with faults")


if __name__ == "__main__":
    main()
