"""Random changes of the files below the current folder: ``file_changes.py SEED [LAYER]``; prints what it saw.

With LAYER, a folder, all of it goes through a file layer that lies there. The same seed does the same either way.
"""

import glob
import json
import os
import random
import shutil
import sys
from pathlib import Path

NAMES = ("a", "b", "c", "d")
NUM_CHANGES = 150


def any_path(draw):
    return "/".join(draw.choice(NAMES) for _ in range(draw.randint(1, 3)))


def apart(operation, one, two):
    """A folder copied into itself would be copied without end."""
    if not os.path.realpath(two).startswith(os.path.realpath(one)):
        operation(one, two)


def change(draw):
    """One operation, and what it gave or raised."""
    one, two, text = any_path(draw), any_path(draw), str(draw.random())
    operations = {
        "write": lambda: Path(one).write_text(text),
        "append": lambda: open(one, "a").write(text),
        "create": lambda: open(one, "x").close(),
        "low": lambda: os.close(os.open(one, os.O_CREAT | os.O_RDWR | draw.choice((0, os.O_EXCL, os.O_TRUNC)))),
        "update": lambda: os.close(os.open(one, os.O_RDWR)),
        "mkdir": lambda: os.mkdir(one),
        "makedirs": lambda: os.makedirs(one, exist_ok=True),
        "remove": lambda: os.remove(one),
        "rmdir": lambda: os.rmdir(one),
        "rmtree": lambda: os.path.islink(one) or shutil.rmtree(one),
        "rename": lambda: os.rename(one, two),
        "replace": lambda: os.replace(one, two),
        "move": lambda: apart(shutil.move, one, two),
        "copytree": lambda: apart(shutil.copytree, one, two),
        "copy": lambda: str(shutil.copy2(one, two)) and None,
        "link": lambda: os.link(one, two),
        "symlink": lambda: os.symlink(draw.choice(NAMES), one),
        "chmod": lambda: os.chmod(one, 0o640),
        "truncate": lambda: os.truncate(one, 3),
        "read": lambda: Path(one).read_text(),
        "list": lambda: sorted(os.listdir(one)),
        "exists": lambda: (os.path.exists(one), Path(one).is_dir(), os.path.islink(one), os.access(one, os.R_OK)),
        "glob": lambda: sorted(glob.glob("*/*")),
    }
    name = draw.choice(sorted(operations))
    try:
        return name, one, two, operations[name]()
    except shutil.Error as error:
        return name, one, two, str(error)
    except OSError as error:
        named = None if error.filename is None else os.path.relpath(error.filename)
        return name, one, two, type(error).__name__, error.errno, named


def tree():
    """All that is below the current folder."""
    found = []
    for folder, folders, files in os.walk("."):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            kind = os.readlink(path) if os.path.islink(path) else None
            held = Path(path).read_text() if os.path.isfile(path) else None
            found.append((path, kind, held, oct(os.lstat(path).st_mode)))
    return sorted(found, key=str)


def main():
    seed = int(sys.argv[1])
    if len(sys.argv) > 2:
        from emberward.sources.script._file_layer import FileLayer
        from emberward.sources.script._redirected import Redirected

        Redirected(FileLayer(Path(sys.argv[2]), kept=Path(sys.argv[2]))).install()
    draw = random.Random(seed)
    seen = [change(draw) for _ in range(NUM_CHANGES)]
    os.makedirs("e/f")
    os.chdir(max(entry.path for entry in os.scandir("e") if entry.is_dir()))
    sys.stdout.write(json.dumps([seen, tree(), os.path.relpath(os.getcwd(), os.environ["HOME"])]))


if __name__ == "__main__":
    main()
