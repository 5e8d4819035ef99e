"""Files that hold a model and no code, and what has to be installed to read them. Imports neither."""

from __future__ import annotations

import os
from importlib.util import find_spec

from softlookup.terms import SoftlookupError

_READERS = {".onnx": "onnx"}  # suffix -> the package that reads it, which is also the name of our extra


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Say whether this is a file that is read and not imported.

    >>> is_model_file("attention.onnx"), is_model_file("attention.py")
    (True, False)
    """
    return os.path.splitext(path)[1].lower() in _READERS


def require_reader(path: str | os.PathLike[str]) -> None:
    """Raise: SoftlookupError when the package that reads this model file is not installed.

    >>> require_reader("attention.py")
    """
    package = _READERS.get(os.path.splitext(path)[1].lower())
    if package is not None and find_spec(package) is None:
        raise SoftlookupError(
            f"check: {os.fspath(path)} cannot be read.",
            expected=f"the package {package}, which reads it",
            got="a Python without it",
            hint=f"pip install softlookup[{package}]",
        )
