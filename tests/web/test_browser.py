"""The pages in a real browser: hostile text, other sites, live figures, themes, widths."""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import pytest
import redis
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from ackq import Queue
from ackq.delay import DelayQueue
from ackq.ops import history
from ackq.ops.operation_log import OperationLog
from ackq.queue.registry import entries
from ackq.topic import Topic
from ackq.web import jobs, renderer, watcher
from ackq.web import operations as web_operating
from ackq.web.requests import Ask
from ackq.worker.presence import leave
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


#: The theme that the page shows, and the colour behind its text.
THEME = "document.documentElement.dataset.theme"
BACK = "getComputedStyle(document.body).backgroundColor"
#: What does not fit into the width of the window, or into a table's frame.
CUT_OFF = """
() => [document.documentElement, ...document.querySelectorAll(".scroll")]
  .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.outerHTML.slice(0, 80))
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
        ("", {}),
        ("", {"q": HOSTILE}),
        ("server", {}),
        ("nothing", {"q": HOSTILE}),
        ("queue", {"kind": HOSTILE, "name": HOSTILE}),
        *(
            ("queue", {**jobs, "state": state, "bodies": "1"})
            for state in ("ready", "in_flight", "delayed")
        ),
        *(
            ("queue", {"kind": "delay", "name": stock.reminders, "state": state, "bodies": "1"})
            for state in ("ready", "delayed")
        ),
        ("queue", {"kind": "topic", "name": stock.prices}),
        ("queue", {"kind": "rsmq", "name": stock.legacy}),
        ("find", {"name": stock.jobs, "q": f"4{HOSTILE}", "bodies": "1"}),
        ("find", {"name": stock.jobs, "q": f"secret={HOSTILE}"}),
        ("find", {"name": stock.jobs, "q": HOSTILE}),
        ("dead", {"name": stock.jobs}),
        ("dead", {"name": stock.jobs, "cause": HOSTILE}),
        ("dead", {"name": stock.jobs, "before": HOSTILE}),
        ("dead", {"kind": "delay", "name": stock.reminders}),
        ("failures", {}),
        ("failures", jobs),
        ("workers", {}),
        ("operations", {}),
        *(("letter", {"name": stock.jobs, "entry": entry, "body": "1"}) for entry in entries),
    ]
    return [f"{page}?{urlencode(query)}" for page, query in queries]


def previews_of(stock: Stock) -> list[str]:
    asks = [
        Ask("drop", "list", stock.jobs),
        Ask("redrive", "list", stock.jobs, cause=HOSTILE),
        Ask("cancel", "delay", stock.reminders, key=f"later{HOSTILE}"),
        Ask("cancel_running", "list", stock.jobs, id=f"2{HOSTILE}"),
        Ask("remove_schedule", "list", stock.jobs, schedule=HOSTILE),
        Ask("seek", "topic", stock.prices, consumer=f"c{HOSTILE}", to="1"),
        Ask("stop_worker", "list", stock.jobs, worker=HOSTILE),
        Ask(HOSTILE, HOSTILE, HOSTILE),
    ]
    return [f"preview?{urlencode({'what': ask.query()})}" for ask in asks]


def kinds_of_pages(stock: Stock, client: redis.Redis) -> list[str]:
    """Return a path for each kind of page."""
    every = [*paths_of(stock, client), previews_of(stock)[0]]
    kinds = {
        re.split("[?&](name|state|q|cause|before|entry|what)", each)[0]: each for each in every
    }
    return [*kinds.values()]


def watch(page: Page) -> Seen:
    seen = Seen()
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("dialog", lambda dialog: seen.errors.append(dialog.message))
    return seen


def test_hostile_text_runs_nowhere_and_no_other_host_is_asked(
    context: BrowserContext, operating: str, stock: Stock, plain_client: redis.Redis
) -> None:
    with OperationLog(plain_client) as log:
        log.end(log.begin(HOSTILE, HOSTILE, HOSTILE, HOSTILE), HOSTILE)
    site = operating
    page = context.new_page()
    seen = watch(page)
    shown = ""
    for path in [*paths_of(stock, plain_client), *previews_of(stock)]:
        page.goto(urljoin(site, path))
        shown += page.inner_text("body")
        assert page.evaluate("[window.canary, ...window.stopped]") == [None], path
        assert page.locator("img, iframe, object, base, style, script:not([src])").count() == 0
        assert page.locator("[onerror], [onload], [onclick], [style]").count() == 0
    assert seen.errors == []
    assert {urlsplit(each).netloc for each in seen.requests} == {urlsplit(site).netloc}
    # The hostile text was there, as text.
    for text in (
        stock.jobs,
        stock.prices,
        f"0{HOSTILE}",
        f"c{HOSTILE}",
        f"dead{HOSTILE}",
        f"later{HOSTILE}",
        f"worker{HOSTILE}",
        "runs",
        "KeyError",
        "secret",
    ):
        assert text in shown


def test_every_button_does_what_it_says(
    context: BrowserContext, operating: str, stock: Stock, plain_client: redis.Redis
) -> None:
    """On queues whose names, ids and keys are hostile, so each must pass unchanged."""
    page = context.new_page()
    seen = watch(page)
    notice = page.locator(".notice")

    def go(path: str, **query: str) -> None:
        page.goto(urljoin(operating, f"{path}?{urlencode(query)}"))

    def press(name: str, said: str) -> None:
        page.get_by_role("button", name=name, exact=True).first.click()
        expect(notice).to_contain_text(said)

    with Queue(plain_client, stock.jobs) as queue:
        go("queue", kind="list", name=stock.jobs)
        press("Pause", "paused")
        assert queue.stats().paused
        press("Resume", "resumed")
        assert not queue.stats().paused
        page.get_by_role("link", name="2 dead letters").click()
        page.get_by_role("checkbox").first.check()
        page.get_by_role("button", name="Redrive the chosen").click()
        press("Redrive dead letters (1)", "1 redriven")
        page.get_by_role("link", name="Redrive all").click()
        page.get_by_label("Pace").select_option("1000")
        assert "All 1 dead letter of" in page.inner_text("main")
        page.get_by_role("link", name="Go back").click()
        assert queue.stats().dead == 1
        page.get_by_role("link", name="1 dead letter").click()
        page.locator("td.id a").click()
        page.get_by_role("link", name="Drop").click()
        press("Drop dead letters (1)", "1 dropped")
        assert queue.stats().dead == 0
        page.get_by_role("link", name="Workers").click()
        press("Quiet", "ordered")
        page.get_by_role("link", name="Stop").click()
        press("Stop a worker", "ordered")
        assert [each.order for each in queue.execute(entries)] == ["stop"]
        go("queue", kind="list", name=stock.jobs)
        page.keyboard.press("/")
        page.keyboard.type(f"5{HOSTILE}")
        page.keyboard.press("Enter")
        press("Run now", "1 message ready now")
        page.get_by_role("link", name="Cancel").click()
        press("Cancel a message", "1 message canceled")
        page.get_by_role("link", name="Open the dead letter").click()
        press("Redrive", "1 redriven")
        go("queue", kind="list", name=stock.jobs, state="in_flight")
        page.get_by_role("link", name="Cancel").click()
        press("Cancel a running message", "1 message canceled")
        go("queue", kind="list", name=stock.jobs)
        press("Pause", "paused")
        page.get_by_role("row", name="<script>").get_by_role("link", name="Remove").click()
        press("Remove a schedule", "removed")
        assert queue.schedules.list() == []
    go("dead", kind="delay", name=stock.reminders)
    page.get_by_role("link", name="Redrive all").click()
    press("Redrive dead letters (2)", "redriven")
    with DelayQueue(plain_client, stock.reminders) as delay:
        go("queue", kind="delay", name=stock.reminders, state="delayed")
        press("Run now", "ready")
        assert delay.stats().delayed == 0
        delay.push(f"later2{HOSTILE}", HOSTILE, delay=3600)
        go("queue", kind="delay", name=stock.reminders, state="delayed")
        page.get_by_role("link", name="Cancel").click()
        press("Cancel a message", "canceled")
        assert delay.peek(state="delayed") == []
    go("queue", kind="topic", name=stock.prices)
    page.get_by_label("Index").fill("3")
    page.get_by_role("button", name="Move").click()
    press("Move a consumer", "the next message is 3")
    with Topic(plain_client, stock.prices) as topic:
        assert topic.position(f"c{HOSTILE}") == 2
    page.get_by_role("link", name="Operations").click()
    expect(page.locator("tbody tr")).to_have_count(16)
    assert page.evaluate("[window.canary, ...window.stopped]") == [None]
    assert seen.errors == []


def test_a_long_operation_is_watched_and_stopped(
    context: BrowserContext,
    operating: str,
    plain_client: redis.Redis,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web_operating, "INTERVAL", 0.05)
    monkeypatch.setattr(jobs, "WAIT", 0.1)
    with Queue(plain_client, name) as queue:
        queue.push_many([{"id": str(number)} for number in range(300)])
        queue.reject(*queue.pop_many(300), reason="bad")
        page = context.new_page()
        page.goto(urljoin(operating, f"dead?{urlencode({'name': name})}"))
        page.get_by_role("link", name="Drop all").click()
        page.get_by_label("Pace").select_option("10")  # half a minute, however slow the browser
        page.get_by_role("button", name="Drop dead letters (300)").click()
        page.evaluate("window.kept = true")
        bar, text = page.locator("progress"), page.locator('[data-value$=".text"]')
        shown, before = bar.evaluate("each => each.value"), text.inner_text()
        page.wait_for_function(
            "shown => document.querySelector('progress').value > shown", arg=shown
        )
        expect(text).not_to_have_text(before)
        assert page.evaluate("window.kept")
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".notice")).to_contain_text("then stopped by anonymous at 127.0.0.1")
        expect(bar).to_have_count(0)
        assert 0 < queue.stats().dead < 300


def test_forms_of_other_sites_are_refused(
    context: BrowserContext, operating: str, plain_client: redis.Redis, name: str
) -> None:
    """The browser has a session of the page, and the other site even knows the form's token."""
    page = context.new_page()
    drop = Ask("drop", name=name).query()
    page.goto(urljoin(operating, f"preview?{urlencode({'what': drop})}"))
    token = page.locator("[name=token]").first.get_attribute("value")
    what = Ask("pause", name=name).query()
    form = (
        f'<form method="post" action="{operating}operate"><input name="token" value="{token}">'
        f'<input name="what" value="{what}"></form>'
    )
    port = urlsplit(operating).port
    for number, site in enumerate(
        ("http://evil.test", "https://evil.test", f"http://localhost:{port}")
    ):
        context.route(
            f"{site}/form{number}", lambda route: route.fulfill(content_type="text/html", body=form)
        )
        page.goto(f"{site}/form{number}")
        with page.expect_response(lambda reply: reply.request.method == "POST") as posted:
            page.evaluate("document.forms[0].submit()")
        assert posted.value.status == 403, site
        page.wait_for_url(f"{operating}operate")
    rebound = operating.replace("127.0.0.1", "evil.test")
    assert page.goto(f"{rebound}preview?what=x").status == 421  # type: ignore[union-attr]
    sent = page.evaluate(
        "([url, what, token]) => fetch(url, {method: 'POST', headers:"
        " {'content-type': 'application/x-www-form-urlencoded'},"
        " body: new URLSearchParams({what, token})}).then((reply) => reply.status)",
        [f"{rebound}operate", what, token],
    )
    assert sent == 421
    assert plain_client.exists(f"{name}PAUSED", "ackq:web:log") == 0


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
    context.route(
        "http://evil.test/form",
        lambda route: route.fulfill(
            content_type="text/html", body=f"{form}<iframe src='{site}'></iframe>"
        ),
    )
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


