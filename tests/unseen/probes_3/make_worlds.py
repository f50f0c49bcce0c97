"""States the worlds, writes worlds/NAME.json and the table in README.md."""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
WORLDS = []


def numbered(stem, n, first=1, width=0):
    return [stem + str(i).zfill(width) for i in range(first, first + n)]


def devices(hosts, n):
    return ["%s:%d" % (h, d) for h in hosts for d in range(n)]


def probe(unit, base, noise=0.01, higher=True, **more):
    return dict({"unit": unit, "base": base, "noise": noise, "higher": higher, "exercised": "all",
                 "effects": []}, **more)


def effect(at, what, **more):
    return dict({"at": at, "effect": what}, **more)


def fault(letter, *namings):
    return {"fault": letter, "namings": list(namings)}


def naming(kind, items, why=None):
    one = {"kind": kind, "items": items}
    if why:
        one.update(wider=True, why=why)
    return one


def lone(dev):
    """A device on a host with no other one."""
    return [naming("device", [dev]),
            naming("host", [dev.split(":")[0]], "the host has only this device")]


def world(name, hosts, n, budget, limit, probes, what, faults=(), way="", start=1):
    if "effects" in probes:
        probes = {"main": probes}
    WORLDS.append({"name": name, "hosts": hosts, "devices": n, "budget": budget,
                   "arguments": ["--budget", str(budget), "--probe-limit", str(limit)], "probes": probes,
                   "what": what, "truth": list(faults), "way": way})


NATIVE = ("[%s] *** Process received signal ***\nSignal: Segmentation fault (11)\n"
          "[ 3] /usr/lib/x86_64-linux-gnu/libnccl.so.2(+0x5c1f2)[0x7f21c85c1f2]\n")

# ---- with a fault -------------------------------------------------------------------------------------------------
H = numbered("amber", 4)
world("f01-segfault", H, 8, 60, 8, probe("GFLOP/s", 310.0, effects=[
    effect("device", "segv", who=["amber3:6"], words=NATIVE % "amber3")]),
    "One device of 32 dies of SIGSEGV in every start, alone and in company; the others of the set are reset (exit 1).",
    [fault("A", naming("device", ["amber3:6"]))], "32 singles, the suspect twice again: 34 starts")

H = ["box"]
world("f02-fine-alone-one-box", H, 8, 35, 6, probe("GB/s", 182.0, busy=["box:0", "box:3", "box:4"], effects=[
    effect("device", "segv", who=["box:6"], from_size=2, spread="same", words="Segmentation fault (core dumped)\n")]),
    "Seed 2: one machine of 8, three in use by others; one device is fine alone, and every set of two or more with it "
    "dies of SIGSEGV, all members alike.",
    [fault("A", naming("device", ["box:6"]))], "8 singles, 2 pairs, the failed two with good partners: 18 starts")

H = numbered("cn", 4, 10)
world("f03-hang", H, 4, 60, 5, probe("ms", 21.0, 0.015, higher=False, effects=[
    effect("device", "hang", who=["cn12:0"], spread="same")]),
    "One device hangs in every start, alone too; its company waits for it for ever. All heed SIGTERM.",
    [fault("A", naming("device", ["cn12:0"]))], "16 singles at once cost one limit, the suspect once more: 17 starts, 12 s")

H = numbered("dune", 8, 0)
world("f04-hang-in-company-deaf", H, 1, 60, 5, probe("GB/s", 47.0, effects=[
    effect("device", "deaf", who=["dune5:0"], from_size=2, spread="same")]),
    "A host's only device is fine alone and hangs in every set of two or more, deaf to SIGTERM, SIGINT and SIGHUP, "
    "with a forked child that holds stdout open; the others of the set hang with it (and heed SIGTERM).",
    [fault("A", *lone("dune5:0"))],
    "8 singles, 4 pairs at once (5 s), the failed two with good partners (5 s): 20 starts, about 15 s")

H = numbered("east", 8)
world("f05-half-speed", H, 4, 60, 8, probe("TFLOP/s", 91.0, 0.02, coupled=False, exercised=None, effects=[
    effect("device", "slow", who=["east2:1"], factor=0.5)]),
    "One device of 32 computes at half speed; every member measures itself, company changes nothing.",
    [fault("A", naming("device", ["east2:1"]))], "32 singles, the suspect and two others again: 38 starts")

