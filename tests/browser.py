"""A real headless Chromium, driven by its own WebDriver over plain HTTP: what the page's tests look through."""

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--no-first-run", "--force-device-scale-factor=1",
)  # fmt: skip
LIMIT_S = 20.0


def find_browser() -> tuple[str, str] | None:
    """The paths of Chromium and its driver; None where one is not installed."""
    driver = shutil.which("chromedriver")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    return None if driver is None or browser is None else (browser, driver)


class Browser:
    """One browser with one window. Every call blocks for at most LIMIT_S seconds."""

    def __init__(self, folder: Path) -> None:
        found = find_browser()
        assert found is not None, "make test-window installs chromium and chromium-driver"
        binary, driver = found
        self._driver = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._driver.stdout is not None
        line = ""
        while "successfully on port " not in line:
            line = self._driver.stdout.readline()
            assert line, "the driver ended before it listened"
        self._base = f"http://127.0.0.1:{line.rpartition('on port ')[2].strip().rstrip('.')}"
        options = {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": binary, "args": [*FLAGS, f"--user-data-dir={folder}"]},
        }
        made = self._send("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self._base += f"/session/{made['sessionId']}"

    def _send(self, method: str, path: str, body: object = None) -> Any:
        data = None if method == "GET" or method == "DELETE" else json.dumps({} if body is None else body).encode()
        request = urllib.request.Request(self._base + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=2 * LIMIT_S) as answer:
            return json.loads(answer.read())["value"]

    def open(self, address: str, *, width: int = 1280, height: int = 800) -> None:
        """Opens a page and waits until its script says that it is ready."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._send("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": size})
        self.go(address)
        self.wait("document.body && document.body.dataset.ready === 'true'")

    def go(self, address: str) -> None:
        """Opens a page and waits for its loading alone."""
        self._send("POST", "/url", {"url": address})

    def new_tab(self) -> str:
        """Opens a tab behind the others and returns its handle."""
        return str(self._send("POST", "/window/new", {"type": "tab"})["handle"])

    def to_tab(self, handle: str) -> None:
        """Brings a tab to the front."""
        self._send("POST", "/window", {"handle": handle})

    def run(self, script: str, *values: object) -> Any:
        """What a script returns; a promise is waited for."""
        return self._send("POST", "/execute/sync", {"script": script, "args": list(values)})

    def wait(self, condition: str) -> None:
        """Waits until an expression holds. Raises AssertionError after LIMIT_S."""
        until_s = time.monotonic() + LIMIT_S
        while not self.run(f"return !!({condition})"):
            assert time.monotonic() < until_s, f"{condition}: not within {LIMIT_S:.0f} s; console: {self.console()}"

    def text(self, selector: str) -> str:
        """The text of the first element that matches."""
        return str(self.run("return document.querySelector(arguments[0]).innerText", selector))

    def steps_drawn(self) -> list[int]:
        """Every step of a run's loss chart, as the cursor's reading names it, from the last to the first."""
        return self.run(
            "const chart = document.querySelector('#chart-loss'), out = []; chart.focus();"
            "for (let i = 0; i < 500; i++) {"
            " chart.dispatchEvent(new KeyboardEvent('keydown', {key: i ? 'ArrowLeft' : 'PageDown'}));"
            " out.push(+document.querySelector('#reading-loss').textContent.split(/[ :]/)[1]);"
            " if (out.at(-1) === 1) break; } return out"
        )

    def console(self) -> list[str]:
        """Errors that the page wrote since the last call."""
        said = self._send("POST", "/se/log", {"type": "browser"})
        return [each["message"] for each in said if each["level"] == "SEVERE" and "favicon" not in each["message"]]

    def picture(self, path: Path) -> None:
        """Writes what is seen."""
        path.write_bytes(base64.b64decode(self._send("GET", "/screenshot")))

    def close(self) -> None:
        """Ends the browser and its driver."""
        try:
            self._send("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(LIMIT_S)
            assert self._driver.stdout is not None
            self._driver.stdout.close()
