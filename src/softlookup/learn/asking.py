"""Ask questions in a terminal. Every answer is written down at once."""

from __future__ import annotations

import random
from datetime import date
from string import ascii_lowercase

import click

from softlookup.learn.progress import Progress
from softlookup.learn.quiz.question import Question, all_questions
from softlookup.learn.repetition import answered, chosen
from softlookup.report.plain_words import count


def ask(progress: Progress, lesson: int | None, number: int) -> None:
    """Ask so many questions, of one lesson or of all; the ones that are missed come once more at the end."""
    today = date.today()
    asked = [it for it in all_questions() if lesson in (None, it.lesson)]
    waiting = chosen(asked, progress, number, today)
    first, missed = len(waiting), []
    for position, question in enumerate(waiting, 1):
        click.echo(f"\n{position} of {first}  (lesson {question.lesson})")
        right = _ask_one(question)
        answered(progress.card(question.name), right, today)
        progress.write()
        if not right:
            missed.append(question)
    click.echo(f"\n{first - len(missed)} of {count(first, 'answer')} right.")
    if missed:
        click.echo("Once more, what was missed:")
    for question in missed:
        _ask_one(question)  # it stays in the first box: tomorrow is soon enough to count it as known


def _ask_one(question: Question) -> bool:
    """Ask, say why the answer is right or wrong, and return which it was."""
    choices = random.sample(question.choices, len(question.choices))
    letters = ascii_lowercase[: len(choices)]
    click.echo(click.wrap_text(question.text, width=80))
    for letter, choice in zip(letters, choices, strict=True):
        indent = " " * 4
        click.echo(
            click.wrap_text(f"{letter}) {choice.text}", 80, initial_indent="  ", subsequent_indent=indent)
        )
    picked = click.prompt("Your answer", type=click.Choice(list(letters), case_sensitive=False))
    choice = choices[letters.index(picked.lower())]
    right = choice == question.right
    click.echo(click.wrap_text(f"{'Right' if right else 'No'}. {choice.why}", 80))
    if not right:
        click.echo(click.wrap_text(f"It is: {question.right.text} {question.right.why}", 80))
    return right