H = numbered("fen", 4)
world("f06-slow-20", H, 4, 50, 8, probe("GB/s", 1210.0, 0.04, effects=[
    effect("device", "slow", who=["fen4:2"], factor=0.8)]),
    "One device of 16 is 20% slow, the noise is 4%; in a set the slowest sets the value of all.",
    [fault("A", naming("device", ["fen4:2"]))], "3 rounds of 16 singles, suspects 4 times more: 65 starts")

H = numbered("gale", 16, 1, 2)
world("f07-slow-5", H, 1, 55, 8, probe("it/s", 9.51, 0.01, coupled=False, exercised=None, effects=[
    effect("device", "slow", who=["gale11:0"], factor=0.95)]),
    "One of 16 hosts is 5% slow, the noise is 1%; every member measures itself.",
    [fault("A", *lone("gale11:0"))], "3 rounds of 16 singles, the slowest 4 and 4 others 4 times more: 80 starts")

H = numbered("hop", 4)
world("f08-wrong-1-of-10", H, 2, 60, 8, probe("GFLOP/s", 640.0, effects=[
    effect("device", "wrong", who=["hop1:1"], one_in=10, spread="same")]),
    "One device gives a wrong sum in one of ten tries (exactly one in each ten); in company every member reports it.",
    [fault("A", naming("device", ["hop1:1"]))], "20 rounds of 8 singles: 160 starts; splitting the failed set needs fewer")

H = numbered("ivy", 3)
world("f09-rare-1-of-50", H, 1, 60, 8, probe("GFLOP/s", 55.0, coupled=False, exercised=None, seconds=0.02, effects=[
    effect("device", "wrong", who=["ivy3:0"], one_in=50, spread="none",
           words="bit 17 of word 40961 differs from the known answer")]),
    "One of three devices gives a wrong answer in one of 50 tries (exactly one in each fifty) and says so itself; "
    "the others of a set do not notice.",
    [fault("A", *lone("ivy3:0"))], "60 rounds of 3 singles (or of one set of 3): 180 starts show two wrong answers, "
    "20 rounds the first")

H = numbered("juno", 3)
world("f10-wrong-in-company", H, 4, 45, 8, probe("GB/s", 88.0, effects=[
    effect("device", "wrong", who=["juno1:2"], from_size=2, spread="same")]),
    "A device is right alone; every set of two or more with it gets a wrong sum, told by every member.",
    [fault("A", naming("device", ["juno1:2"]))], "12 singles, 1 round of pairs, the failed two with good partners: 28 starts")

H = numbered("kite", 4)
world("f11-one-operation", H, 2, 45, 8, {
    "matmul": probe("TFLOP/s", 71.0, coupled=False, exercised=None),
    "copy": probe("GB/s", 24.0, coupled=False, exercised=None, effects=[
        effect("device", "wrong", who=["kite4:0"], spread="none", words="copy differs at byte 3407872")]),
    "reduce": probe("GB/s", 61.0)},
    "Three probes; one device is bad for one of them only (its copies differ, in every try). The others are all well.",
    [fault("A", naming("device", ["kite4:0"]))], "8 singles of each probe, the suspect again: 26 starts")

H = numbered("lynx", 6)
world("f12-link", H, 2, 60, 8, probe("GB/s", 11.6, effects=[
    effect("link", "exit", links=[["lynx2:1", "lynx5:0"]], code=1,
           words="NCCL WARN Got completion with error 12, opcode 0, vendor err 129\n")]),
    "Two devices on different hosts are good with everybody else and fail with each other: in a set with both, both "
    "exit 1 with 'error 12' and the rest is reset.",
    [fault("A", naming("link", [["lynx2:1", "lynx5:0"]]))],
    "a set of 12, halves and quarters, the pair and each end with another: about 60 starts; 11 rounds of pairs: 132")

H = numbered("moor", 6, 0)
world("f13-two-links-ring", H, 1, 50, 8, probe("GB/s", 9.4, exercised="ring", effects=[
    effect("link", "slow", links=[["moor0:0", "moor4:0"], ["moor2:0", "moor5:0"]], factor=0.55)]),
    "A pair of links is bad (two links, four different hosts): sets in which one of them is used get 55%. "
    "`exercised` is \"ring\": rank r with r+1, the last with the first.",
    [fault("A", naming("link", [["moor0:0", "moor4:0"]])), fault("B", naming("link", [["moor2:0", "moor5:0"]]))],
    "6 singles, 5 rounds of pairs, the two slow pairs again: 40 starts")

