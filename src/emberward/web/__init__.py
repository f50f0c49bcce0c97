"""Show a run in a browser: a page that is live while the run is, a list, a comparison, and the same page as one file.

Floor 6. No torch. What is shown comes from `report`; nothing here decides, and nothing here changes a run's folder.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.web._columns import Columns
    from emberward.web._lag import lag_frame, worst_lags
    from emberward.web._live_run import Facts
    from emberward.web._page import file_page
    from emberward.web._proof_page import proof_page
    from emberward.web._runbook import HEADS, runbook_text
    from emberward.web._server import LOOPBACK, PageServer, Site, new_token
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "HEADS",
    "LOOPBACK",
    "Columns",
    "Facts",
    "PageServer",
    "Site",
    "file_page",
    "lag_frame",
    "new_token",
    "proof_page",
    "runbook_text",
    "worst_lags",
]
