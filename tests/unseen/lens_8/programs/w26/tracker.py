"""A client of the experiment tracker, and a stand-in for its server (20 ms away)."""
import http.client
import json
import multiprocessing
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

ROUND_TRIP_S = 0.020


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(ROUND_TRIP_S)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def serve(pipe):
    server = HTTPServer(("127.0.0.1", 0), Handler)
    pipe.send(server.server_address[1])
    server.serve_forever()


def start_server():
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    return process, mine.recv()


class Tracker:
    def __init__(self, port, run):
        self.run = run
        self.connection = http.client.HTTPConnection("127.0.0.1", port)

    def send(self, values):
        body = json.dumps({"run": self.run, "values": values, "time": time.time()})
        self.connection.request("POST", "/api/log", body, {"Content-Type": "application/json"})
        self.connection.getresponse().read()

    def log(self, **values):
        self.send(values)

    def finish(self):
        self.connection.close()
