"""Imported by Python at its start when this folder is on PYTHONPATH. See `emberward.sources.attach`.

Standard library only, and as little of it as can be: this runs in every Python process of a job. Written for any
Python 3, since it is the user's; what it loads later needs 3.11 and says so.
"""

# mypy: ignore-errors
# Without types, paths and contextlib: nothing is imported at start-up for this alone.

import os
import sys

WATCHED = (
    "torch.distributed.distributed_c10d",
    "torch.distributed.checkpoint.state_dict_saver",
    "torch.distributed.checkpoint.state_dict_loader",
    "torch._dynamo.callback",
    "torch.distributed.fsdp._fully_shard._fsdp_param_group",
    "torch.distributed.fsdp._flat_param",
)
RECORDER = "emberward.sources.recorder"
LENS = "emberward.sources.lens"
WITH_TORCH = ("torch",) if os.environ.get("EMBERWARD_LENS") or os.environ.get("EMBERWARD_CAPTURE") else ()


class Watch:
    """Sees the modules in WATCHED come, leaving the finding and loading of them to everybody else."""

    def find_spec(self, name, path=None, target=None):
        """The spec that the others find, whose loader tells us when the module is there; None for other modules."""
        if name not in WATCHED and name not in WITH_TORCH:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                tell_when_loaded(spec)
                return spec
        return None


def tell_when_loaded(spec):
    """Makes the spec's loader call `loaded` after it has run the module."""
    try:
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            loaded(spec.name, module)

        spec.loader.exec_module = exec_module
    except Exception as error:
        problem("cannot watch " + spec.name, error)


def loaded(name, module):
    """Does what is to be done when a watched module is there."""
    try:
        if name == WATCHED[0]:
            wrap_init(module)
        elif name in WITH_TORCH:
            if os.environ.get("EMBERWARD_CAPTURE"):
                capture()
            if os.environ.get("EMBERWARD_LENS"):
                load(LENS).start(dict(os.environ))
        elif RECORDER in sys.modules:
            sys.modules[RECORDER].loaded(name, module)
    except Exception as error:
        problem("cannot record", error)


def wrap_init(module):
    """Puts the attaching in front of init_process_group, before ``torch.distributed`` takes the name over."""
    import functools

    original = module.init_process_group
    is_off = []

    @functools.wraps(original)
    def init_process_group(*args, **named):
        around = None if is_off else attach(args, named)
        if around is None:
            is_off.append(True)
            return original(*args, **named)
        return around(original, args, named)

    module.init_process_group = init_process_group


def attach(args, named):
    """What is to call init_process_group; None when the recorder is not wanted or could not be loaded."""
    folder = os.environ.get("EMBERWARD_RING")
    if not folder:
        return None
    try:
        return load(RECORDER).attach(folder, dict(os.environ), args, named)
    except Exception as error:
        problem("no recorder in this process", error)
        return None


def load(name):
    """Our module of that name, wherever emberward lies. Raises what its import raises."""
    import importlib

    if sys.version_info < (3, 11):
        raise RuntimeError("the recorder needs Python 3.11")
    package = os.environ.get("EMBERWARD_PACKAGE", "")
    is_new = package not in sys.path
    if is_new:
        sys.path.append(package)
    try:
        return importlib.import_module(name)
    finally:
        if is_new and package in sys.path:
            sys.path.remove(package)


def capture():
    """Starts the capture of what this process logs. Its file alone is loaded: data workers import torch too."""
    from importlib.util import module_from_spec, spec_from_file_location

    if sys.version_info < (3, 11):
        raise RuntimeError("the recorder needs Python 3.11")
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_capture.py")
    spec = spec_from_file_location("emberward_capture", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.start(os.environ["EMBERWARD_RING"], dict(os.environ))


def problem(what, error):
    """Says what went wrong in the ring folder, or on stderr when there is no room there. Never raises."""
    line = "pid %d: %s: %s: %s\n" % (os.getpid(), what, type(error).__name__, error)
    try:
        path = os.path.join(os.environ["EMBERWARD_RING"], "problems-%d.txt" % os.getpid())
        with open(path, "a") as file:
            file.write(line)
    except Exception:
        try:
            os.write(2, ("emberward: " + line).encode("utf-8", "replace"))
        except OSError:
            pass


def chain():
    """Imports the sitecustomize that Python would have found without this folder, with its own effects and errors."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


if __name__ == "sitecustomize":
    if os.environ.get("EMBERWARD_RING"):
        sys.meta_path.insert(0, Watch())
    chain()
