"""A text parsed as one Python expression that is never run, and refusals that show the place in it."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

from softlookup.terms import SoftlookupError

EXAMPLE = "causal & padding([5, 3])"
_UNREADABLE = "masks: this mask cannot be read."
_WIDTH = 72  # characters of the text that a refusal shows

# Limits, so that no text makes the parser work long: characters, those beside the numbers of lists, and
# operators and brackets inside each other.
_LONGEST, _MOST_WORDS, _DEEPEST = 200_000, 2_000, 50
_ENTRY_OF_A_LIST = re.compile(r"[\[(,]\s*-?\d+")


class WrittenText:
    """One text, its tree, and what is refused in it.

    >>> WrittenText("a  & b").tree().op
    <ast.BitAnd object at ...>
    """

    def __init__(self, text: Any) -> None:
        if not isinstance(text, str):
            raise SoftlookupError(_UNREADABLE, expected="a text", got=type(text).__name__, hint=repr(EXAMPLE))
        if not text.strip():
            raise SoftlookupError(_UNREADABLE, expected="a mask", got="nothing", hint=EXAMPLE)
        if len(text) > _LONGEST:
            got = f"{len(text):,}"
            raise SoftlookupError(_UNREADABLE, expected=f"at most {_LONGEST:,} characters", got=got)
        if not all(letter.isprintable() or letter.isspace() for letter in text):
            got = ascii(text)[:_WIDTH]
            raise SoftlookupError(_UNREADABLE, expected="characters that can be printed", got=got)
        self.text = " ".join(text.split())

    def tree(self) -> ast.expr:
        """Return the parsed expression, after looking that the text is no trouble for the parser.

        Raises: SoftlookupError when it is no expression, or too deeply nested.
        """
        depths = [0]
        for letter in self.text:
            depths.append(depths[-1] + (letter in "([{") - (letter in ")]}"))
        if max(depths) > _DEEPEST or len(_ENTRY_OF_A_LIST.sub("", self.text)) > _MOST_WORDS:
            raise self._too_deep()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what Python has to say about style, "1if" and the like
                tree = ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            raise self._no_expression(error) from None
        except (RecursionError, MemoryError, ValueError):
            raise self._too_deep() from None
        level: list[ast.AST] = [tree]
        for _ in range(_DEEPEST):
            level = [child for node in level for child in ast.iter_child_nodes(node)]
        if level:
            raise self._too_deep()
        return tree

    def refused(
        self, where: ast.AST | int, doing: str = _UNREADABLE, *, expected: str, got: str = "", hint: str = ""
    ) -> SoftlookupError:
        """Return a refusal that shows the place of a node, or of one character."""
        return self.at(where, SoftlookupError(doing, expected=expected, got=got, hint=hint))

    def at(self, where: ast.AST | int, error: SoftlookupError) -> SoftlookupError:
        """Return a refusal with the place below its first line."""
        start, end = (where, where + 1) if isinstance(where, int) else self._place(where)
        left = max(0, min(start - _WIDTH // 3, len(self.text) - _WIDTH))
        before, after = "..." * (left > 0), "..." * (left + _WIDTH < len(self.text))
        shown = before + self.text[left : left + _WIDTH] + after
        caret = " " * (len(before) + start - left) + "^" * min(max(end - start, 1), _WIDTH - (start - left))
        first, _, rest = str(error).partition("\n")
        return SoftlookupError("\n".join([first, f"  {shown}", f"  {caret}", *rest.splitlines()]))

    def of(self, node: ast.AST) -> str:
        """Return the part of the text that a node was read from."""
        return self.text[slice(*self._place(node))]

    def _place(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node begins and ends: Python counts bytes, we count characters."""
        letters = self.text.encode()
        start, end = (getattr(node, name, None) or 0 for name in ("col_offset", "end_col_offset"))
        return len(letters[:start].decode()), len(letters[:end].decode())

    def _too_deep(self) -> SoftlookupError:
        return SoftlookupError(
            _UNREADABLE,
            expected=f"at most {_DEEPEST} masks and brackets inside each other, {_MOST_WORDS:,} characters "
            "beside the numbers of lists",
            got=self.text[:_WIDTH] + "..." * (len(self.text) > _WIDTH),
            hint="masks can be built and combined in Python: softlookup.masks",
        )

    def _no_expression(self, error: SyntaxError) -> SoftlookupError:
        start = min(error.offset - 1, len(self.text)) if error.offset else len(self.text)
        inside = self.text.count("(", 0, start) > self.text.count(")", 0, start)
        return self.refused(
            start,
            expected="names of masks with & | ~ between them",
            got=error.msg,
            hint='words among the arguments go in quotes: "each side"' if inside else EXAMPLE,
        )
