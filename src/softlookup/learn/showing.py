"""What a learner reads: a judgement, an exercise, the way through the lessons. Never the answer."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from softlookup.learn.exercise import NOT_WRITTEN, Exercise, all_exercises
from softlookup.learn.judgement import Judgement, Remark
from softlookup.learn.lessons import LESSONS
from softlookup.learn.place import Place
from softlookup.report.finding_parts import pairs
from softlookup.report.plain_words import count, printable
from softlookup.report.terminal import Beside, Excerpt
from softlookup.terms import Finding

#: Evidence that is drawn, or that would tell the answer.
_NOT_IN_WORDS = {"case", "shown", "allowed", "weights", "output", "probe", "alternatives", "failing_probes"}
_STATES = {"solved": "[x]", "wrong": "[!]", "not written": "[ ]"}


def judgement_renderable(judgement: Judgement, exercise: Exercise, source: str) -> RenderableType:
    """Return what is said of one file; ``source`` is its text, for the excerpts."""
    words, style = {
        "solved": ("solved", "bold green"),
        "wrong": ("not yet", "bold red"),
        "not written": ("to be written", "bold yellow"),
    }[judgement.state]
    head = Text.assemble(
        (f"{exercise.place} {exercise.title}", "bold"), "  ", (words, style), (f"  {judgement.file}", "dim")
    )
    parts: list[RenderableType] = [head]
    parts += [_indented(Text(f"ok  {held}", style="green")) for held in judgement.held]
    for remark in judgement.remarks:
        parts += [Text(""), _indented(_remark(remark, source.splitlines()))]
    if any(remark.finding.name == NOT_WRITTEN for remark in judgement.remarks):
        parts += [Text(""), _indented(Text(exercise.goal))]
    return Group(*parts)


def _remark(remark: Remark, lines: list[str]) -> RenderableType:
    finding = remark.finding
    parts: list[RenderableType] = []
    if remark.veiled:
        parts.append(Text("Something is wrong in this code. Which rule is it?", style="bold"))
    else:
        parts += [_head(finding), Text(printable(finding.summary))]
        if finding.line and finding.line <= len(lines):
            parts += [Text(""), _indented(Excerpt(lines, finding.line))]
    for pair in pairs(finding.evidence):
        drawing = Group(Text(printable(pair.title), style="dim"), Beside(pair))
        parts += [Text(""), _indented(drawing)]
    if not remark.veiled:
        parts += [
            Text(f"{key.replace('_', ' ')}: {printable(str(value))}")
            for key, value in finding.evidence.items()
            if key not in _NOT_IN_WORDS
        ]
    if remark.question and finding.name != NOT_WRITTEN:
        parts += [Text(""), Text(f"Think: {remark.question}", style="italic")]
    return Group(*parts)


def _head(finding: Finding) -> Text:
    code = f"{finding.code} " if finding.code else ""
    head = Text.assemble((code, "bold red"), (finding.name, "bold"))
    if finding.line:
        head.append(f"  line {finding.line}")
    return head


def exercise_renderable(exercise: Exercise, file: str) -> RenderableType:
    """Return what an exercise asks for."""
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column("label", style="dim", no_wrap=True)
    table.add_column("words", overflow="fold")
    table.add_row("file", file)
    table.add_row("goal", Text(exercise.goal))
    table.add_row("checks", Text(exercise.checks))
    head = Text(f"{exercise.place} {exercise.title}", style="bold")
    return Group(head, Padding(table, (0, 0, 0, 2)))


def way_renderable(place: Place) -> RenderableType:
    """Return all lessons with what is solved, and what is next."""
    parts: list[RenderableType] = []
    current = place.current()
    for lesson in LESSONS:
        its = [it for it in all_exercises() if it.lesson == lesson]
        states = [place.progress.of(it.name).state for it in its]
        solved = states.count("solved")
        parts.append(
            Text.assemble((f"{lesson.number} {lesson.title}", "bold"), (f"  {solved} of {len(its)}", "dim"))
        )
        for exercise, state in zip(its, states, strict=True):
            arrow = "  <- you are here" if exercise == current else ""
            parts.append(Text(f"  {_STATES[state]} {exercise.place} {exercise.title}{arrow}"))
    parts.append(Text(""))
    if current is None:
        parts.append(Text("All exercises are solved. `softlookup learn quiz` asks what has stayed."))
        return Group(*parts)
    parts += [exercise_renderable(current, place.shown(current)), Text("")]
    parts.append(
        Text("Write in the file, then `softlookup learn check`. Stuck? `softlookup learn hint`.", style="dim")
    )
    return Group(*parts)


def progress_renderable(place: Place) -> RenderableType:
    """Return a table: how often each exercise was tried, what was met, and how the quiz stands."""
    table = Table(box=None, pad_edge=False)
    for title in ("exercise", "state", "tries", "hints", "mistakes met"):
        table.add_column(title, overflow="fold")
    for exercise in all_exercises():
        record = place.progress.of(exercise.name)
        state = f"{record.state}{', solution seen' if record.solution_shown else ''}"
        met = ", ".join(name for name in record.met if name != NOT_WRITTEN)
        table.add_row(
            f"{exercise.place} {exercise.name}", state, str(record.tries), str(record.hints), Text(met)
        )
    cards = [card for card in place.progress.cards.values() if card.right or card.wrong]
    right = sum(card.right for card in cards)
    asked = right + sum(card.wrong for card in cards)
    words = f"quiz: {right} of {count(asked, 'answer')} right" if asked else "quiz: not asked yet"
    return Group(table, Text(""), Text(words))


def hint_renderable(exercise: Exercise, shown: int) -> RenderableType:
    """Return the hints up to the number ``shown``."""
    hints: Sequence[str] = exercise.hints
    lines = [Text(f"hint {i} of {len(hints)}: {hint}") for i, hint in enumerate(hints[:shown], 1)]
    return Group(Text(f"{exercise.place} {exercise.title}", style="bold"), *(_indented(it) for it in lines))


def _indented(renderable: RenderableType) -> Padding:
    return Padding(renderable, (0, 0, 0, 2))
