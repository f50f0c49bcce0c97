"""``emberward ui`` serves the pages of runs; ``emberward report --html`` writes one page as a file."""

import time
from pathlib import Path

from emberward import checkpoint
from emberward.cli._console import Screen, waiting_for
from emberward.cli._named_run import require_run
from emberward.findings import ConfigError, exit_code_of
from emberward.report import RunFolder, read_glance
from emberward.supervise import facts_of
from emberward.web import LOOPBACK, Columns, PageServer, Site, file_page, new_token

MAX_FILE_BYTES = 3_000_000
"""A ticket takes a file of this size."""


def serve_pages(
    runs: Path, only: RunFolder | None, screen: Screen, *, host: str, port: int, names: tuple[str, ...]
) -> int:
    """Serves until Ctrl-C; 0. Raises ConfigError C113 when the address cannot be listened on.

    `runs`: the folder whose runs are listed; `only`: the run to open. `names`: names that requests may use besides.
    """
    token = None if host in LOOPBACK else new_token()
    site = Site(runs=runs, only=only, facts=facts_of, hosts=LOOPBACK | {host.lower(), *names}, token=token,
                program=screen.program)  # fmt: skip
    try:
        server = PageServer(site, host, port)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            "this address cannot be listened on",
            code="C113",
            where=f"{host} port {port}",
            found=str(error),
            next="emberward ui RUN --port 0      (takes a free port)",
        ) from error
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{server.port}/" + ("" if token is None else f"?token={token}")
    screen.say(f"the page is at {address}")
    if token is None:
        screen.say(
            f"from another machine: ssh -L {server.port}:127.0.0.1:{server.port} THIS_MACHINE; end it with Ctrl-C"
        )
    else:
        screen.say("whoever has this link can read the runs; end it with Ctrl-C")
    try:
        screen.document([], address=address, port=server.port)
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        screen.say("")
    finally:
        server.server_close()
    return 0


def write_html(folder: RunFolder, to: Path, screen: Screen) -> int:
    """Writes the run's page as one file; 1 when an error stands, as `report` has it."""
    now_unix = time.time()
    is_alone, said = facts_of(folder, now_unix)
    columns = Columns(folder)
    with waiting_for(screen, "writing the page"):
        columns.poll()
        glance = read_glance(folder, now_unix=now_unix, is_alone=is_alone, said=said, program=screen.program,
                             trained_s=columns.trained_s)  # fmt: skip
        data = file_page(glance, columns).encode()
    if len(data) > MAX_FILE_BYTES:
        screen.complain(
            f"the file is {len(data) / 1e6:.1f} MB: larger than the {MAX_FILE_BYTES / 1e6:.0f} MB it should be"
        )
    to.write_bytes(data)
    screen.say(f"wrote {to}: {len(data) / 1e6:.2f} MB; it opens in a browser, without a server")
    screen.say("host names, paths and log lines are in it; for others' eyes use --bundle, which takes them out")
    card = None if glance.card is None else glance.card.to_json()
    screen.document(glance.findings, written=str(to), bytes=len(data), state=glance.state.value, card=card)
    return exit_code_of(glance.findings)


def ui_place(word: Path | None, runs: Path) -> tuple[Path, RunFolder | None]:
    """The folder whose runs are listed, and the run to open first: that which `word` names, unless it names a folder.

    Raises ConfigError C107 when it names neither.
    """
    if word is None:
        return runs.absolute(), None
    found = require_run(word, runs, verb="ui")
    if word.is_dir() and word.resolve() != found.resolve() and not checkpoint.is_checkpoint(word.resolve()):
        # `runs` has its runs two levels below, `runs/NAME` one.
        return (word if found.parent.parent.resolve() == word.resolve() else found.parent.parent).absolute(), None
    return found.parent.parent, RunFolder(path=found)
