#!/usr/bin/env python3
"""Runs `emberward doctor` on the worlds, one after the other, and scores its verdicts.

    score.py EMBERWARD [--out results.json] [--worlds NAMES] [--salt N] [--keep DIR] [--grace S]

EMBERWARD is a command (words are split as a shell does). NAMES: by commas, the beginning of a name is enough.
"""
import argparse
import glob
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
FIELD = {"device": "devices", "link": "links", "host": "hosts", "switch": "hosts"}


# ---------------------------------------------------------------- judging


def namings(verdicts, world):
    """Verdicts taken apart: a set of (kind, name); a link's name is its two ends in order."""
    def with_device(end):
        end = str(end)
        if ":" not in end and world["per_host"] == 1:
            return end + ":0"
        return end
    out = set()
    for v in verdicts:
        kind = v.get("kind") if isinstance(v, dict) else None
        things = v.get(FIELD[kind]) if kind in FIELD else None
        if not things:
            out.add((str(kind), json.dumps(v, sort_keys=True)))
            continue
        for thing in things:
            if kind == "link":
                ends = thing if isinstance(thing, (list, tuple)) else str(thing).split("-")
                out.add((kind, " - ".join(sorted(with_device(e) for e in ends))))
            elif kind == "device":
                out.add((kind, with_device(thing)))
            else:
                out.add((kind, str(thing)))
    return out


def judge(world, verdicts):
    """Right: every fault is named in one accepted way, whole, and nothing is named that no accepted way holds."""
    if verdicts is None:
        return {"right": False, "missed": [t["fault"] for t in world["truth"]], "not_accepted": [], "unreadable": True}
    said = namings(verdicts, world)
    ways = [(t["fault"], [namings([{"kind": a["kind"], FIELD[a["kind"]]: a["names"]}], world) for a in t["accept"]])
            for t in world["truth"]]
    missed = [fault for fault, accepted in ways if not any(way <= said for way in accepted)]
    allowed = set().union(*(way for _, accepted in ways for way in accepted)) if ways else set()
    wrong = sorted(f"{kind} {name}" for kind, name in said - allowed)
    return {"right": not missed and not wrong, "missed": missed, "not_accepted": wrong, "unreadable": False}


def verdicts_of(text):
    """The verdicts in the JSON document on stdout; None where there is none."""
    for candidate in (text, *reversed(text.splitlines())):
        try:
            document = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(document, dict) and isinstance(document.get("verdicts"), list):
            return document["verdicts"]
    return None


# ---------------------------------------------------------------- running


def left_over(state):
    """Members of this run that are still alive: their command line names this run's own state folder."""
    found, mark = [], os.fsencode(state)
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as f:
                    words = f.read().split(b"\0")
            except OSError:
                continue
            if mark in words and any(w.endswith(b"machine.py") for w in words):
                found.append(int(entry))
    return found


def run(emberward, world, path, salt, grace, keep):
    work, state = tempfile.mkdtemp(prefix="probes_5_run."), tempfile.mkdtemp(prefix="probes_5_state.")
    command = [*emberward, "doctor", "--hosts", ",".join(world["hosts"]), "--launcher", "local", "--devices-per-host", str(world["per_host"])]
    for probe in world["probes"]:
        start = [sys.executable, "-I", "-S", os.path.join(HERE, "machine.py"), path, "--probe", probe, "--state", state, "--salt", str(salt)]
        command += ["--probe", f"{probe}={shlex.join(start)}"]
    command += ["--probe-only", "--json", *world["arguments"]]
    out, err = os.path.join(work, "doctor.stdout"), os.path.join(work, "doctor.stderr")
    inside = os.path.join(work, "empty")
    os.mkdir(inside)
    began, cut = time.monotonic(), False
    with open(out, "wb") as o, open(err, "wb") as e:
        child = subprocess.Popen(command, cwd=inside, stdin=subprocess.DEVNULL, stdout=o, stderr=e, start_new_session=True)
        try:
            child.wait(world["budget"] + grace)
        except subprocess.TimeoutExpired:
            cut = True
            for number, wait in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
                try:
                    os.killpg(child.pid, number)
                    child.wait(wait)
                    break
                except subprocess.TimeoutExpired:
                    continue
                except ProcessLookupError:
                    break
    seconds = time.monotonic() - began
    time.sleep(0.3)
    stray = left_over(state)
    for pid in stray:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    starts = sum(os.stat(os.path.join(state, f)).st_size for f in os.listdir(state) if f != "born")
    with open(out, encoding="utf-8", errors="replace") as f:
        verdicts = verdicts_of(f.read())
    if keep:
        os.makedirs(keep, exist_ok=True)
        shutil.copy(out, os.path.join(keep, world["name"] + ".stdout"))
        shutil.copy(err, os.path.join(keep, world["name"] + ".stderr"))
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(state, ignore_errors=True)
    return {"name": world["name"], "kind": world["kind"], **judge(world, verdicts), "verdicts": verdicts, "seconds": round(seconds, 2),
            "exit_code": child.returncode, "ended_by_us": cut, "member_starts": starts, "left_over": len(stray)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("emberward")
    parser.add_argument("--out", default="results.json")
    parser.add_argument("--worlds", default="")
    parser.add_argument("--salt", type=int, default=0)
    parser.add_argument("--keep")
    parser.add_argument("--grace", type=float, default=20.0)
    given = parser.parse_args()
    emberward = shlex.split(given.emberward)
    if os.path.exists(emberward[0]):
        emberward[0] = os.path.abspath(emberward[0])
    wanted = [w.strip().removesuffix(".json") for w in given.worlds.split(",") if w.strip()]
    chosen = []
    for path in sorted(glob.glob(os.path.join(HERE, "worlds", "*.json"))):
        name = os.path.basename(path)[:-5]
        if not wanted or any(name == w or name.startswith(w) for w in wanted):
            with open(path, encoding="utf-8") as f:
                chosen.append((path, json.load(f)))
    if not chosen:
        parser.error(f"no world is named {given.worlds}")
    rows = []
    for path, world in chosen:
        row = run(emberward, world, path, given.salt, given.grace, given.keep)
        rows.append(row)
        what = "right" if row["right"] else "WRONG" + "".join(
            f", {label}: {row[key]}" for label, key in (("missed", "missed"), ("not accepted", "not_accepted")) if row[key])
        print(f"{row['name']:28} {what}; {row['seconds']} s, {row['member_starts']} starts"
              + (f", {row['left_over']} left over" if row["left_over"] else "") + (", no readable answer" if row["unreadable"] else ""), flush=True)
        total = {
            "faulty": sum(r["kind"] == "fault" for r in rows), "faulty_right": sum(r["kind"] == "fault" and r["right"] for r in rows),
            "sound": sum(r["kind"] == "sound" for r in rows), "sound_right": sum(r["kind"] == "sound" and r["right"] for r in rows),
            "faulty_wrongly_named": sum(r["kind"] == "fault" and bool(r["not_accepted"]) for r in rows)}
        with open(given.out + ".part", "w", encoding="utf-8") as f:
            json.dump({"salt": given.salt, "total": total, "worlds": rows}, f, indent=1)
        os.replace(given.out + ".part", given.out)
    print(f"with a fault: {total['faulty_right']} of {total['faulty']} right, in {total['faulty_wrongly_named']} somebody wrongly named; "
          f"sound: {total['sound_right']} of {total['sound']} right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
