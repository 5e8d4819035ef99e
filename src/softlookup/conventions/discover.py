"""Find the conventions of this folder by file name: adding one is adding one file, see ``spelling``."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor

from softlookup.conventions.spelling import Arguments, Reading, Sizes, Takes, Writer
from softlookup.terms import SoftlookupError, did_you_mean

_PART = re.compile(r"^(In its words|Lost when written|Lost when read):\s*", re.M)


@dataclass(frozen=True, eq=False)
class Convention:
    """One file of this folder, with what it leaves out filled in."""

    file: str
    name: str
    also: tuple[str, ...]
    words: str
    page: str
    call: str
    takes: tuple[Takes, ...]
    needs: tuple[str, ...]
    read: Callable[[Arguments, Sizes], Reading]
    forms: dict[str, Writer]
    run: Callable[[Tensor, Tensor, Tensor, Arguments], Tensor] | None
    causal: Arguments | None
    window: tuple[Arguments, str] | None

    @property
    def installed(self) -> bool:
        """Say whether the real library can be called here."""
        return self.run is not None and all(find_spec(package) is not None for package in self.needs)

    def part(self, title: str) -> str:
        """Return the paragraphs of the page that start with ``title:``, on one line."""
        pieces = _PART.split(self.page)
        found = dict(zip(pieces[1::2], pieces[2::2], strict=True)).get(title, "")
        return " ".join(found.split())

    @property
    def drawing(self) -> str:
        """The drawing of the page."""
        first = self.page.partition("\n\n")[2].partition("\n\n")[0]
        return inspect.cleandoc("\n" + first)


@lru_cache
def conventions() -> tuple[Convention, ...]:
    """Return every convention, in the order of the files."""
    here = Path(__file__).parent
    return tuple(_loaded(path.stem) for path in sorted(here.glob("[a-z]*.py")) if _defines(path, "NAME"))


def convention_names() -> list[str]:
    """Return the names of all conventions.

    >>> "nn.MultiheadAttention" in convention_names()
    True
    """
    return [it.name for it in conventions()]


def find_convention(name: str) -> tuple[Convention, str | None]:
    """Return the convention with this name, and the form that stands behind it in brackets.

    Raises: SoftlookupError when there is none, or it has no such form.

    >>> convention, form = find_convention("sdpa[additive]")
    >>> convention.name, form
    ('F.scaled_dot_product_attention', 'additive')
    """
    wanted, _, form = str(name).strip().removesuffix("]").partition("[")
    known = {spelled.casefold(): it for it in conventions() for spelled in (it.name, *it.also, it.file)}
    found = known.get(wanted.strip().casefold())
    if found is None:
        raise SoftlookupError(
            f"masks: no convention is called {name!r}.",
            expected=", ".join(convention_names()),
            got=repr(name),
            hint=did_you_mean(wanted.casefold(), known),
        )
    if form and form not in found.forms:
        raise SoftlookupError(
            f"masks: {found.name} has no form {form!r}.",
            expected=", ".join(f"{found.name}[{it}]" for it in found.forms),
            got=repr(name),
        )
    return found, form or None


def _loaded(stem: str) -> Convention:
    module = import_module(f"softlookup.conventions.{stem}")
    return Convention(
        file=stem,
        name=module.NAME,
        also=getattr(module, "ALSO", ()),
        words=module.WORDS,
        page=inspect.getdoc(module) or "",
        call=module.CALL,
        takes=module.TAKES,
        needs=getattr(module, "NEEDS", ()),
        read=module.read,
        forms=module.FORMS,
        run=getattr(module, "run", None),
        causal=getattr(module, "CAUSAL", None),
        window=getattr(module, "WINDOW", None),
    )


def _defines(path: Path, name: str) -> bool:
    return any(
        isinstance(node, ast.Assign)
        and any(isinstance(it, ast.Name) and it.id == name for it in node.targets)
        for node in ast.parse(path.read_text("utf-8")).body
    )
