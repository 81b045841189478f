"""The page of an explanation in a real browser: what it shows, that it asks for nothing, and who can use it.

``POWERCTX_TEST_BROWSER`` can name the browser; else it is Chromium or Chrome on the path.  Without one these tests are
skipped, but not in CI.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import powerctx_core as powerctx
from powerctx_core import Item
from powerctx_core.page import page as drawn

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
HOSTILE = "<script>document.title='FORGED'</script><img src=x onerror=\"document.title='FORGED'\">"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all pages."""
    place = os.environ.get("POWERCTX_TEST_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if place is None:
        reason = "there is no Chromium on the path (Debian: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}, and CI must have it")
        pytest.skip(reason)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=place, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def explanation() -> powerctx.Explanation:
    """One of several families and rounds, with something delivered, cut, and left out for several reasons."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        texts = [
            "alpha beta one " * 60,
            "alpha beta gamma",
            *(f"{w} alone" for w in ("alpha", "beta", "gamma", "delta")),
        ]
        ctx.put([Item(scope_id="s", artifact_id=f"n{n}", text=text) for n, text in enumerate(texts)])
        ctx.put([Item(scope_id="s", family="experience", artifact_id="x", text="alpha delta", title=HOSTILE)])
        ctx.put([Item(scope_id="资料/t", artifact_id='"><b>', text="alpha beta 资料", title="别的 \u202e范围")])
        return ctx.explain(f"alpha beta gamma delta {HOSTILE}", scope_id="s", references=["资料/t"], gate="v2",
                           trim="value", max_bytes=700)  # fmt: skip


@pytest.fixture
def show(browser: Browser, explanation: powerctx.Explanation, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """A function that opens the page; afterwards nothing may have been asked of any network, and nothing reported."""
    asked: list[str] = []
    told: list[str] = []
    contexts = []
    file = tmp_path / "page.html"

    def opened(shown: powerctx.Explanation = explanation, **options: Any) -> Page:
        file.write_text(drawn(shown), encoding="utf-8")
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.goto(file.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert {url for url in asked if url != file.as_uri()} == set()
    assert told == []


def test_what_it_shows(show: Callable[..., Page], explanation: powerctx.Explanation) -> None:
    """Every section, every delivered item in its order, and every item that was left out with its reason in words."""
    page = show()

    headings = page.locator("h2").all_inner_texts()
    assert headings == [
        "From retrieved to delivered", "Budget", "Delivered", "Left out", "How the gate judged",
        "What each candidate is worth", "What ran", "What the model gets", "Receipt",
    ]  # fmt: skip
    uris = page.locator("#delivered code").all_inner_texts()
    assert uris == [address.uri for address in explanation.response.selected]
    left = page.locator("#left tbody th code").all_text_contents()
    assert sorted([*uris, *left]) == sorted(each.address.uri for each in explanation.candidates)
    assert page.locator("#left summary").count() == len(
        {each.fate for each in explanation.candidates} - {"delivered", "cut", "listed"}
    )
    pools = {pool.family: pool for pool in explanation.rounds[0].pools if pool.scope_id == "s"}
    rows = page.locator("#flow .card").first.locator("tbody").first.locator("tr")
    assert rows.count() == len(pools)
    numbers = [int(cell) for cell in page.locator("#flow svg").first.locator(".total").all_text_contents()]
    first = explanation.rounds[0].pools
    assert numbers[:2] == [sum(pool.retrieved for pool in first), sum(pool.admitted for pool in first)]
    assert page.locator("#flow .card").count() == len(explanation.rounds)


def test_stored_text_is_text(show: Callable[..., Page]) -> None:
    """Markup in a query, a title, an id or a body is shown and does nothing; what turns text round is written out."""
    page = show()

    assert page.title().endswith("powerctx explain")
    assert page.locator("script, img, iframe, object, link, form").count() == 0
    assert "<script>" in page.locator("h1").inner_text()
    assert page.get_by_text("\\u202e").count() > 0
    assert "\u202e" not in page.content()


@pytest.mark.parametrize("width", [320, 375, 768, 1400])
def test_any_width(show: Callable[..., Page], width: int) -> None:
    """The page never scrolls sideways; what is wide scrolls by itself."""
    page = show(viewport={"width": width, "height": 800})

    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("h1").bounding_box()["width"] <= width  # type: ignore[index]  # it is drawn


CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgb = (colour, under) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const ground = element => {
    const chain = [];
    for (let each = element; each; each = each.parentElement) chain.unshift(getComputedStyle(each).backgroundColor);
    return chain.reduce((under, colour) => `rgb(${rgb(colour, under)})`, 'rgb(255,255,255)');
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    const under = ground(element), style = getComputedStyle(element);
    const ink = element instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(rgb(ink, under)), light(rgb(under, under))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) low.push([walker.currentNode.data.slice(0, 30), (a + .05) / (b + .05)]);
  }
  return low;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(show: Callable[..., Page], scheme: str) -> None:
    """Every text stands out from its ground by 4.5 to 1 (WCAG 2 AA), and the two schemes are two."""
    page = show(color_scheme=scheme)

    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate(CONTRAST) == []
    page.evaluate("document.querySelector('h1').style.color = getComputedStyle(document.body).backgroundColor")
    assert len(page.evaluate(CONTRAST)) == 1  # so it sees what cannot be read
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) > 384) == (scheme == "light")


def test_by_keyboard(show: Callable[..., Page]) -> None:
    """Every part that opens or scrolls is reached with Tab, in the order of the page, and opens with Enter."""
    page = show()

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    opened = 0
    for _ in range(200):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.tagName")
        if name == "BODY":
            break
        if name == "SUMMARY":
            page.keyboard.press("Enter")
            opened += page.evaluate("document.activeElement.parentElement.open")
    assert opened == page.locator("details").count() > 3


def test_by_screen_reader(show: Callable[..., Page]) -> None:
    """Pictures have a name and say their numbers; tables have captions and headers; headings have no gap; one main."""
    page = show()

    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("main").count() == page.locator("h1").count() == 1
    for picture in page.locator('svg[role="img"]').all():
        named = picture.get_attribute("aria-label")
        if named is None:
            idents = (picture.get_attribute("aria-labelledby") or "").split()
            named = " ".join(page.locator(f"#{ident}").text_content() or "" for ident in idents)
            assert "retrieved" in named
        assert named
    assert page.locator('svg:not([role="img"]):not([aria-hidden="true"])').count() == 0
    for table in page.locator("table").all():
        assert table.locator("caption").count() == 1
        assert table.locator('thead th[scope="col"]').count() > 0
    levels = [int(tag[1]) for tag in page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => h.tagName)")]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    idents = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(idents) == len(set(idents))


@pytest.fixture(scope="module")
def start() -> powerctx.Explanation:
    """One of a start, with slots that are filled and absent, and a hostile title."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        events = [
            Item(scope_id="s", artifact_id=f"e{n}", category="events", text=f"event {n} " * 60) for n in range(30)
        ]
        ctx.put([*events, Item(scope_id="s", family="profile", artifact_id="me", text="word " * 5000, title=HOSTILE)])
        return ctx.explain(powerctx.SearchRequest(scope_id="s", mode="bootstrap", max_tokens=900))


