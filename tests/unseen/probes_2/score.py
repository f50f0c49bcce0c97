#!/usr/bin/env python3
"""Runs `emberward doctor` on every world, one after the other, and scores its verdicts.

    score.py EMBERWARD [--worlds f01,s02,...] [--out results.json] [--salt N] [--grace S] [--keep DIR]

EMBERWARD is the executable (a command with arguments in quotes will do).
Right, faulty world: every fault of `truth` is named in one of the accepted
ways, and nothing is named that is not accepted.  Right, sound world: no verdict.
"""
import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


# ---------------------------------------------------------------- verdicts
def end_of(x):
    """An end of a link, `a:0` or `a` or ["a", 0], as text."""
    if isinstance(x, (list, tuple)):
        return ":".join(str(p) for p in x)
    return str(x)


def atoms(v, per_host):
    """A verdict as a list of single namings."""
    kind = v.get("kind")
    if kind == "device":
        return [("device", str(d)) for d in v.get("devices") or []] or [("device", "?")]
    if kind == "host":
        return [("host", str(h)) for h in v.get("hosts") or []] or [("host", "?")]
    if kind == "link":
        return [("link", frozenset(e + ":0" if per_host == 1 and ":" not in e else e for e in map(end_of, l)))
                for l in v.get("links") or []] or [("link", "?")]
    if kind == "switch":
        hosts = v.get("hosts") or [str(d).split(":")[0] for d in v.get("devices") or []]
        return [("switch", frozenset(map(str, hosts)))]
    return [("%s?" % kind, json.dumps(v, sort_keys=True))]


def judge(world, verdicts):
    """(right, faults not named, namings that are not accepted)"""
    per_host = world["devices_per_host"]
    said = set()
    for v in verdicts:
        said.update(atoms(v, per_host))
    allowed, named, faults = set(), set(), set()
    for t in world["truth"]:
        need = set(atoms(t, per_host))
        allowed |= need
        faults.add(t["fault"])
        if need <= said:
            named.add(t["fault"])
    missed = sorted(faults - named)
    wrong = sorted("%s %s" % (k, x if isinstance(x, str) else " - ".join(sorted(x))) for k, x in said - allowed)
    return not missed and not wrong, missed, wrong


# ---------------------------------------------------------------- one run
def find_json(text):
    try:
        return json.loads(text)
    except ValueError:
        pass
    dec, i = json.JSONDecoder(), text.find("{")
    while i >= 0:                        # an object with other lines about it
        try:
            got, _ = dec.raw_decode(text[i:])
            if isinstance(got, dict) and find_verdicts(got) is not None:
                return got
        except ValueError:
            pass
        i = text.find("{", i + 1)
    return None


def find_verdicts(x):
    if isinstance(x, dict):
        if isinstance(x.get("verdicts"), list):
            return x["verdicts"]
        for y in x.values():
            got = find_verdicts(y)
            if got is not None:
                return got
    return None


def members_of(state):
    """Processes of ours (their command line holds this run's own folder)."""
    out = []
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    words = f.read().split(b"\0")
            except OSError:
                continue
            if state.encode() in words and any(w.endswith(b"/machine.py") for w in words):
                out.append(int(pid))
    return out


