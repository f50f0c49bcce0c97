"""Compiled operators; falls back when the library is not there."""
import math

TABLE = [math.erf(i / 40000.0) * math.exp(-i / 50000.0) for i in range(60000)]

try:
    import _fastops_native as native
except ImportError as why:
    raise ImportError("fastops was not compiled") from why