def test_figures_change_without_a_reload(
    context: BrowserContext,
    site: str,
    plain_client: redis.Redis,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watcher, "MIN_INTERVAL", 0.02)
    monkeypatch.setattr(history, "SAMPLES", 5)
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
        updates = iter(range(2 * history.SAMPLES))
        page.wait_for_event("response", lambda reply: next(updates, None) is None)
        points = page.locator('[data-line="0.backlogs"]').get_attribute("points")
        assert points is not None
        assert len(points.split()) == history.SAMPLES
        assert page.evaluate("[window.kept, ...window.stopped]") == [True]
        queue.purge(dead=True)


#: Answers what the page asks for with other figures each time.
OTHER_FIGURES = """
async () => {
  const found = await (await fetch(document.querySelector("main").dataset.live)).json();
  window.updates = 0;
  window.fetch = async () => {
    window.updates += 1;
    for (const key in found.values) found.values[key] = String(window.updates);
    for (const key in found.points) found.points[key] = `0,${window.updates % 28} 120,3`;
    return { ok: true, json: async () => structuredClone(found) };
  };
}
"""


def test_a_page_that_was_open_for_an_hour_has_not_grown(
    context: BrowserContext, site: str, stock: Stock
) -> None:
    page = context.new_page()
    page.clock.install()
    page.goto(site)
    page.evaluate(OTHER_FIGURES)
    browser = context.new_cdp_session(page)

    def size_after(seconds: int) -> tuple[int, int, int]:
        page.clock.run_for(seconds * 1000)
        browser.send("HeapProfiler.collectGarbage")
        counted = browser.send("Memory.getDOMCounters")
        heap = browser.send("Runtime.getHeapUsage")["usedSize"]
        return counted["nodes"], counted["jsEventListeners"], heap

    nodes, listeners, heap = size_after(120)
    assert page.evaluate("window.updates") >= 59
    later = size_after(3600)
    updates = page.evaluate("window.updates")
    assert updates >= 1850
    assert page.locator('[data-value="0.ready"]').inner_text() == str(updates)
    # Some nodes may wait for the collector; each of 1,800 updates would leave one.
    assert later[0] < nodes + 200
    assert later[1] == listeners
    assert later[2] < heap + 150_000


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
    browser: Browser, operating: str, stock: Stock, plain_client: redis.Redis
) -> None:
    site, paths = operating, kinds_of_pages(stock, plain_client)
    backs = set()
    # Without motion the colours change at once.
    settings: Any = {"viewport": {"width": 390, "height": 800}, "reduced_motion": "reduce"}
    with closing(browser.new_context(**settings)) as context:
        page = context.new_page()
        page.goto(site)
        page.get_by_role("button", name="Theme").click()
        for path in paths:
            page.goto(urljoin(site, path))
            assert page.evaluate(THEME) == "dark"
            assert page.evaluate("document.documentElement.scrollWidth") == 390, path
            page.set_viewport_size({"width": 768, "height": 800})
            assert page.evaluate(CUT_OFF) == [], path
            page.set_viewport_size({"width": 390, "height": 800})
            for theme in ("dark", "light"):
                page.evaluate(f"{THEME} = '{theme}'")
                found = page.evaluate(CONTRASTS)
                assert len(found) > 5
                assert [each for each in found if each[0] < 4.5] == []
                backs.add(page.evaluate(BACK))
        page.goto(site)
        page.get_by_role("button", name="Theme").click()
        page.goto(urljoin(site, paths[-1]))
        assert page.evaluate(THEME) == "light"
    assert len(backs) == 2
    for scheme in ("dark", "light"):
        with closing(browser.new_context(color_scheme=scheme)) as context:
            page = context.new_page()
            page.goto(site)
            assert page.evaluate(BACK) in backs