H = ["nova"]
world("f14-link-in-box", H, 8, 55, 8, probe("GB/s", 214.0, 0.015, effects=[
    effect("link", "slow", links=[["nova:2", "nova:5"]], factor=0.5)]),
    "One machine of 8: between two of its devices half the bandwidth; sets with both are slow for all members.",
    [fault("A", naming("link", [["nova:2", "nova:5"]]))], "8 singles, 7 rounds of pairs, the slow pair again: 66 starts")

H = [r + h for r in ("oakA", "oakB", "oakC") for h in ("n1", "n2", "n3")]
S = ["oakBn1", "oakBn2", "oakBn3"]
OTHERS = [h for h in H if h not in S]
world("f15-switch-uplink", H, 1, 60, 8, probe("GB/s", 23.5, effects=[
    effect("uplink", "slow", hosts=S, factor=0.5)]),
    "Nine hosts in three racks of three; the uplink of rack B's switch gives half: sets over the border of rack B are "
    "slow, within rack B and without it all is well. The host names tell the rack.",
    [fault("A", naming("switch", S),
           naming("host", S, "all hosts behind the switch: what is cut off is the same"),
           naming("device", devices(S, 1), "the only devices of these hosts"),
           naming("link", [[a + ":0", b + ":0"] for a in S for b in OTHERS], "all links over the uplink"))],
    "9 singles, 4 rounds of pairs, the pairs inside the suspects: about 60 starts")

H = [r + h for r in ("p1", "p2", "p3", "p4") for h in ("a", "b")]
S = ["p3a", "p3b"]
world("f16-switch-leaf", H, 1, 40, 8, probe("GB/s", 24.0, effects=[
    effect("leaf", "wrong", hosts=S, spread="same", words="all_reduce: checksum differs")]),
    "Four racks of two hosts; everything over rack p3's leaf switch is corrupted, between its own two hosts too; "
    "alone all is well. Two hosts bad in company explain the same.",
    [fault("A", naming("switch", S),
           naming("host", S, "both hosts bad whenever they talk: fits as well"),
           naming("device", devices(S, 1), "the only devices of these hosts"),
           naming("link", [[a + ":0", b + ":0"] for i, a in enumerate(H) for b in H[i + 1:] if a in S or b in S],
                  "all links over the switch"))],
    "8 singles, 2 rounds of pairs, the suspects with good partners: about 40 starts")

H = numbered("quay", 6)
world("f17-whole-host", H, 3, 45, 8, probe("GFLOP/s", 402.0, effects=[
    effect("device", "exit", who=devices(["quay4"], 3), code=3,
           words="RuntimeError: No HIP/CUDA GPUs are available\n")]),
    "All three devices of one host fail (exit 3) in every start.",
    [fault("A", naming("host", ["quay4"]), naming("device", devices(["quay4"], 3), "all devices of the host"))],
    "18 singles, the three again: 24 starts")

H = numbered("reef", 5)
X = [[a, b] for a in devices(["reef3"], 2) for b in devices([h for h in H if h != "reef3"], 2)]
world("f18-host-network", H, 2, 50, 8, probe("GB/s", 120.0, 0.015, nature={"alone": 1.0, "inside": 0.9, "across": 0.4},
                                            effects=[effect("uplink", "slow", hosts=["reef3"], factor=0.6)]),
    "By nature sets over hosts get 40% of a device alone, inside a host 90%; over one host's network only 60% of what "
    "the others get. Inside that host all is well.",
    [fault("A", naming("host", ["reef3"]),
           naming("device", devices(["reef3"], 2), "all devices of the host"),
           naming("switch", ["reef3"], "the port of this one host"),
           naming("link", X, "all links out of the host"))],
    "10 singles, 5 pairs inside, 3 rounds of pairs over hosts: about 50 starts")

H = numbered("silt", 16, 1, 2)
world("f19-segfault-and-slow", H, 2, 60, 8, probe("GB/s", 803.0, 0.015, effects=[
    effect("device", "segv", who=["silt05:1"], words=NATIVE % "silt05"),
    effect("device", "slow", who=["silt14:0"], factor=0.75)]),
    "Two faults among 32 devices: one dies of SIGSEGV in every start, another is 25% slow.",
    [fault("A", naming("device", ["silt05:1"])), fault("B", naming("device", ["silt14:0"]))],
    "32 singles, both suspects and four others twice again: 44 starts")

