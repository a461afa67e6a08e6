"""The report in a real browser: it is quiet, fits, filters, finds, copies and prints, for the eye and without it."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sample_record as sample
import shown_runs
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from sample_night import night

from reports.compare import Change, Changes
from reports.history import Trend
from reports.model import CaseIndex, Run
from reports.page import render
from reports.record import read
from reports.replay import replay_command

REPORTS = ("green", "forty", "crashed", "merged", "nights")
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_TAGS = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
_RULES = {"light": _TAGS, "dark": {"type": "rule", "values": ["color-contrast"]}}
"""In the dark nothing but the colours is another."""
# A picture is an image with a name; of its thousands of lines there is nothing to say.
_PARTS = {"exclude": [["svg > *"]]}
_SECONDS = 15
KEYSTROKE = 50
"""Milliseconds that no one feels."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not path:
        pytest.fail("no browser: apt-get install chromium, or name one in CHROMIUM", pytrace=False)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield launched
        launched.close()


def _runs(folder: Path, *records: list[sample.Line], rest: str = "") -> tuple[Run, ...]:
    return read([sample.write(folder / f"r{n}.jsonl", lines, rest) for n, lines in enumerate(records)])


def _with_nights(folder: Path) -> str:
    nights = shown_runs.nights(night(folder))
    changes = Changes(nights[-1], (Change("error over bound", "ROT-Q: 0.41 before, 0.93 now", "regression"),))
    trends = [Trend(nights[0].identity, nights)]
    return render(_runs(folder, shown_runs.green()), changes=[changes], trends=trends)


