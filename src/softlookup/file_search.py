"""Find the files of a folder whose text looks like attention, without importing or running any of them.

The test is cheap and generous: what it lets through is then checked for real, and what only looked like
attention is passed over there.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

#: Words without which no file is read further.
_WORTH_READING = re.compile(
    r"attn|attention|attend|sdpa|scaled_dot|softmax|transformer|query|queries|\bqkv\b|\bq\b", re.I
)
_NAME_SAYS_SO = re.compile(r"attn|attention|attend|sdpa", re.I)
_NO_SIZE = r"(?!.*(?:len|length|size|idx|index|mask|block|offset)s?$)"  # q_len is not a query
_QUERIES = re.compile(_NO_SIZE + r"(?:.*_)?(?:w?qs?|qkv|query|queries)(?:_.*)?", re.I)
_KEYS = re.compile(_NO_SIZE + r"(?:.*_)?(?:w?ks?|kv|qkv|key|keys)(?:_.*)?", re.I)
_LAYERS = re.compile(r"MultiheadAttention|Transformer(?:Encoder|Decoder)?(?:Layer)?")  # of torch.nn
_WEIGHS = {"softmax", "log_softmax", "scaled_dot_product_attention"}
_NOT_OURS = {"site-packages", "node_modules"}

HIDDEN, ENVIRONMENT, TESTS = "hidden", "installed packages", "tests"
EXCLUDED = "excluded in pyproject.toml"


@dataclass(frozen=True)
class Search:
    """What a folder holds: the files that look like attention, and what was left out, with the reason."""

    files: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()  # (file or folder, reason)
    without: int = 0  # files that were read and do not look like attention

    def __add__(self, other: Search) -> Search:
        """Return both together."""
        return Search(self.files + other.files, self.left_out + other.left_out, self.without + other.without)


@dataclass(frozen=True)
class Exclusion:
    """Paths that a search passes by: globs, as seen from the folder that holds the configuration."""

    patterns: tuple[str, ...] = ()
    root: str = ""

    def covers(self, path: str) -> bool:
        """Say whether a pattern matches the path or a folder above it; a bare name matches anywhere."""
        seen = PurePosixPath(Path(os.path.relpath(path, self.root or ".")).as_posix())
        names = [it.as_posix() for it in (seen, *seen.parents)]
        return any(
            fnmatchcase(name, pattern.rstrip("/"))
            or fnmatchcase(name.rpartition("/")[2], pattern.rstrip("/"))
            for pattern in self.patterns
            for name in names
        )


def search(folder: str, exclusion: Exclusion = Exclusion()) -> Search:
    """Return the Python files below the folder that look like attention, in order of their paths.

    Left out, each with its reason: what is hidden, installed packages, tests (they call attention, and what
    they define is often wrong on purpose), and what the exclusion covers. The folder itself is searched.
    """
    files: list[str] = []
    left_out: list[tuple[str, str]] = []
    without = 0
    for path in _walk(folder, exclusion, left_out):
        if looks_like_attention(Path(path).read_text(encoding="utf-8", errors="replace")):
            files.append(path)
        else:
            without += 1
    return Search(tuple(files), tuple(left_out), without)


def search_file(path: str, exclusion: Exclusion = Exclusion()) -> Search:
    """Judge one file as a search of the current folder would: by the folders above it, and by its text."""
    seen = PurePosixPath(Path(os.path.relpath(path)).as_posix())
    for part in (seen, *seen.parents):
        reason = why_left_out(part.as_posix(), exclusion) if part.name not in {"", ".."} else None
        if reason:
            return Search((), ((path, reason),))
    if looks_like_attention(Path(path).read_text(encoding="utf-8", errors="replace")):
        return Search((path,))
    return Search((), without=1)


def why_left_out(path: str, exclusion: Exclusion = Exclusion()) -> str | None:
    """Return why a file or folder met in a search is left out, judged by its own name; None when it is not.

    >>> why_left_out("src/.git"), why_left_out("src/test_model.py"), why_left_out("src/model.py")
    ('hidden', 'tests', None)
    """
    name = os.path.basename(path)
    if name.startswith("."):
        return HIDDEN
    if name in _NOT_OURS or os.path.exists(os.path.join(path, "pyvenv.cfg")):
        return ENVIRONMENT
    stem = name.removesuffix(".py")
    if name in {"tests", "test"} or stem == "conftest" or stem.startswith("test_") or stem.endswith("_test"):
        return TESTS
    return EXCLUDED if exclusion.covers(path) else None


def looks_like_attention(text: str) -> bool:
    """Say whether a definition in this source is called attention, or takes or weighs queries and keys.

    A file that no parser of this Python accepts is judged by its words.

    >>> looks_like_attention("def lookup(q, k, v): ..."), looks_like_attention("def add(a, b): ...")
    (True, False)
    """
    if not _WORTH_READING.search(text):
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return bool(_NAME_SAYS_SO.search(text))
    return any(_is_like_attention(node) for node in _definitions(tree))


def mentions_attention(text: str) -> bool:
    """Say whether any name in this source, also of what it only calls, speaks of attention.

    >>> mentions_attention("import x; x.softmax(1)"), mentions_attention("import x  # attention, please")
    (True, False)
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return bool(_WORTH_READING.search(text))
    fields = ("id", "attr", "arg", "name", "module")
    names = (getattr(node, field, None) for node in ast.walk(tree) for field in fields)
    said = any(isinstance(name, str) and _WORTH_READING.search(name) for name in names)
    return said or looks_like_attention(text)


def _walk(folder: str, exclusion: Exclusion, left_out: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the Python files below a folder; note what is left out."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = os.path.normpath(entry.path)
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder and not (entry.name.endswith(".py") and entry.is_file()):
            continue
        reason = why_left_out(path, exclusion)
        if reason:
            left_out.append((path, reason))
        elif is_folder:
            yield from _walk(path, exclusion, left_out)
        else:
            yield path


def _definitions(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the definitions that a module has once it is imported, also those under ``if`` and ``try``."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _definitions(ast.Module([*node.body, *getattr(node, "orelse", [])], []))


def _is_like_attention(definition: ast.stmt) -> bool:
    """Judge one function or class: its name, the parameters in it, and what it calls beside queries."""
    assert isinstance(definition, ast.FunctionDef | ast.ClassDef)
    if _NAME_SAYS_SO.search(definition.name):
        return True
    names: set[str] = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.FunctionDef):
            given = {
                argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            }
            if _any(_QUERIES, given) and _any(_KEYS, given):
                return True
        names |= {str(getattr(node, field)) for field in ("id", "attr") if hasattr(node, field)}
    if isinstance(definition, ast.ClassDef) and _any(_LAYERS, names):
        return True
    return bool(names & _WEIGHS) and _any(_QUERIES, names) and _any(_KEYS, names)


def _any(pattern: re.Pattern[str], names: set[str]) -> bool:
    return any(pattern.fullmatch(name) for name in names)
