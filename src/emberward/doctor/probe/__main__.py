"""Runs one probe and prints its one JSON object. An error is an answer too: not ok, with its words."""

import json
import os
import sys


def main() -> int:
    """Exit code 0 whenever an answer was printed."""
    name, kind = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu"
    answer: dict[str, object]
    if name == "count":
        from emberward.doctor.probe._device import count

        answer = count()
    elif name == "facts":
        from emberward.doctor.probe import _facts

        answer = _facts.answer(sys.argv[2:], dict(os.environ))
    elif name in ("nccl-tests", "dcgm"):
        from emberward.doctor.probe import _site

        answer = (_site.dcgm if name == "dcgm" else _site.nccl_tests)(os.environ)
    elif name == "host":
        from emberward.doctor.probe._host import examine_host

        answer = examine_host()
    else:
        from emberward.doctor._load import Load
        from emberward.doctor.probe import _work
        from emberward.doctor.probe._device import Member

        place = Member.here(kind, dict(os.environ))
        try:
            if name == "soak" and len(sys.argv) > 3:
                answer = _work.soak(place, Load.read(sys.argv[3]))
            else:
                answer = _work.PROBES[name](place)
        except RuntimeError as error:
            # What torch raises for a device or a transport that fails: the answer is no, and these are its words.
            answer = {"ok": False, "detail": f"{type(error).__name__}: {str(error).splitlines()[0][:180]}"}
    os.write(1, (json.dumps(answer) + "\n").encode())
    return 0


if __name__ == "__main__":
    # Threads of a transport that hang must not keep an answer back.
    code = main()
    os._exit(code)