def test_what_it_shows_of_a_start(show: Callable[..., Page], start: powerctx.Explanation) -> None:
    """A section of slots in their order, with what each used, and why one is absent; no section that has no meaning."""
    page = show(start)

    assert page.locator("h1").inner_text() == "What an agent should know when it starts"
    assert page.locator("h2").all_inner_texts() == [
        "Slots", "Budget", "Delivered", "Left out", "What ran", "What the model gets", "Receipt",
    ]  # fmt: skip
    rows = page.locator("#slots tbody tr")
    assert rows.locator("th").all_inner_texts() == [each.slot for each in start.slots]
    assert rows.nth(2).inner_text().endswith("absent: not for this lifecycle")
    uris = page.locator("#delivered code").all_inner_texts()
    assert uris == [address.uri for address in start.response.selected]
    left = page.locator("#left tbody th code").all_text_contents()
    assert sorted([*uris, *left]) == sorted(each.address.uri for each in start.candidates)
    assert page.locator("script, img").count() == 0


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (1400, "light")])
def test_a_start_can_be_read(show: Callable[..., Page], start: powerctx.Explanation, width: int, scheme: str) -> None:
    """At any width it does not scroll sideways, and every text stands out from its ground."""
    page = show(start, viewport={"width": width, "height": 800}, color_scheme=scheme)

    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []


def test_nothing_to_show(show: Callable[..., Page]) -> None:
    """An empty answer says why in a sentence."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        page = show(ctx.explain("alpha", scope_id="s"))
        assert page.get_by_role("note").inner_text() == "Nothing is stored in these scopes and families."
        page = show(ctx.explain("alpha", scope_id="s", sections=[]))
        assert page.get_by_role("note").inner_text() == "No section was asked for."
