"""The forms of a report that are one text; the form for people in a terminal is drawn by ``terminal``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from softlookup.terms import FileReport

#: Every form by its name on the command line, the one for people first.
FORMS = ("text", "json", "sarif", "github", "html")


def render(
    form: str,
    reports: Sequence[FileReport],
    sources: Mapping[str, str],
    *,
    root: str = "",
    several: bool = False,
    ignored: int = 0,
) -> str:
    """Return the reports as one text in any form but "text".

    sources: file -> its text
    root: the folder that paths are to be seen from
    several: a list is expected, however many files could be checked
    ignored: how many findings were left out because the user asked for it
    """
    # Each imports what it needs, and one form is enough.
    if form == "json":
        from softlookup.report import as_json

        return as_json.render(reports, several=several)
    if form == "sarif":
        from softlookup.report import as_sarif

        return as_sarif.render(reports, sources, root)
    if form == "github":
        from softlookup.report import as_github

        return as_github.render(reports, root)
    from softlookup.report import as_html

    return as_html.render(reports, sources, ignored)
