import queue
import threading


def ahead(loader, room=6):
    """Read batches in a thread, a few ahead of use."""
    box = queue.Queue(maxsize=room)
    end = object()

    def fill():
        for item in loader:
            box.put(item)
        box.put(end)

    threading.Thread(target=fill, daemon=True, name="reader").start()
    while True:
        item = box.get()
        if item is end:
            return
        yield item
