"""Write the pages of the lints: what each one says, and what they find in the sources of real packages.

    python scripts/write_lint_docs.py                            write both pages
    python scripts/write_lint_docs.py --check                    only say whether a page has drifted
    python scripts/write_lint_docs.py measure FOLDER [UNSEEN]    lint what lies there first

The folders hold unpacked wheels and source archives under the names they have on the index, UNSEEN those that
nobody had looked at while the lints were written. A hit is known again by its package, file, lint and line of
source. A new hit has no verdict until somebody has read it in its context and put ``true`` (right) or
``false`` (wrong) with one sentence into the file of verdicts.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from softlookup.file_search import Exclusion
from softlookup.lint.discover import Lint, lints
from softlookup.lint.running import LintedFile, lint_files, python_files

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
VERDICTS = REFERENCE / "lint-on-real-packages.json"
GENERATED = (
    "<!-- Written by scripts/write_lint_docs.py. Edit the code or the verdicts that it comes from. -->"
)
_ARCHIVE = re.compile(r"(?P<name>.+?)-(?P<version>\d[^-]*?)(?:-[^/]*\.whl|\.tar\.gz|\.zip)")
_KNOWN_BY = ("package", "file", "lint", "source")


def measure(folders: Sequence[Path]) -> dict[str, Any]:
    """Lint every package in the folders, of which the second is unseen; keep the verdicts of known hits."""
    before_this = _read()
    known = {_key(hit): hit for hit in before_this["hits"]}
    packages: dict[str, dict[str, Any]] = {}
    hits: list[dict[str, Any]] = []
    places = [(place, folder is not folders[0]) for folder in folders for place in folder.iterdir()]
    for place, unseen in sorted(places, key=lambda it: it[0].name.lower()):
        archive = _ARCHIVE.fullmatch(place.name)
        files = list(python_files(str(place), Exclusion())) if archive else []
        if archive is None or not files:
            continue
        linted = lint_files(files, lints())
        packages[archive["name"]] = {
            "version": archive["version"],
            "files": len(files),
            "skipped": sum(bool(it.skipped) for it in linted),
            "unseen": unseen,
        }
        for it in linted:
            for hit in _hits(it, archive["name"], place):
                before = known.get(_key(hit), {})
                hits.append(hit | {"right": before.get("right"), "why": before.get("why", "")})
    return {"unseen": before_this["unseen"], "packages": packages, "hits": hits}


def _hits(linted: LintedFile, package: str, place: Path) -> Iterator[dict[str, Any]]:
    lines = Path(linted.file).read_text(encoding="utf-8", errors="replace").splitlines()
    for found in linted.found:
        yield {
            "package": package,
            "file": Path(linted.file).relative_to(place).as_posix(),
            "line": found.line,
            "lint": found.lint,
            "source": lines[found.line - 1].strip(),
        }


def documents(verdicts: dict[str, Any]) -> dict[Path, str]:
    """Return every page with the text that it should have."""
    return {
        REFERENCE / "lint.md": lints_page(verdicts["hits"]),
        REFERENCE / "lint-on-real-packages.md": packages_page(verdicts),
    }


def lints_page(hits: list[dict[str, Any]]) -> str:
    """Return the page of all lints: each is the docstring of its file, and its figure on real packages."""
    lines = [
        "# Lints",
        "",
        GENERATED,
        "",
        "One lint is one file in `src/softlookup/lint/rules/`. Its code is the rule whose bug it points at:",
        "`softlookup explain CODE` says what that bug does. [How to use them](../how-to/lint.md), and",
        "[what they find in real packages](lint-on-real-packages.md).",
    ]
    for lint in lints():
        right, of = precision(lint, hits)
        figure = (
            f"{right} of {of} hits right{_percent(right, of)}" if of else "no hit, so no false alarm either"
        )
        lines += ["", f"## {lint.code} {lint.name}", "", lint.summary, "", *_parts(lint)]
        lines += [f"**On real packages:** {figure}. {'On' if lint.by_default else 'Off'} by default."]
    return "\n".join(lines) + "\n"


def _parts(lint: Lint) -> Iterator[str]:
    for title in ("Missed because", "Fix", "Seen in"):
        words = re.sub(r"(https?://[^\s,]+)", r"<\1>", lint.part(title))
        yield from (f"**{title}:** {words}", "")


def packages_page(verdicts: dict[str, Any]) -> str:
    """Return the page of the hits on real packages: figures first, then every hit."""
    packages, hits = verdicts["packages"], verdicts["hits"]
    files = sum(it["files"] for it in packages.values())
    right = sum(hit["right"] is True for hit in hits)
    lines = [
        "# The lints on real packages",
        "",
        GENERATED,
        "",
        _paragraph(
            f"Every lint was run over {files:,} Python files of {len(packages)} packages from",
            "the index, tests left",
            f"out, and every hit was read in its context. {right} of {len(hits)} hits are right",
            f"{_percent(right, len(hits))}.",
            "A lint that is on by default has to be right in 9 of 10 hits. One without a hit",
            "is on because it raised",
            "no false alarm in these files, and finds what `tests/lint/` writes out. The",
            "tests also run all lints on",
            "public reports written afresh (`tests/wild/`), where they must point at the line, and on right",
            "implementations (`tests/right/`, `tests/right_modules/`), where none may speak.",
        ),
        "",
        _paragraph(
            "Right means that the line does what the lint says, and that this is not what it",
            "is there for. Whether it",
            "bites depends on the rest: a rate of 0 drops nothing. Where it cannot bite, the",
            "sentence says so.",
        ),
        "",
        _paragraph(*_unseen(verdicts)),
        "",
        "| lint | hits | right | by default |",
        "|---|---|---|---|",
        *(_row(lint, hits) for lint in lints()),
        "",
        "## Every hit",
        *_sections(hits),
        "",
        "## The packages",
        "",
        _paragraph(", ".join(f"{name} {it['version']}{_mark(it)}" for name, it in packages.items()) + "."),
        "",
        "\\* read afterwards",
    ]
    return "\n".join(lines) + "\n"


def _unseen(verdicts: dict[str, Any]) -> Iterator[str]:
    packages = verdicts["packages"]
    names = {name for name, it in packages.items() if it["unseen"]}
    files = sum(packages[name]["files"] for name in names)
    first = verdicts["unseen"]
    yield f"{len(packages) - len(names)} of the packages were at hand while the lints were written. The other"
    yield f"{len(names)} ({files:,} files) were read afterwards: {first['right']} of"
    yield f"{first['hits']} hits were right"
    yield f"{_percent(first['right'], first['hits'])}. {first['changed']} The figures below"
    yield "are those after that."


def _paragraph(*sentences: str) -> str:
    return textwrap.fill(" ".join(it.strip() for it in sentences), 110, break_on_hyphens=False)


def precision(lint: Lint, hits: list[dict[str, Any]]) -> tuple[int, int]:
    """Return how many hits of a lint are right, and how many there are."""
    own = [hit for hit in hits if hit["lint"] == lint.name]
    return sum(hit["right"] is True for hit in own), len(own)


def _row(lint: Lint, hits: list[dict[str, Any]]) -> str:
    right, all_of_them = precision(lint, hits)
    figure = f"{right}{_percent(right, all_of_them)}" if all_of_them else "-"
    return f"| {lint.code} {lint.name} | {all_of_them} | {figure} | {_state(lint)} |"


def _mark(package: dict[str, Any]) -> str:
    return r"\*" if package["unseen"] else ""


def _state(lint: Lint) -> str:
    return "on" if lint.by_default else "off"


def _sections(hits: list[dict[str, Any]]) -> Iterator[str]:
    for lint in lints():
        own = [hit for hit in hits if hit["lint"] == lint.name]
        if not own:
            continue
        yield from ("", f"### {lint.code} {lint.name}", "", lint.summary, "")
        yield from ("| where | verdict | why |", "|---|---|---|")
        for hit in own:
            verdict = {True: "right", False: "wrong", None: "not read"}[hit["right"]]
            yield f"| {hit['package']}: `{hit['file']}:{hit['line']}` | {verdict} | {hit['why']} |"


def _percent(right: int, of: int) -> str:
    return f" ({100 * right / of:.0f} %)" if of else ""


def _key(hit: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(hit[name]) for name in _KNOWN_BY)


def _read() -> dict[str, Any]:
    verdicts: dict[str, Any] = json.loads(VERDICTS.read_text(encoding="utf-8"))
    return verdicts


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check say which have drifted; a hit without a verdict is status 1 too."""
    if arguments[:1] == ["measure"]:
        VERDICTS.write_text(
            json.dumps(measure([Path(it) for it in arguments[1:]]), indent=1) + "\n", encoding="utf-8"
        )
    verdicts = _read()
    drifted = [path for path, text in documents(verdicts).items() if not _holds(path, text)]
    if "--check" not in arguments:
        for path in drifted:
            path.write_text(documents(verdicts)[path], encoding="utf-8")
    unread = [hit for hit in verdicts["hits"] if hit["right"] is None]
    for hit in unread:
        print(f"not read yet: {hit['package']} {hit['file']}:{hit['line']} {hit['lint']}: {hit['source']}")
    for path in drifted:
        print("drifted:" if "--check" in arguments else "wrote", path.name)
    return 1 if unread or (drifted and "--check" in arguments) else 0


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