H = numbered("tarn", 8)
world("f20-company-and-link", H, 1, 60, 8, probe("GB/s", 22.0, effects=[
    effect("device", "exit", who=["tarn2:0"], from_size=2, spread="same", code=1,
           words="ncclSystemError: System call or external library call failed\n"),
    effect("link", "exit", links=[["tarn4:0", "tarn7:0"]], spread="same", code=1,
           words="ncclSystemError: System call or external library call failed\n")]),
    "Two faults: one device fails in every set of two or more, and two others fail with each other only. All members "
    "of a failed set say the same.",
    [fault("A", *lone("tarn2:0")), fault("B", naming("link", [["tarn4:0", "tarn7:0"]]))],
    "8 singles, 7 rounds of pairs, the failed link again: 66 starts")

H = ["umber"]
world("f21-disturbs-neighbours", H, 6, 40, 8, probe("GFLOP/s", 148.0, 0.015, coupled=False, effects=[
    effect("disturb", "slow", who=["umber:4"], hosts=["umber"], factor=0.65)]),
    "One machine of 6: a device that is itself as fast as ever in any set, but all its neighbours in the same set lose "
    "35%. Alone and in sets without it all are well. Its neighbours are not to be named.",
    [fault("A", naming("device", ["umber:4"]),
           naming("link", [["umber:4", "umber:%d" % d] for d in (0, 1, 2, 3, 5)], "all links of the device"))],
    "6 singles, 5 rounds of pairs: 36 starts")

H = numbered("vale", 5)
world("f22-silent-exit", H, 2, 40, 8, probe("GB/s", 33.0, effects=[
    effect("device", "silent", who=["vale1:1"], spread="none")]),
    "One device's member ends with exit 0 and prints nothing, in every start; its company does not notice.",
    [fault("A", naming("device", ["vale1:1"]))], "10 singles, the suspect twice again: 12 starts")

H = numbered("wold", 4)
world("f23-late-start", H, 2, 60, 8, probe("GB/s", 41.0, effects=[
    effect("device", "late", who=["wold4:1"], seconds=3.0, patience=2.0)]),
    "One device starts 3 s late every time: alone it answers as ever after 3 s; in company the others give up after "
    "2 s (exit 1) and it finds nobody (exit 1).",
    [fault("A", naming("device", ["wold4:1"]))],
    "8 singles (3 s), 4 pairs (3 s), the failed two with good partners (3 s): 20 starts, about 14 s")

H = numbered("yew", 3)
world("f24-slow-20-ms-cold", H, 6, 60, 8, probe("ms", 35.0, 0.025, higher=False, cold=0.7, effects=[
    effect("device", "slow", who=["yew2:3"], factor=0.8)]),
    "The value is a time; one device of 18 is 20% slow, the noise 2.5%, and the first try on any device (or of a set "
    "with such a one) takes 43% longer.",
    [fault("A", naming("device", ["yew2:3"]))], "4 rounds of 18 singles, suspects 4 times more: 80 starts")

# ---- sound --------------------------------------------------------------------------------------------------------
world("s01-busy", numbered("aster", 4), 4, 30, 8, probe("GB/s", 700.0, busy=[
    "aster1:0", "aster1:1", "aster1:2", "aster1:3", "aster3:2", "aster4:0", "aster4:3"]),
    "7 of 16 devices are in use by others and say so, a whole host among them.")
world("s02-noise", numbered("birch", 8), 2, 40, 8, probe("GB/s", 15.0, 0.05),
    "Noise of 5%, everywhere the same.")
world("s03-thermal-drift", numbered("cedar", 6), 2, 40, 8, probe(
    "TFLOP/s", 120.0, 0.01, coupled=False, exercised=None, drift={"loss": 0.12, "seconds": 10.0}),
    "All devices get warm: 12% slower with time (in some 20 s from the first start on), all alike, noise 1%.")
world("s04-slow-start", numbered("dill", 4), 4, 40, 10, probe(
    "GFLOP/s", 77.0, coupled=False, exercised=None, first_start={"hosts": ["dill2", "dill3"], "seconds": 3.0}),
    "The first start of every device of two hosts takes 3 s longer (a cold cache); values as ever, limit 10 s.")
