"""Emberward: train large models, and prove, watch and explain every step.

The rooms of the package and what each may import are drawn in ``docs/architecture.md``. Types: ``__init__.pyi``.
"""

from importlib import import_module

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """What a user's own program calls; its room is loaded when it is asked for, never with the package (PEP 562)."""
    if name == "boxing":
        return import_module("emberward.engine.boxing")
    if name == "Run":
        return import_module("emberward.cli").Run
    if name not in ("Watching", "watch"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("emberward.rank"), name)


__all__ = ["Run", "Watching", "__version__", "boxing", "watch"]
