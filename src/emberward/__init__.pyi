"""The types of what ``__init__.py`` gives when it is asked for it."""

from emberward import lanes as lanes
from emberward.cli import Run as Run
from emberward.engine import boxing as boxing
from emberward.rank import Watching as Watching
from emberward.rank import watch as watch

__version__: str