#: Widths of a phone, of a laptop and of a large screen, in pixels.
WIDTHS = (390, 1280, 1920)


@pytest.mark.parametrize(
    "everything",
    [False, pytest.param(True, marks=[pytest.mark.campaign, pytest.mark.timeout(900)])],
    ids=["some", "all"],
)
def test_axe_finds_no_violation_on_any_page(
    browser: Browser,
    operating: str,
    stock: Stock,
    plain_client: redis.Redis,
    everything: bool,
) -> None:
    """In both themes and three widths; in the ordinary run, each page in one of the six ways."""
    ways = [(theme, width) for theme in ("dark", "light") for width in WIDTHS]
    settings: Any = {"reduced_motion": "reduce"}
    found = []
    with closing(browser.new_context(**settings)) as context:
        page = context.new_page()
        for number, path in enumerate(kinds_of_pages(stock, plain_client)):
            page.goto(urljoin(operating, path))
            for theme, width in ways if everything else [ways[number % len(ways)]]:
                page.set_viewport_size({"width": width, "height": 900})
                page.evaluate(f"{THEME} = '{theme}'")
                for violation in Axe().run(page).response["violations"]:
                    nodes = [node["html"][:120] for node in violation["nodes"]]
                    found.append((path, theme, width, violation["id"], nodes))
    assert found == []


