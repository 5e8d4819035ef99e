"""Which questions come next: those that were missed soon, those that were known after ever longer pauses.

The boxes are those of S. Leitner, "So lernt man lernen" (1972): a right answer moves a question on by one
box, a wrong one back to the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from softlookup.learn.progress import Card, Progress
from softlookup.learn.quiz.question import Question

#: Days until a question of this box is asked again.
PAUSES = (0, 1, 3, 7, 14, 30)


def chosen(questions: Sequence[Question], progress: Progress, number: int, today: date) -> list[Question]:
    """Return what to ask: what is due, the longest overdue first, then what is new, then what is due next."""

    def rank(question: Question) -> tuple[int, str]:
        card = progress.cards.get(question.name)
        if card is None or not (card.right or card.wrong):
            return 1, ""
        return (0 if card.due <= today.isoformat() else 2), card.due

    return sorted(questions, key=rank)[:number]


def answered(card: Card, right: bool, today: date) -> None:
    """Move a card on, or back to the first box."""
    card.right += right
    card.wrong += not right
    card.box = min(card.box + 1, len(PAUSES) - 1) if right else 0
    card.due = (today + timedelta(days=PAUSES[card.box])).isoformat()
