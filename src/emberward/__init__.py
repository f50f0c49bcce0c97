"""Emberward: train large models, and prove, watch and explain every step.

The rooms of the package and what each may import are drawn in ``docs/architecture.md``.
"""

__version__ = "0.1.0"
