"""How large is the page of a view, how long does it take to write it, and until it can be used in Chromium?

    pip install playwright                    and a Chromium: its path in SOFTLOOKUP_CHROMIUM, or on PATH
    python benchmarks/view_size.py            writes benchmarks/results/view_size.json

"dense": random scores, every key visible, the worst case, as nothing in it can be packed. "causal": half of
it is hidden. 65,536: 12 heads of width 64, causal, recorded; maps are pooled, of as many queries as the page
says. Written: from tensors, or queries and keys, to the file. Usable: from opening the file until the
overview, the map and the row are drawn; and then from a key that chooses another head until its map is drawn.
"load_before" says how busy the machine was: beside others' work, the processor's seconds count.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import turns

from softlookup import view
from softlookup.live.problem import from_products
from softlookup.live.record import Call
from softlookup.masks import causal
from softlookup.recording import RecordedCall, Recording

ROUNDS = 5
_ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_NEXT_HEAD = """async () => {
  const title = document.getElementById("head-title");
  const before = title.textContent;
  const start = performance.now();
  document.querySelector("#grid .tile[tabindex='0']").dispatchEvent(
    new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  while (title.textContent === before) await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""


def weights(*shape: int, hide_later: bool) -> torch.Tensor:
    """Return the softmax of random scores."""
    scores = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    if hide_later:
        scores.masked_fill_(~torch.ones(shape[-2:], dtype=torch.bool).tril(), float("-inf"))
    return scores.softmax(dim=-1)


def long_recording(length: int, heads: int = 12) -> Recording:
    """Return a recording as ``record_attention`` makes it; the forward, minutes on a CPU, is left out."""
    draw = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, heads, length, 64, generator=draw) for _ in range(2))
    call = Call(0, "attn", 0, "sdpa", "self", False, 1, heads, heads, length, length)
    return Recording((RecordedCall(call, None, None, from_products(q, k, causal())),), None)


def cases() -> dict[str, Callable[[], Any]]:
    """Return what is viewed, by name."""
    return {
        "12 layers x 12 heads x 128, dense": lambda: weights(12, 12, 128, 128, hide_later=False),
        "12 layers x 12 heads x 128, causal": lambda: weights(12, 12, 128, 128, hide_later=True),
        "12 heads x 1,024, dense": lambda: weights(12, 1024, 1024, hide_later=False),
        "12 heads x 1,024, causal": lambda: weights(12, 1024, 1024, hide_later=True),
        "12 heads x 65,536, causal": lambda: long_recording(65_536),
    }


def in_chromium(page: Path) -> dict[str, float]:
    """Return milliseconds until a page can be used, and until another head is drawn: medians."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("SOFTLOOKUP_CHROMIUM") or shutil.which("chromium")
    opened, turned = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        for _ in range(ROUNDS):
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.goto(page.as_uri())
            tab.wait_for_selector("body[data-ready]")
            opened.append(tab.evaluate("performance.getEntriesByName('softlookup-ready')[0].startTime"))
            turned.append(tab.evaluate(_NEXT_HEAD))
            tab.close()
        browser.close()
    return {"usable_ms": round(statistics.median(opened)), "next_head_ms": round(statistics.median(turned))}


def measured(make: Callable[[], Any], browser: bool) -> dict[str, Any]:
    """Return the size of a page and the times."""
    what = make()
    tokens = None if isinstance(what, Recording) else [f" word{i % 40}" for i in range(what.shape[-1])]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        seconds, on_cpu = [], []
        for _ in range(ROUNDS):
            start, cpu = time.perf_counter(), time.process_time()
            shown = view(what, tokens=tokens, to=page)
            seconds.append(time.perf_counter() - start)
            on_cpu.append(time.process_time() - cpu)
        found = {"shown": shown.words, "mb": round(page.stat().st_size / 1e6, 2)}
        found |= {"write_s": turns.spread(seconds, 2), "write_cpu_s": turns.spread(on_cpu, 2)}
        return found | (in_chromium(page) if browser else {})


def main() -> None:
    """Measure all cases, print them, and write them down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-browser", action="store_true")
    browser = not parser.parse_args().no_browser
    torch.set_num_threads(1)
    machine, results = turns.machine(), {}
    for name, make in cases().items():
        results[name] = measured(make, browser)
        print(name, json.dumps(results[name]))
    turns.write({"machine": machine, "found": results}, turns.RESULTS / "view_size.json")


if __name__ == "__main__":
    main()
