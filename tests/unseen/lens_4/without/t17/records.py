import json
import logging


class JsonLines(logging.Formatter):
    def format(self, record):
        body = {"at": record.created, "level": record.levelname, "text": record.getMessage()}
        body.update(getattr(record, "data", {}))
        return json.dumps(body, sort_keys=True, indent=1, default=str).replace("\n", " ")


def open_log(path):
    handler = logging.FileHandler(path, mode="w")
    handler.setFormatter(JsonLines())
    log = logging.getLogger("run")
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    return log
