"""Which switches each host stands below, from SLURM's topology.conf. Pure."""

import re

from emberward.findings import ConfigError

_LINE = re.compile(r"(\w+)=(\S+)")
MAX_NODES = 100_000


def read_topology(text: str, *, where: str) -> dict[str, tuple[str, ...]]:
    """The path of switches above each host, leaf first. Raises ConfigError C112 for a switch without a name.

    Reads lines ``SwitchName=s0 Nodes=a,b[1-4]`` and ``SwitchName=top Switches=s0,s1``. Source: topology.conf(5).
    """
    nodes: dict[str, list[str]] = {}
    above: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = dict(_LINE.findall(line.partition("#")[0]))
        if not words:
            continue
        name = words.get("SwitchName")
        if name is None:
            raise ConfigError(
                "a line of the topology names no switch",
                code="C112",
                where=f"{where}:{number}",
                expected="SwitchName=NAME Nodes=... or Switches=...",
                found=line.strip()[:80],
                next="correct the line",
            )
        nodes[name] = expand_hosts(words.get("Nodes", ""))
        for below in expand_hosts(words.get("Switches", "")):
            above[below] = name
    paths = {}
    for leaf, hosts in nodes.items():
        path = [leaf]
        while path[-1] in above and above[path[-1]] not in path:
            path.append(above[path[-1]])
        for host in hosts:
            paths[host] = tuple(path)
    return paths


def expand_hosts(text: str) -> list[str]:
    """The names of a list such as ``a,b[1-3,07]``, at most MAX_NODES."""
    found: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?[^,\[]*", text):
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
        if match is None:
            found.append(part.strip())
            continue
        before, ranges, after = match.groups()
        for each in ranges.split(","):
            first, _, last = each.partition("-")
            if not first.isdigit() or (last and not last.isdigit()):
                continue
            for number in range(int(first), min(int(last or first), int(first) + MAX_NODES) + 1):
                found.append(f"{before}{number:0{len(first)}d}{after}")
    return [name for name in found if name][:MAX_NODES]
