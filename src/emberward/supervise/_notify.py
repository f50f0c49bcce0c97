"""Telling others: each finding as JSON to a command or a webhook, beside the supervision and never in its way."""

import json
import queue
import shlex
import threading
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

from emberward.processes import ProcessTree

LIMIT_S = 10.0
MAX_WAITING = 64
MAX_SAID_CHARACTERS = 200


class Notifier:
    """Hands messages to `target`: a URL gets a POST, anything else is a command that reads the JSON on its stdin.

    A thread does it, one message after the other, each within `limit_s`; at most MAX_WAITING wait, later ones are
    dropped. What failed is kept in `failures`. Without a target nothing is done.
    """

    def __init__(self, target: str | None, *, tree: ProcessTree, limit_s: float = LIMIT_S) -> None:
        self._target = target
        self._tree = tree
        self._limit_s = limit_s
        self._waiting: queue.Queue[Mapping[str, Any] | None] = queue.Queue(MAX_WAITING)
        self.failures: list[str] = []
        self.num_sent = 0
        self._thread: threading.Thread | None = None

    def send(self, message: Mapping[str, Any]) -> None:
        """Takes the message; does not wait."""
        if self._target is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="notify", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            self.failures.append(f"more than {MAX_WAITING} messages waited; one was dropped")

    def close(self) -> None:
        """Waits until what was taken has been handed over, at most twice the limit of one message."""
        if self._thread is None:
            return
        end_s = time.monotonic() + 2 * self._limit_s
        try:
            self._waiting.put(None, timeout=self._limit_s)
        except queue.Full:
            return
        self._thread.join(max(end_s - time.monotonic(), 0.0))

    def _work(self) -> None:
        while (message := self._waiting.get()) is not None:
            try:
                failure = self._hand_over(json.dumps(message).encode())
            except Exception as error:  # noqa: BLE001 (whatever another's server or program does must end here)
                failure = f"{type(error).__name__}: {error}"
            if failure is None:
                self.num_sent += 1
            elif len(self.failures) < MAX_WAITING:
                self.failures.append(f"{self._target}: {failure}"[:MAX_SAID_CHARACTERS])

    def _hand_over(self, data: bytes) -> str | None:
        """What went wrong, or None."""
        assert self._target is not None, "without a target nothing is taken"
        if self._target.startswith(("http://", "https://")):
            request = urllib.request.Request(self._target, data=data, headers={"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=self._limit_s) as answer:
                return None if answer.status < 300 else f"status {answer.status}"
        return self._run(shlex.split(self._target), data)

    def _run(self, command: list[str], data: bytes) -> str | None:
        # The supervisor takes its signals by hand and blocks them; a child must not inherit that.
        done = self._tree.run(command, environment=None, timeout_s=self._limit_s, given=data, mask=())
        if done.code is None:
            return f"no end within {self._limit_s:.0f} s"
        return None if done.code == 0 else f"exit code {done.code}"
