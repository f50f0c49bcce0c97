import json
import logging
import socket
import threading
import time


def start_collector(delay):
    """A local stand-in for the log service: one answer a record."""
    srv = socket.create_server(("127.0.0.1", 0))

    def serve():
        conn, _ = srv.accept()
        stream = conn.makefile("rb")
        for _ in stream:
            time.sleep(delay)
            conn.sendall(b"ok\n")

    threading.Thread(target=serve, daemon=True, name="collector").start()
    return srv.getsockname()


class CollectorHandler(logging.Handler):
    def __init__(self, address):
        super().__init__()
        self.sock = socket.create_connection(address)

    def emit(self, record):
        line = json.dumps({"t": record.created, "level": record.levelname, "msg": record.getMessage()})
        self.sock.sendall(line.encode() + b"\n")
        self.sock.recv(3)
