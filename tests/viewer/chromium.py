"""Pages opened in a headless Chromium that is there already."""

import os
import re
import shutil
from contextlib import contextmanager

import pytest

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def executable():
    """The path of a Chromium, or a skip with its reason."""
    pytest.importorskip("playwright", reason="the extra `browser` is not installed")
    path = os.environ.get("SOFTLOOKUP_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium on PATH, and SOFTLOOKUP_CHROMIUM is not set")
    return path


@contextmanager
def browser():
    path = executable()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield launched
        launched.close()


def shows(page, selector, text):
    """Wait until the first such element holds a text, a regular expression.

    The page's policy forbids what `wait_for_function` does, to evaluate a string again and again.
    """
    page.locator(selector).first.filter(has_text=re.compile(text)).wait_for(state="attached")


class Opened:
    """A page that is open, with all it said and asked for."""

    def __init__(self, launched, file, *, width=1280, height=900, scheme="light"):
        self.page = launched.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.said, self.requests, self.file = [], [], file
        self.page.on("console", lambda it: self.said.append(it.text))
        self.page.on("pageerror", lambda it: self.said.append(str(it)))
        self.page.on("request", lambda it: self.requests.append(it.url))
        self.page.on("dialog", lambda it: (self.said.append(f"dialog {it.message}"), it.dismiss()))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("body[data-ready]", timeout=20_000)

    def text(self, selector):
        self.drawn()
        return self.page.locator(selector).first.inner_text()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
            self.drawn()

    def drawn(self):
        """Wait for two frames: what is drawn waits for the next one."""
        self.page.evaluate(
            "() => new Promise((it) => requestAnimationFrame(() => requestAnimationFrame(it)))"
        )

    def close(self):
        """Close it; nothing was said on the console, and nothing was asked for but the file."""
        self.page.close()
        assert self.said == []
        assert self.requests == [self.file.as_uri()]
