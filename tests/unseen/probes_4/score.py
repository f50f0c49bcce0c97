#!/usr/bin/env python3
"""Runs `emberward doctor` on the simulated machines, one after the other, and scores its verdicts.

    python3 score.py /path/to/emberward --out results.json
    python3 score.py "python -m emberward" --worlds f03,s05 --salt 7 --keep logs
"""
import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FIELD = {"device": "devices", "link": "links", "host": "hosts", "switch": "hosts"}


def load(name):
    with open(os.path.join(HERE, name)) as f:
        return json.load(f)


def end(text):
    text = str(text)
    return text if ":" in text else text + ":0"


def naming(kind, part):
    """One comparable thing: (kind, part)."""
    if kind == "link":
        return "link", tuple(sorted(end(x) for x in part))
    if kind == "device":
        return "device", end(part)
    return kind, str(part)


def namings(verdicts):
    out = set()
    for v in verdicts:
        kind = v.get("kind") if isinstance(v, dict) else None
        parts = (v.get(FIELD.get(kind, "")) or []) if kind in FIELD else []
        if not parts:
            out.add(("unclear", json.dumps(v, sort_keys=True)))
        for p in parts:
            try:
                out.add(naming(kind, p))
            except TypeError:
                out.add(("unclear", json.dumps(p)))
    return out


def judge(truth, verdicts):
    named = namings(verdicts)
    allowed, missed, found = set(), [], []
    for bad in truth["bad"]:
        ways = [{naming(a["kind"], p) for p in a["parts"]} for a in bad["accepted"]]
        for w in ways:
            allowed |= w
        if any(w <= named for w in ways):
            found.append(bad["fault"])
        elif not (bad["nobody_accepted"] and not any(w & named for w in ways)):
            missed.append(bad["fault"])
    wrong = sorted(map(list, named - allowed), key=str)
    return {"right": not missed and not wrong, "found": found, "missed": missed, "wrongly_named": wrong}


def parse(text):
    for piece in [text] + text.strip().splitlines()[::-1]:
        try:
            out = json.loads(piece)
        except ValueError:
            continue
        if isinstance(out, dict) and isinstance(out.get("verdicts"), list):
            return out
    return None


def members(state):
    """Processes whose command line names our state folder."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if state.encode() in words and int(pid) != os.getpid():
            out.append(int(pid))
    return out


def command(world, state, salt, python):
    line = ["doctor", "--hosts", ",".join(world["hosts"]), "--launcher", "local", "--devices-per-host", str(world["devices"])]
    for p in world["probes"]:
        line += ["--probe", "%s=%s" % (p, " ".join(shlex.quote(x) for x in [
            python, "-I", "-S", os.path.join(HERE, "machine.py"), os.path.join(HERE, "worlds", world["name"] + ".json"),
            "--probe", p, "--state", state, "--salt", str(salt)]))]
    return line + ["--probe-only", "--json"] + world["args"]


def run(tool, world, a):
    with tempfile.TemporaryDirectory(prefix="probes.") as tmp:
        state, cwd = os.path.join(tmp, "state"), os.path.join(tmp, "empty")
        os.mkdir(state)
        os.mkdir(cwd)
        began = time.monotonic()
        with open(os.path.join(tmp, "out"), "w+b") as so, open(os.path.join(tmp, "err"), "w+b") as se:
            p = subprocess.Popen(tool + command(world, state, a.salt, a.python), cwd=cwd, stdout=so, stderr=se,
                                 stdin=subprocess.DEVNULL, start_new_session=True)
            over = False
            try:
                p.wait(world["budget"] + a.grace)
            except subprocess.TimeoutExpired:
                over = True
                for s in (signal.SIGTERM, signal.SIGKILL):
                    try:
                        os.killpg(p.pid, s)
                    except OSError:
                        pass
                    try:
                        p.wait(3)
                        break
                    except subprocess.TimeoutExpired:
                        pass
            seconds = time.monotonic() - began
            time.sleep(0.3)
            left = members(state)
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            so.seek(0)
            se.seek(0)
            out, err = so.read().decode("utf-8", "replace"), se.read().decode("utf-8", "replace")
        starts = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(state) for f in fs)
    if a.keep:
        os.makedirs(a.keep, exist_ok=True)
        for ext, text in (("out", out), ("err", err)):
            with open(os.path.join(a.keep, world["name"] + "." + ext), "w") as f:
                f.write(text)
    answer = parse(out)
    r = {"seconds": round(seconds, 1), "exit": p.returncode, "over_time": over, "starts": starts, "left_over": len(left),
         "verdicts": answer["verdicts"] if answer else None}
    if answer is None:
        r.update(right=False, found=[], missed=["no answer"], wrongly_named=[])
    return r


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("tool", help="the command, for example /path/to/emberward or 'python -m emberward'")
    ap.add_argument("--worlds", help="names or their beginnings, by commas")
    ap.add_argument("--salt", default="0")
    ap.add_argument("--grace", type=float, default=20)
    ap.add_argument("--python", default=sys.executable, help="the interpreter of the members")
    ap.add_argument("--out")
    ap.add_argument("--keep", help="folder for stdout and stderr of each run")
    a = ap.parse_args()
    tool = shlex.split(a.tool)
    if os.path.exists(tool[0]):
        tool[0] = os.path.abspath(tool[0])
    if a.keep:
        a.keep = os.path.abspath(a.keep)
    truth = load("truth.json")
    names = [n for n in truth if not a.worlds or any(n.startswith(x) for x in a.worlds.split(","))]
    results = {}
    for n in names:
        r = run(tool, load("worlds/%s.json" % n), a)
        if r["verdicts"] is not None:
            r.update(judge(truth[n], r["verdicts"]))
        results[n] = r
        print("%-26s %-5s %6.1f s %4d starts%s%s%s%s" % (
            n, "right" if r["right"] else "WRONG", r["seconds"], r["starts"],
            " missed " + ",".join(r["missed"]) if r["missed"] else "",
            " wrongly named " + json.dumps(r["wrongly_named"]) if r["wrongly_named"] else "",
            " OVER TIME" if r["over_time"] else "", " left over %d" % r["left_over"] if r["left_over"] else ""), flush=True)
    bad = [n for n in names if not truth[n]["sound"]]
    good = [n for n in names if truth[n]["sound"]]
    total = {"faulty_right": sum(results[n]["right"] for n in bad), "faulty": len(bad),
             "sound_right": sum(results[n]["right"] for n in good), "sound": len(good),
             "faulty_somebody_wrongly_named": sum(bool(results[n]["wrongly_named"]) for n in bad)}
    print(json.dumps(total))
    if a.out:
        with open(a.out, "w") as f:
            json.dump({"total": total, "worlds": results}, f, indent=1)


if __name__ == "__main__":
    main()