def test_lists_without_figures_of_their_own_are_kept_fresh(
    context: BrowserContext,
    operating: str,
    stock: Stock,
    plain_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(renderer, "REFRESH", 0.05)
    monkeypatch.setattr(watcher, "MIN_INTERVAL", 0.02)
    page = context.new_page()
    with Queue(plain_client, stock.jobs) as queue:
        page.goto(urljoin(operating, f"dead?{urlencode({'name': stock.jobs})}"))
        page.evaluate("window.kept = true")
        title, rows = page.locator("h1"), page.locator("tbody tr")
        expect(title).to_have_text("2 dead letters")
        queue.reject(*queue.pop_many(1))
        expect(title).to_have_text("3 dead letters")
        expect(rows).to_have_count(3)
        rows.locator("input").first.check()
        queue.reject(*queue.pop_many(1))
        page.wait_for_timeout(200)  # ms, four times as long as between two readings
        expect(title).to_have_text("3 dead letters")  # nothing is exchanged below a choice
        rows.locator("input").first.uncheck()
        page.evaluate("document.activeElement.blur()")
        expect(title).to_have_text("4 dead letters")
        page.goto(urljoin(operating, "workers"))
        expect(page.locator("tbody tr")).to_have_count(1)
        page.evaluate("window.kept = true")
        queue.execute(lambda spec: leave(spec, HOSTILE))
        expect(page.locator("main")).to_contain_text("No ackq worker is running.")
        assert page.evaluate("window.kept")


def test_the_page_works_without_its_script(browser: Browser, site: str, stock: Stock) -> None:
    with closing(browser.new_context(java_script_enabled=False)) as context:
        page = context.new_page()
        page.goto(site)
        page.get_by_label("Search names").fill("due")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name="due").click()
        page.get_by_role("link", name="Delayed").click()
        assert f"later{HOSTILE}" in page.inner_text("main")
