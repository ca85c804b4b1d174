"""The pages in a real browser: hostile text, other sites, live figures, themes, widths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from urllib.parse import urlencode, urljoin, urlsplit

import pytest
import redis
from playwright.sync_api import Browser, BrowserContext, Page, expect

from ackq import Queue
from ackq.web import watcher
from tests.web.conftest import HOSTILE, Stock

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(120)]

#: Reports what the policy stopped, and what a hostile text would have set.
WATCH = """
window.stopped = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.stopped.push(event.violatedDirective + " " + event.blockedURI));
"""
#: Every text with its contrast.
CONTRASTS = """
() => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((each) => each / 255)
    .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const found = channels(getComputedStyle(element).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("body *")]
    .filter((each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .filter((each) => each.checkVisibility())
    .map((each) => {
      const one = light(channels(getComputedStyle(each).color)), two = light(behind(each));
      const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
      return [ratio, each.outerHTML.slice(0, 80)];
    });
}
"""


@dataclass
class Seen:
    """What a browser did."""

    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with closing(browser.new_context()) as context:
        context.add_init_script(WATCH)
        yield context


def paths_of(stock: Stock, client: redis.Redis) -> list[str]:
    with Queue(client, stock.jobs) as queue:
        entries = [letter.entry for letter in queue.dead_letters()]
    jobs = {"kind": "list", "name": stock.jobs}
    queries: list[tuple[str, dict[str, str]]] = [
        ("", {}), ("", {"q": HOSTILE}), ("server", {}), ("nothing", {"q": HOSTILE}),
        ("queue", {"kind": HOSTILE, "name": HOSTILE}),
        *(("queue", {**jobs, "state": state, "bodies": "1"})
          for state in ("ready", "in_flight", "delayed")),
        *(("queue", {"kind": "delay", "name": stock.reminders, "state": state, "bodies": "1"})
          for state in ("ready", "delayed")),
        ("queue", {"kind": "topic", "name": stock.prices}),
        ("queue", {"kind": "rsmq", "name": stock.legacy}),
        ("dead", {"name": stock.jobs}), ("dead", {"name": stock.jobs, "cause": HOSTILE}),
        ("dead", {"name": stock.jobs, "after": HOSTILE}),
        ("dead", {"kind": "delay", "name": stock.reminders}), ("workers", {}), ("operations", {}),
        *(("letter", {"name": stock.jobs, "entry": entry, "body": "1"}) for entry in entries),
    ]  # fmt: skip
    return [f"{page}?{urlencode(query)}" for page, query in queries]


def watch(page: Page) -> Seen:
    seen = Seen()
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("dialog", lambda dialog: seen.errors.append(dialog.message))
    return seen


def test_hostile_text_runs_nowhere_and_no_other_host_is_asked(
    context: BrowserContext, site: str, stock: Stock, plain_client: redis.Redis
) -> None:
    page = context.new_page()
    seen = watch(page)
    shown = ""
    for path in paths_of(stock, plain_client):
        page.goto(urljoin(site, path))
        shown += page.inner_text("body")
        assert page.evaluate("[window.canary, ...window.stopped]") == [None], path
        assert page.locator("img, iframe, object, base, style, script:not([src])").count() == 0
        assert page.locator("[onerror], [onload], [onclick], [style]").count() == 0
    assert seen.errors == []
    assert {urlsplit(each).netloc for each in seen.requests} == {urlsplit(site).netloc}
    # The hostile text was there, as text.
    for text in (stock.jobs, stock.prices, f"0{HOSTILE}", f"c{HOSTILE}", f"dead{HOSTILE}",
                 f"later{HOSTILE}", f"worker{HOSTILE}", "runs", "KeyError", "secret"):  # fmt: skip
        assert text in shown


def test_a_page_of_another_site_reads_and_changes_nothing(
    context: BrowserContext, site: str
) -> None:
    """A name that points to this machine (rebinding), and a form that another site sends."""
    page = context.new_page()
    port = urlsplit(site).port
    reply = page.goto(f"http://evil.test:{port}/")
    assert reply is not None
    assert reply.status == 421
    assert "Queues" not in page.inner_text("body")
    form = f'<form method="post" action="{site}"><input name="a" value="b"></form>'
    context.route("http://evil.test/form", lambda route: route.fulfill(
        content_type="text/html", body=f"{form}<iframe src='{site}'></iframe>"))  # fmt: skip
    page.goto("http://evil.test/form")
    expect(page.frame_locator("iframe").locator("[data-status]")).to_have_count(0)
    # The frame gets a response from the same address.
    with page.expect_response(lambda reply: reply.request.method == "POST") as posted:
        page.evaluate("document.forms[0].submit()")
    assert posted.value.url == site
    page.wait_for_url(site)
    assert posted.value.status == 405
    reading = "url => fetch(url).then((found) => found.text()).catch(() => 'nothing')"
    other = context.new_page()
    other.goto("http://evil.test/form")
    assert other.evaluate(reading, f"{site}live") == "nothing"


def test_figures_change_without_a_reload_and_the_page_does_not_grow(
    context: BrowserContext, site: str, plain_client: redis.Redis, name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(watcher, "SHORTEST", 0.02)
    monkeypatch.setattr(watcher, "SAMPLES", 15)
    with Queue(plain_client, name) as queue:
        queue.push_many([{"id": "a"}, {"id": "b"}, {"id": "c"}])
        queue.ack(*queue.pop_many(1))
        queue.push({"id": "later"}, delay=3600)
        page = context.new_page()
        page.goto(site)
        page.evaluate("window.kept = true")
        ready = page.locator('[data-value="0.ready"]')
        expect(ready).to_have_text("2")
        queue.push({"id": "d"})
        expect(ready).to_have_text("3")
        # As many updates as an hour has at the usual pace would take a while; these are enough
        # to fill every sparkline and go on.
        count = "document.querySelectorAll('*').length"
        size = page.evaluate(count)
        updates = iter(range(2 * watcher.SAMPLES))
        page.wait_for_event("response", lambda reply: next(updates, None) is None)
        assert page.evaluate(count) == size
        points = page.locator('[data-line="0.backlogs"]').get_attribute("points")
        assert points is not None
        assert len(points.split()) == watcher.SAMPLES
        assert page.evaluate("[window.kept, ...window.stopped]") == [True]
        queue.purge(dead=True)


def test_the_keyboard_reaches_everything(context: BrowserContext, site: str, stock: Stock) -> None:
    page = context.new_page()
    page.goto(site)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("/")
    page.keyboard.type("due")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=due"))
    assert page.locator("tbody tr").count() == 1
    for _ in range(30):
        page.keyboard.press("Tab")
        if "due" in page.evaluate("document.activeElement.textContent"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/queue"))
    assert stock.reminders in page.inner_text("h1")


def test_themes_have_readable_contrast_and_pages_fit_a_phone(
    browser: Browser, site: str, stock: Stock, plain_client: redis.Redis
) -> None:
    every = paths_of(stock, plain_client)
    kinds = {re.split("[?&](name|state|q|cause|after|entry)", each)[0]: each for each in every}
    paths = [*kinds.values()]
    backs = set()
    with closing(browser.new_context(viewport={"width": 390, "height": 800})) as context:
        page = context.new_page()
        page.goto(site)
        for theme in ("dark", "light"):
            page.get_by_role("button", name="Theme").click()
            for path in paths:
                page.goto(urljoin(site, path))
                assert page.evaluate("document.documentElement.dataset.theme") == theme
                found = page.evaluate(CONTRASTS)
                assert len(found) > 5
                assert [each for each in found if each[0] < 4.5] == []
                assert page.evaluate("document.documentElement.scrollWidth") == 390, path
            backs.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(backs) == 2
    for scheme in ("dark", "light"):
        with closing(browser.new_context(color_scheme=scheme)) as context:
            page = context.new_page()
            page.goto(site)
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") in backs


def test_the_page_works_without_its_script(browser: Browser, site: str, stock: Stock) -> None:
    with closing(browser.new_context(java_script_enabled=False)) as context:
        page = context.new_page()
        page.goto(site)
        page.get_by_label("Search names").fill("due")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name="due").click()
        page.get_by_role("link", name="Delayed").click()
        assert f"later{HOSTILE}" in page.inner_text("main")