def run(exe, world, path, opts):
    folder = tempfile.mkdtemp(prefix="author_probes-")
    state, cwd = os.path.join(folder, "state"), os.path.join(folder, "cwd")
    os.mkdir(state)
    os.mkdir(cwd)
    python = os.path.realpath(sys.executable)
    cmd = list(exe) + ["doctor", "--hosts", ",".join(world["hosts"]), "--launcher", "local",
                       "--devices-per-host", str(world["devices_per_host"])]
    for p in world["probes"]:
        member = [python, "-I", "-S", os.path.join(HERE, "machine.py"), path, "--probe", p,
                  "--state", state, "--salt", str(opts.salt)]
        cmd += ["--probe", "%s=%s" % (p, " ".join(shlex.quote(m) for m in member))]
    cmd += ["--probe-only", "--json"] + world["arguments"]
    budget = float(world["arguments"][world["arguments"].index("--budget") + 1])
    limit = budget + opts.grace
    res = {"world": world["name"], "sound": world["sound"], "budget": budget}
    began = time.monotonic()
    with open(os.path.join(folder, "stdout"), "wb") as out, open(os.path.join(folder, "stderr"), "wb") as err:
        p = subprocess.Popen(cmd, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        try:
            p.wait(limit)
            res["timed_out"] = False
        except subprocess.TimeoutExpired:
            res["timed_out"] = True
            for s in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(p.pid, s)
                    p.wait(5)
                    break
                except (subprocess.TimeoutExpired, ProcessLookupError):
                    pass
            p.wait()
        except BaseException:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            raise
    res["seconds"] = round(time.monotonic() - began, 2)
    res["exit"] = p.returncode
    time.sleep(0.3)
    left = members_of(state)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    res["left_over"] = len(left)         # members that the doctor did not end
    res["starts"] = sum(os.path.getsize(os.path.join(state, f)) for f in os.listdir(state) if "_" in f)
    text = open(os.path.join(folder, "stdout"), encoding="utf-8", errors="replace").read()
    errs = open(os.path.join(folder, "stderr"), encoding="utf-8", errors="replace").read()
    got = find_json(text)
    verdicts = find_verdicts(got)
    res["verdicts"] = verdicts
    if verdicts is None or not all(isinstance(v, dict) for v in verdicts):
        res.update(right=False, missed=[], wrong=[], problem="no verdicts on stdout", stderr=errs[-1500:], stdout=text[-500:])
    else:
        res["right"], res["missed"], res["wrong"] = judge(world, verdicts)
        if res["timed_out"]:
            res["right"] = False
            res["problem"] = "past budget + %g s" % opts.grace
    if opts.keep:
        os.makedirs(opts.keep, exist_ok=True)
        for f in ("stdout", "stderr"):
            shutil.copy(os.path.join(folder, f), os.path.join(opts.keep, world["name"] + "." + f))
    shutil.rmtree(folder, ignore_errors=True)
    return res


def load(only=""):
    worlds = []
    for f in sorted(os.listdir(os.path.join(HERE, "worlds"))):
        if f.endswith(".json"):
            path = os.path.join(HERE, "worlds", f)
            with open(path, encoding="utf-8") as h:
                w = json.load(h)
            if not only or any(w["name"].startswith(x) for x in only.split(",")):
                worlds.append((path, w))
    return worlds


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("emberward", help="the executable; several words in quotes will do")
    ap.add_argument("--worlds", default="", help="names or beginnings of names, by commas (all)")
    ap.add_argument("--out", default="results.json")
    ap.add_argument("--salt", type=int, default=0, help="other draws of noise and of chance (0)")
    ap.add_argument("--grace", type=float, default=20, help="seconds beyond --budget before a run is ended (20)")
    ap.add_argument("--keep", help="folder for every run's stdout and stderr")
    opts = ap.parse_args()
    if opts.keep:
        opts.keep = os.path.abspath(opts.keep)
    exe = shlex.split(opts.emberward)
    if "/" in exe[0]:
        exe[0] = os.path.abspath(exe[0])
    results = []
    for path, w in load(opts.worlds):
        r = run(exe, w, path, opts)
        results.append(r)
        note = "" if r["right"] else "  missed %s, wrongly named %s %s" % (r["missed"], r["wrong"][:4], r.get("problem", ""))
        print("%-26s %-5s %6.1f s  exit %-4s starts %-5d%s%s" % (
            r["world"], "right" if r["right"] else "WRONG", r["seconds"], r["exit"], r["starts"],
            "  left over %d" % r["left_over"] if r["left_over"] else "", note), flush=True)
        faulty = [x for x in results if not x["sound"]]
        sound = [x for x in results if x["sound"]]
        total = {"faulty": len(faulty), "faulty_right": sum(x["right"] for x in faulty),
                 "faulty_with_somebody_wrongly_named": sum(bool(x["wrong"]) for x in faulty),
                 "sound": len(sound), "sound_right": sum(x["right"] for x in sound),
                 "seconds": round(sum(x["seconds"] for x in results), 1),
                 "left_over": sum(x["left_over"] for x in results), "salt": opts.salt}
        with open(opts.out + ".part", "w", encoding="utf-8") as f:
            json.dump({"total": total, "worlds": results}, f, indent=1)
            f.write("\n")
        os.replace(opts.out + ".part", opts.out)
    if results:
        print("faulty %(faulty_right)d of %(faulty)d right, sound %(sound_right)d of %(sound)d right, %(seconds)g s" % total)


if __name__ == "__main__":
    main()
