"""The journal of the lab: every record goes to the keeper, who answers when it is written down."""
import logging
import logging.handlers
import queue
import socket
import threading
import time


def _keeper(conn):
    with conn, conn.makefile("rb") as lines:
        for _ in lines:
            time.sleep(0.011)
            conn.sendall(b"k")


class ToKeeper(logging.Handler):
    def __init__(self):
        super().__init__()
        self.here, there = socket.socketpair()
        threading.Thread(target=_keeper, args=(there,), daemon=True).start()

    def emit(self, record):
        self.here.sendall((self.format(record) + "\n").encode())
        self.here.recv(1)


def journal():
    log = logging.getLogger("lab")
    log.setLevel(logging.INFO)
    log.propagate = False
    lines = queue.SimpleQueue()
    log.addHandler(logging.handlers.QueueHandler(lines))
    logging.handlers.QueueListener(lines, ToKeeper()).start()
    return log