world("s05-fails-everywhere", numbered("elm", 4), 2, 30, 8, probe("GB/s", 1.0, effects=[
    effect("all", "exit", code=2, spread="same", words="ModuleNotFoundError: No module named 'torch'\n")]),
    "The probe fails in every start on every device: a module is missing.")
world("s06-rubbish-at-times", numbered("fir", 4), 2, 40, 8, probe(
    "GB/s", 52.0, coupled=False, exercised=None, effects=[
        effect("all", "rubbish", one_in=8, spaced=True, spread="none")]),
    "Every device's member prints rubbish instead of an answer in one of eight tries; none more often than another, "
    "never two in a row.")
world("s07-first-try-cold", numbered("gorse", 5), 2, 35, 8, probe("GB/s", 95.0, 0.015, cold=0.6),
    "The first try on a device (or of a set with a device never started) gives 60%.")
world("s08-another-class", numbered("hazel", 4), 2, 35, 8, probe(
    "TFLOP/s", 100.0, 0.01, coupled=False, exercised=None, speed={"hazel3": 0.75}, classes={
        "hazel1": "speed class H (nominal 100 TFLOP/s)", "hazel2": "speed class H (nominal 100 TFLOP/s)",
        "hazel3": "speed class L (nominal 75 TFLOP/s)", "hazel4": "speed class H (nominal 100 TFLOP/s)"}),
    "One host is of another speed class and says so in `detail` of every answer, with its nominal value, which it "
    "reaches; its devices are even.")
world("s09-busy-at-times", numbered("iris", 3), 4, 40, 8, probe("GB/s", 610.0, busy_chance=0.33),
    "Every device is busy in one of three tries, at random, and says so.")
world("s10-by-nature", numbered("jute", 4), 6, 50, 8, probe("GB/s", 230.0, 0.015, nature={
    "alone": 1.0, "inside": 0.8, "across": 0.28, "per_doubling": 0.04}),
    "By nature: inside a host 80%, over hosts 28% of a device alone, and 4% less for each doubling of the set.")
world("s11-second-probe-hangs", numbered("kelp", 4), 1, 60, 5, {
    "main": probe("GFLOP/s", 19.0, coupled=False, exercised=None),
    "net": probe("GB/s", 3.1, effects=[effect("all", "hang", from_size=2, spread="same")])},
    "Two probes: `main` is well; `net` is well alone and hangs in every set of two or more, whoever is in it: its port "
    "is shut everywhere. No part is worse than another.")
world("s12-outliers", ["larch"], 6, 40, 8, probe("GB/s", 175.0, 0.012, effects=[
    effect("all", "slow", factor=0.72, one_in=20, spaced=True)]),
    "Every device gives 72% in one of twenty tries (a set with it too); none more often than another, never two in a row.")


def named(n):
    if n["kind"] == "link":
        items = n["items"]
        if len(items) > 6:
            return "link: all %d out" % len(items)
        return "link " + ", ".join("%s - %s" % tuple(i) for i in items)
    return n["kind"] + " " + ", ".join(n["items"])


def table():
    lines = ["| world | hosts x devices | arguments | what it is | must be named | also accepted (why) | a way to find it |",
             "|---|---|---|---|---|---|---|"]
    for w in WORLDS:
        must = "; ".join("%s: %s" % (f["fault"], named(f["namings"][0])) for f in w["truth"]) or "nothing"
        also = "; ".join("%s (%s)" % (named(n), n["why"]) for f in w["truth"] for n in f["namings"][1:])
        lines.append("| `%s` | %d x %d | `%s` | %s | %s | %s | %s |" % (
            w["name"], len(w["hosts"]), w["devices"], " ".join(w["arguments"]), w["what"], must, also, w["way"]))
    return "\n".join(lines)


def main():
    folder = os.path.join(HERE, "worlds")
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        os.remove(os.path.join(folder, old))
    for w in WORLDS:
        with open(os.path.join(folder, w["name"] + ".json"), "w", encoding="utf-8") as f:
            json.dump(w, f, indent=1)
            f.write("\n")
    path = os.path.join(HERE, "README.md")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        head, rest = text.split("<!-- table -->")
        tail = rest.split("<!-- end of table -->")[1]
        with open(path, "w", encoding="utf-8") as f:
            f.write(head + "<!-- table -->\n" + table() + "\n<!-- end of table -->" + tail)


if __name__ == "__main__":
    main()
