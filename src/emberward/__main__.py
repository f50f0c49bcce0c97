"""``python -m emberward`` is the console program."""

from emberward.cli import main

main()
