"""The built-in probes: each runs as ``python -m emberward.doctor.probe NAME KIND`` behind the probe contract."""

__all__: list[str] = []
