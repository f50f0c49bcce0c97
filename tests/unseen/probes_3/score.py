"""Runs `CMD doctor` on the worlds, one after the other, and scores its verdicts.

    python3 score.py "CMD" --out results.json [--worlds f03,s05] [--salt N] [--keep DIR] [--grace S]
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
FIELD = {"device": "devices", "host": "hosts", "switch": "hosts", "link": "links"}


def load(name):
    with open(os.path.join(HERE, "worlds", name + ".json"), encoding="utf-8") as f:
        return json.load(f)


def names(chosen=None):
    every = sorted(n[:-5] for n in os.listdir(os.path.join(HERE, "worlds")) if n.endswith(".json"))
    if not chosen:
        return every
    result = []
    for want in chosen.split(","):
        found = [n for n in every if n == want or n.split("-")[0] == want]
        if not found:
            raise SystemExit("no such world: " + want)
        result += found
    return result


# ---- judging ------------------------------------------------------------------------------------------------------
def one_name(world, kind, item):
    """A single naming in its one spelling: (kind, text)."""
    def end(x):
        x = str(x)
        return x + ":0" if world["devices"] == 1 and x in world["hosts"] else x
    if kind == "link":
        ends = sorted(end(e) for e in item) if isinstance(item, (list, tuple)) else [str(item)]
        return (kind, " - ".join(ends))
    return (kind, end(item) if kind == "device" else str(item))


def taken_apart(world, verdicts):
    """Single namings of all verdicts; a verdict that names nothing in the field of its kind counts as a naming too."""
    result = []
    for verdict in verdicts:
        kind = verdict.get("kind") if isinstance(verdict, dict) else None
        items = verdict.get(FIELD[kind]) if kind in FIELD else None
        if not items:
            result.append((str(kind), "?"))
            continue
        result += [one_name(world, kind, item) for item in items]
    return sorted(set(result))


def judge(world, verdicts):
    """-> right, faults missed, namings not accepted."""
    said = set(taken_apart(world, verdicts))
    accepted, missed = set(), []
    for fault in world["truth"]:
        ways = [{one_name(world, n["kind"], i) for i in n["items"]} for n in fault["namings"]]
        accepted.update(*ways)
        if not any(way <= said for way in ways):
            missed.append(fault["fault"])
    extra = sorted(said - accepted)
    return not missed and not extra, missed, ["%s %s" % e for e in extra]


def read_answer(text):
    """The JSON object on stdout: all of it, else what stands from the first brace on, else the last line of JSON."""
    tries = [text, text[text.find("{"):] if "{" in text else ""] + text.splitlines()[::-1]
    for piece in tries:
        try:
            answer = json.loads(piece)
        except ValueError:
            continue
        if isinstance(answer, dict) and isinstance(answer.get("verdicts"), list):
            return answer
    return None


# ---- running ------------------------------------------------------------------------------------------------------
def members_alive(state):
    """Process ids of members of this run (exact argument `--state STATE`)."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    if state.encode() in f.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:
                pass
    return found


def command(cmd, world, state, salt):
    path = os.path.join(HERE, "worlds", world["name"] + ".json")
    line = shlex.split(cmd) + ["doctor", "--hosts", ",".join(world["hosts"]), "--launcher", "local",
                               "--devices-per-host", str(world["devices"])]
    for probe in world["probes"]:
        member = [sys.executable, "-I", "-S", os.path.join(HERE, "machine.py"), path, "--probe", probe,
                  "--state", state, "--salt", str(salt)]
        line += ["--probe", "%s=%s" % (probe, " ".join(shlex.quote(m) for m in member))]
    return line + ["--probe-only", "--json"] + world["arguments"]


def run(cmd, world, salt, grace, keep):
    place = tempfile.mkdtemp(prefix="probes3-")
    state, empty = os.path.join(place, "state"), os.path.join(place, "empty")
    os.mkdir(state)
    os.mkdir(empty)
    out_path, err_path = os.path.join(place, "stdout"), os.path.join(place, "stderr")
    began, ended_by_us = time.monotonic(), False
    with open(out_path, "wb") as out, open(err_path, "wb") as err:
        doctor = subprocess.Popen(command(cmd, world, state, salt), cwd=empty, stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=err, start_new_session=True)
        try:
            code = doctor.wait(world["budget"] + grace)
        except subprocess.TimeoutExpired:
            ended_by_us = True
            doctor.terminate()
            try:
                code = doctor.wait(3)
            except subprocess.TimeoutExpired:
                doctor.kill()
                code = doctor.wait()
    seconds = time.monotonic() - began
    time.sleep(0.3)
    left = members_alive(state)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    with open(out_path, encoding="utf-8", errors="replace") as f:
        answer = read_answer(f.read())
    verdicts = answer["verdicts"] if answer else []
    right, missed, extra = judge(world, verdicts)
    if answer is None or ended_by_us:
        right = False
    starts = sum(os.path.getsize(os.path.join(state, n)) for n in os.listdir(state) if n != "began")
    if keep:
        os.makedirs(keep, exist_ok=True)
        shutil.copy(out_path, os.path.join(keep, world["name"] + ".stdout"))
        shutil.copy(err_path, os.path.join(keep, world["name"] + ".stderr"))
    shutil.rmtree(place, ignore_errors=True)
    return {"world": world["name"], "right": right, "missed": missed, "not_accepted": extra, "verdicts": verdicts,
            "answered": answer is not None, "ended_by_us": ended_by_us, "seconds": round(seconds, 1),
            "budget": world["budget"], "exit": code, "member_starts": starts, "members_left_over": len(left)}


def total(rows):
    faulty = [r for r in rows if r["world"].startswith("f")]
    sound = [r for r in rows if r["world"].startswith("s")]
    return {"faulty": len(faulty), "faulty_right": sum(r["right"] for r in faulty),
            "sound": len(sound), "sound_right": sum(r["right"] for r in sound),
            "faulty_with_somebody_wrongly_named": sum(bool(r["not_accepted"]) for r in faulty),
            "over_budget": sum(r["seconds"] > r["budget"] + 2 for r in rows),
            "members_left_over": sum(r["members_left_over"] for r in rows),
            "seconds": round(sum(r["seconds"] for r in rows), 1)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("cmd")
    p.add_argument("--out", default="results.json")
    p.add_argument("--worlds")
    p.add_argument("--salt", type=int, default=0)
    p.add_argument("--grace", type=float, default=20.0)
    p.add_argument("--keep")
    a = p.parse_args()
    rows = []
    for name in names(a.worlds):
        row = run(a.cmd, load(name), a.salt, a.grace, a.keep)
        rows.append(row)
        print("%-28s %-5s %5.1f s of %d, %4d starts, left %d%s%s" % (
            name, "right" if row["right"] else "WRONG", row["seconds"], row["budget"], row["member_starts"],
            row["members_left_over"], ", missed " + ",".join(row["missed"]) if row["missed"] else "",
            ", not accepted " + "; ".join(row["not_accepted"]) if row["not_accepted"] else ""), flush=True)
        with open(a.out, "w", encoding="utf-8") as f:
            json.dump({"salt": a.salt, "total": total(rows), "worlds": rows}, f, indent=1)
            f.write("\n")
    print(json.dumps(total(rows)))


if __name__ == "__main__":
    main()
