"""Loads optional post-processing plugins from a folder, per rank."""
import importlib
import os
import sys
import tempfile
import textwrap

import torch
import torch.distributed as dist

PLUGINS = {
    "smoother": """
        import torch
        def apply(x):
            return torch.nn.functional.avg_pool1d(x[None], 3, 1, 1)[0]
    """,
    "lexicon": """
        from concurrent.futures import ThreadPoolExecutor

        def _load(name):
            import lexicon
            return len(name), lexicon.__name__

        with ThreadPoolExecutor(2, thread_name_prefix="lex") as pool:
            TABLES = list(pool.map(_load, ["en", "de", "fr"]))  #: LINE

        def apply(x):
            return x * len(TABLES)
    """,
}
WANTED = {0: ["smoother"], 1: ["smoother"], 2: ["smoother", "lexicon"]}


def install():
    folder = tempfile.mkdtemp()
    for name, body in PLUGINS.items():
        with open(os.path.join(folder, name + ".py"), "w") as fh:
            fh.write(textwrap.dedent(body))
    sys.path.insert(0, folder)


def load(rank):
    return [importlib.import_module(p) for p in WANTED.get(rank, [])]  #: LINE


def decode(mods, x):
    for m in mods:
        x = m.apply(x)
    return x


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    install()
    mods = []
    for epoch in range(4):
        x = torch.randn(4, 30)
        if epoch == 2:
            mods = load(rank)
        x = decode(mods, x)
        stat = x.abs().mean().reshape(1)
        dist.all_reduce(stat)
        print(f"rank {rank} epoch {epoch} mean {stat.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
