"""Documents that are packed into one row do not see each other.

Two documents stand in one row, and position ids start anew with the second: with no mask, and with a mask of
ones. The first one is replaced, and the second one is answered as before. A model that reads packing off the
position ids must keep the documents apart; where a mask of ones switches that off, or the model makes no such
promise, it is noted.
"""

import ast
import inspect
from collections.abc import Iterator

import torch

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import Side, difference, every_row, one_forward
from softlookup.auditing.findings import disagreement
from softlookup.auditing.subject import SAMPLES, Subject

CODES = ("SL120",)
AFTER = ("causality",)


def applies(subject: Subject) -> str:
    """Ask models that are told where each token stands."""
    if not subject.by_token:
        return "it answers for a sample as a whole"
    return "" if subject.call.positions else "it takes no position ids"


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Pack two documents, with and without a mask of ones."""
    leaks = {}
    for ones in (False, True) if subject.call.mask else (False,):
        alone, packed = _sides(subject, ones)
        leaks[ones] = difference(subject, alone, packed)
    gap = leaks[False]
    if gap is not None:
        if not (subject.packed or reads_packing_off_positions(subject)):
            yield Noted("", "position ids that start anew do not keep packed documents apart", "SL120")
            return
        words = "two documents are packed with position ids that start anew, and the first one was replaced"
        yield disagreement(subject, "SL120", words, gap, *_sides(subject, False))
    elif leaks.get(True) is not None:
        words = f"packed documents are kept apart without {subject.call.mask} only, not when all of it is 1"
        yield Noted("", words, "SL120")


def reads_packing_off_positions(subject: Subject) -> bool:
    """Say whether a module of transformers hands the position ids to what makes its causal mask."""
    for module in subject.model.modules():
        try:
            text = inspect.getsource(type(module).forward)
        except (OSError, TypeError):
            continue
        if "create_causal_mask" in text and _hands_positions(ast.parse(inspect.cleandoc("\n" + text))):
            return True
    return False


def _hands_positions(tree: ast.AST) -> bool:
    """Say whether a mask is made with position ids, written as a keyword or in a mapping of keywords."""
    for node in ast.walk(tree):
        keywords = node.keywords if isinstance(node, ast.Call) else []
        if any(it.arg == "position_ids" for it in keywords) and "create_causal_mask(" in ast.unparse(node):
            return True
        if isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if {"attention_mask", "position_ids"} <= keys:
                return True
    return False


def _sides(subject: Subject, ones: bool) -> tuple[Side, Side]:
    """Return the second document behind the first one, and behind another one."""
    first, length = subject.length // 2 - 1, subject.length
    device = subject.tokens.device
    starts = torch.cat([torch.arange(first), torch.arange(length - first)]).to(device).repeat(SAMPLES, 1)
    real = torch.ones(SAMPLES, length, dtype=torch.bool, device=device) if ones else None
    packed = subject.question().but(positions=starts, real=real)
    changed = subject.tokens.clone()
    changed[:, :first] = subject.other_tokens(changed[:, :first])
    rows = every_row(SAMPLES, length, first)
    return one_forward(subject, packed, rows), one_forward(subject, packed.but(tokens=changed), rows)
