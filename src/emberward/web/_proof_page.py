"""The page of a check: its verdict, each finding with who waits for whom, and the pictures of the pre-flight."""

from collections.abc import Mapping, Sequence
from typing import Any

from emberward.findings import Finding
from emberward.report import CardFacts, Html, card_of, join, preflight_pictures, tag, witness_picture
from emberward.web._fragments import card_html
from emberward.web._page import STYLES, asset, document, file_policy
from emberward.web._pictures import figure

MAX_CARDS = 20


def proof_page(title: str, checked: Mapping[str, Any], *, lines: Mapping[str, str]) -> str:
    """One file without a script and without a request, from the JSON document of ``emberward check``.

    `title`: what was checked. `lines`: the code at the sites that findings name, where it is known. Raises KeyError or
    ValueError for a document that `check` did not write.
    """
    findings = [Finding.from_json(each) for each in checked["findings"]]
    order = ("error", "warning", "notice")
    findings.sort(key=lambda finding: order.index(finding.severity.value))
    style = Html("\n".join(asset(name) for name in STYLES[1:]))
    policy = file_policy("", style)
    head = join(Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'), tag("style", style))
    left = len(findings) - MAX_CARDS
    page = checked.get("preflight")
    body = join(
        tag("header", tag("div", tag("h1", f"emberward check {title}"), class_="title"), _verdict(checked)),
        tag(
            "main",
            *(_finding(finding, lines) for finding in findings[:MAX_CARDS]),
            tag("p", f"and {left} more findings", class_="note") if left > 0 else None,
            *(map(_panel, map(figure, preflight_pictures(page))) if isinstance(page, Mapping) else ()),
            _list("Assumed", checked.get("assumptions") or ()),
            _list("Not examined", checked.get("not_examined") or ()),
        ),
    )
    return document(f"check {title}", body, head=head, state="proof")


def _verdict(checked: Mapping[str, Any]) -> Html:
    is_proved = bool(checked.get("proved"))
    has_error = any(each["severity"] == "error" for each in checked["findings"])
    if is_proved and not has_error:
        words, tone, icon = "PROVED: every call of every rank ends", "good", "✔"
    elif has_error:
        words, tone, icon = "NOT SAFE: an error was found", "bad", "■"
    else:
        words, tone, icon = "NO ERROR in what was examined, which is not all", "idle", "◔"
    size = [
        f"{checked[key]:,} {words}"
        for key, words in (("num_ranks", "ranks"), ("num_roles", "run dry"), ("num_events", "events"))
        if isinstance(checked.get(key), int)
    ]
    if isinstance(checked.get("seconds"), int | float):
        size.append(f"{checked['seconds']:g} s")
    return join(
        tag("p", tag("span", icon, class_="icon", aria_hidden="true"), tag("strong", words), class_=f"state {tone}"),
        tag("p", " · ".join(size), class_="facts") if size else None,
    )


def _finding(finding: Finding, lines: Mapping[str, str]) -> Html:
    card = card_html(card_of(finding, CardFacts()), runbooks=False, copies=False)
    witness = witness_picture(finding, lines=lines)
    return card if witness is None else join(card, _panel(figure(witness)))


def _panel(inside: Html) -> Html:
    return tag("section", inside, class_="panel")


def _list(title: str, lines: Sequence[object]) -> Html | None:
    return _panel(join(tag("h2", title), tag("ul", *(tag("li", line) for line in lines)))) if lines else None