_BUILT: dict[str, Callable[[Path], str]] = {
    "green": lambda folder: render(_runs(folder, shown_runs.green())),
    "forty": lambda folder: render(_runs(folder, shown_runs.forty())),
    "crashed": lambda folder: render(_runs(folder, shown_runs.crashed(), rest='{"kind": "ca')),
    "merged": lambda folder: render(_runs(folder, *shown_runs.two_targets())),
    "nights": _with_nights,
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The address of a report, which is built when it is first asked for."""

    @functools.cache
    def built(name: str) -> str:
        folder = tmp_path_factory.mktemp(name)
        return write(folder, _BUILT[name](folder))

    return built


def write(folder: Path, html: str) -> str:
    path = folder / "index.html"
    path.write_text(html, encoding="utf-8", errors="replace")
    return path.as_uri()


@contextmanager
def opened(browser: Browser, address: str, width: int = 1280, **context: object) -> Iterator[Page]:
    """A page that has said nothing to the console and asked for nothing but itself."""
    made: BrowserContext = browser.new_context(viewport={"width": width, "height": 900}, **context)  # type: ignore[arg-type]
    page = made.new_page()
    page.set_default_timeout(_SECONDS * 1000)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    assert said == []
    assert [url for url in asked if not url.startswith(("blob:", "data:"))] == [address.partition("#")[0]]
    made.close()


@pytest.mark.parametrize("name", REPORTS)
def test_it_fits_the_screen(browser: Browser, report: Callable[[str], str], name: str) -> None:
    for width in WIDTHS:
        with opened(browser, report(name), width) as page:
            assert page.evaluate("document.documentElement.scrollWidth") == width
            page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
            assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("name", REPORTS)
def test_labels_and_contrast(browser: Browser, report: Callable[[str], str], name: str) -> None:
    with opened(browser, report(name)) as page:
        page.locator("#search").get_by_label("Search").fill("seed=11")
        if name == "merged":
            # Forty findings are looked at in their own report.
            page.locator("#filter").get_by_label("Search").fill("ROT")
        expect(page.locator("#hits tbody tr").first).to_be_visible()
        page.evaluate(
            "for (const details of document.querySelectorAll('.card details, tr details')) details.open = true"
        )
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            options = {"runOnly": _RULES[scheme], "resultTypes": ["violations"]}
            found = Axe().run(page, context=_PARTS, options=options).response["violations"]
            assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []


@pytest.mark.parametrize("name", REPORTS)
def test_links_lead_somewhere(browser: Browser, report: Callable[[str], str], name: str) -> None:
    with opened(browser, report(name)) as page:
        links = page.eval_on_selector_all("a", "links => links.map(link => link.getAttribute('href'))")
        assert "#requirements" in links
        assert all(link.startswith("#") for link in links)
        lost = page.evaluate("links => links.filter(link => !document.getElementById(link.slice(1)))", links)
        assert lost == []


def test_a_verdict_leads_to_its_findings(browser: Browser, report: Callable[[str], str]) -> None:
    with opened(browser, report("forty")) as page:
        verdict = page.locator("#matrix a.badge.fail").first
        verdict.click()
        assert page.url.endswith(verdict.get_attribute("href") or "?")
        expect(page.locator(".group:target")).to_be_in_viewport()


def shown(page: Page, selector: str) -> int:
    return page.locator(f"{selector}:not([hidden])").count()


def test_requirements_and_findings_are_filtered(browser: Browser, report: Callable[[str], str]) -> None:
    with opened(browser, report("forty")) as page:
        form, hits = page.locator("#filter"), page.locator("#filter-hits")
        expect(hits).to_have_text("45 requirements, 40 findings")
        form.get_by_label("Search").fill("SLOT-V bfloat16")
        expect(hits).to_have_text(re.compile(r"^0 requirements, \d+ findings?$"))
        assert 0 < shown(page, "article") < 40
        assert "SLOT-V" in page.locator("article:visible").first.get_attribute("data-words")  # type: ignore[operator]
        assert shown(page, "#matrix tbody") == 0
        form.get_by_label("Search").fill("nothing says this")
        expect(page.get_by_text("No requirement and no finding passes")).to_be_visible()
        form.get_by_role("button", name="Reset").click()
        expect(hits).to_have_text("45 requirements, 40 findings")
        form.get_by_label("Verdict").select_option("finding")
        expect(hits).to_have_text("3 requirements, 3 findings")
        form.get_by_label("Tier").select_option("memory")
        expect(hits).to_have_text("0 requirements, 0 findings")
        form.get_by_label("Verdict").select_option("warn")
        visible = page.locator("article:visible")
        assert visible.evaluate_all("all => all.map(each => each.dataset.tier + each.dataset.verdict)") == [
            "memorywarn"
        ]


def test_one_of_two_targets_is_picked(browser: Browser, report: Callable[[str], str]) -> None:
    with opened(browser, report("merged")) as page:
        target = page.locator("#filter").get_by_label("Target")
        assert target.locator("option").all_inner_texts() == ["any", "host", "my_kernels.py:rope"]
        target.select_option("host")
        expect(page.locator("#filter-hits")).to_have_text("45 requirements, 0 findings")
        target.select_option("my_kernels.py:rope")
        expect(page.locator("#filter-hits")).to_have_text("45 requirements, 40 findings")
        page.locator("#search").get_by_label("Target").select_option("host")
        expect(page.locator("#search-hits")).to_have_text("120 cases")


def test_all_cases_are_searched(browser: Browser, report: Callable[[str], str]) -> None:
    with opened(browser, report("forty")) as page:
        form, hits, rows = page.locator("#search"), page.locator("#search-hits"), page.locator("#hits tbody tr")
        form.get_by_label("Search").fill("BF16  seed=1025")
        expect(hits).to_have_text("1 case")
        assert rows.locator("code").inner_text() == shown_runs.line("bf16", 1025)
        form.get_by_label("Search").fill("seed=77777")
        expect(hits).to_have_text("No case has all of this")
        expect(page.locator("#hits")).to_be_hidden()
        form.get_by_role("button", name="Reset").click()
        expect(hits).to_have_text("160 cases")
        form.get_by_label("Verdict").select_option("warn")
        expect(hits).to_have_text(re.compile(r"^1?\d cases$"))
        assert set(rows.locator(".badge").all_inner_texts()) == {"warn"}
        form.get_by_label("Verdict").select_option("")
        form.get_by_label("Order").select_option("worst first")
        expect(hits).to_have_text("160 cases")
        told = [float(text) for text in rows.locator(".number").all_inner_texts() if text]
        assert told == sorted(told, reverse=True)
        form.get_by_label("Made").select_option("generated")
        expect(hits).to_have_text("No case has all of this")


def pasted(page: Page) -> str:
    """What the clipboard holds after a copy was announced."""
    expect(page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    page.evaluate("document.getElementById('announcement').textContent = ''")
    page.context.grant_permissions(["clipboard-read"])
    clipboard = "Object.getOwnPropertyDescriptor(Navigator.prototype, 'clipboard').get.call(navigator)"
    return str(page.evaluate(f"{clipboard}.readText()"))


@pytest.mark.parametrize("clipboard", [True, False])
def test_commands_are_copied(browser: Browser, report: Callable[[str], str], clipboard: bool) -> None:
    facts = shown_runs.forty()[0]
    with opened(browser, report("forty")) as page:
        if not clipboard:
            page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        article = page.locator("article").nth(4)
        case = article.locator("dd code").inner_text()
        article.get_by_role("button", name="Copy").click()
        assert pasted(page) == replay_command(case, facts)
        page.locator("#search").get_by_label("Search").fill("seed=1025")
        row = page.locator("#hits tbody tr")
        expect(row).to_have_count(1)
        row.get_by_role("button", name="Copy").click()
        assert pasted(page) == replay_command(shown_runs.line("bf16", 1025), facts)


def test_the_keyboard_reaches_everything(browser: Browser, report: Callable[[str], str]) -> None:
    with opened(browser, report("green")) as page:
        page.keyboard.press("Tab")
        skip = page.locator("a.skip")
        expect(skip).to_be_focused()
        expect(skip).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        wanted = ["#filter input", "#filter select", "#matrix summary", "#search input"]
        for _ in range(200):
            page.keyboard.press("Tab")
            if page.evaluate("selector => document.activeElement.matches(selector)", wanted[0]):
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline == "solid", wanted[0]
                wanted.pop(0)
                if not wanted:
                    break
        assert wanted == []
        expect(page.locator("#search-hits")).to_have_text("120 cases")
        summary = page.locator("#matrix summary").first
        summary.focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent").startswith(("Copy", "ERR", "Trigger", "OUT"))
        copy = page.locator("button.copy:visible").first
        copy.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
        expect(copy).to_be_focused()


def test_a_browser_that_cannot_unpack_says_so(browser: Browser, report: Callable[[str], str]) -> None:
    with opened(browser, report("green")) as page:
        page.evaluate("delete globalThis.DecompressionStream")
        page.locator("#search input").focus()
        expect(page.locator("#search-hits")).to_contain_text("it lacks DecompressionStream")


def test_without_script_all_else_is_there(browser: Browser, report: Callable[[str], str]) -> None:
    with opened(browser, report("forty"), java_script_enabled=False) as page:
        expect(page.get_by_text("by its script, which does not run here")).to_be_visible()
        expect(page.locator("article").first).to_be_visible()


def test_paper_shows_what_is_folded(browser: Browser, report: Callable[[str], str]) -> None:
    with opened(browser, report("forty"), color_scheme="dark") as page:
        page.emulate_media(media="print", color_scheme="dark")
        for gone in ("nav", "#filter", "#cases", "button.copy"):
            expect(page.locator(gone).first).to_be_hidden()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open])").count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details[open]").count() == 0
        assert len(page.pdf()) > 10_000


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>"])
def test_what_a_kernel_says_is_text(browser: Browser, tmp_path: Path, text: str) -> None:
    told = sample.finding("ROT-Q", text, where=text, extent=text, looks_like=text)
    facts = {"target": text, "device": text, "shader path": f"{text}.metal"}
    lines = [
        *sample.begun(**facts),
        sample.case(text, told, note=text, test=f"a.py::{text}[{text}]", pools=(sample.pool(text),)),
        sample.finished(f"a.py::{text}[x]", "broken", text=text),
        sample.trouble(where=text, text=text),
    ]
    with opened(browser, write(tmp_path, render(_runs(tmp_path, lines)))) as page:
        assert page.locator("img").count() == 0
        expect(page.locator("h1")).to_contain_text(text)
        expect(page.locator("article")).to_contain_text(text)
        page.locator("#search").get_by_label("Search").fill("alert")
        row = page.locator("#hits tbody tr")
        expect(row).to_contain_text(text)
        row.get_by_role("button", name="Copy").click()
        assert pasted(page) == replay_command(text, lines[0])


def test_a_hundred_thousand_cases_are_searched_without_a_pause(browser: Browser, tmp_path: Path) -> None:
    [run] = _runs(tmp_path, shown_runs.green(9))
    count = 100_000
    lines = tuple(shown_runs.line(("f16", "bf16", "f32")[n % 3], n) for n in range(count))
    index = CaseIndex(lines, ("test_shapes",) * count, ("pass",) * count, (0.5,) * count, (False,) * count)
    address = write(tmp_path, render([replace(run, index=index)]))
    assert (tmp_path / "index.html").stat().st_size < 5_000_000
    with opened(browser, address) as page:
        page.locator("#search input").focus()
        expect(page.locator("#search-hits")).to_have_text("100,000 cases, the first 200 shown")
        pauses = page.evaluate(
            """async (texts) => {
              const box = document.querySelector('#search input'), least = texts.map(() => Infinity);
              for (let again = 0; again < 20; again += 1) {
                for (const [place, text] of texts.entries()) {
                  box.value = text;
                  const began = performance.now();
                  box.dispatchEvent(new Event('input', { bubbles: true }));
                  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
                  least[place] = Math.min(least[place], performance.now() - began);
                }
              }
              return least;
            }""",
            ["b", "bf16", "bf16 D=128", "bf16 D=128 seed=77", "no such", "seed=99999", ""],
        )
        # The least of all tries: the machine may have more to do.
        assert max(pauses) < KEYSTROKE, pauses
        page.locator("#search input").fill("seed=99998")
        expect(page.locator("#search-hits")).to_have_text("1 case")
