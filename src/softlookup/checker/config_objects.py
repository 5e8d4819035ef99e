"""Config objects: which parameter is one, of which class, and a stand-in where no class is known."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

_CALLED_CONFIG = re.compile(
    r"(?:\w+_)?(?:config|configuration|cfg|conf|args|hparams|hps|hp|opts?|options|params|settings)", re.I
)
_NAMED_CONFIG = re.compile(
    r"\w*(?:Config|Configuration|Cfg|Args|Arguments|HParams|Hparams|Params|Options|Settings)"
)
#: Ancestors by which a config class is known; the libraries they come from are not imported.
_PRETRAINED = {"PretrainedConfig", "PreTrainedConfig"}
_CONFIG_ANCESTORS = {*_PRETRAINED, "BaseModel"}
_SECTION = re.compile(
    r"(?:\w+_)?(?:attn|attention|model|encoder|decoder|transformer|arch|network|net|config|cfg|params)"
)


class NotUnderstoodError(AttributeError, KeyError):
    """A config was asked for an attribute that no table knows. Names it in full, as ``config.attn.sigma``."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class AskedConfig:
    """A config that answers what it is asked, by attribute or by key, and remembers that.

    answer: full path of an attribute, ``config.n_embd`` -> value; raises NotUnderstoodError
    is_section: whether the attribute of this path is a config itself

    >>> config = AskedConfig("config", lambda path: len(path), lambda path: path == "config.attn")
    >>> config.n_embd, config.attn["heads"], config
    (13, 17, config(n_embd=13, attn=config.attn(heads=17)))
    """

    def __init__(self, path: str, answer: Callable[[str], Any], is_section: Callable[[str], bool]) -> None:
        self.__dict__.update(_path=path, _answer=answer, _is_section=is_section, _asked=[])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_path" not in self.__dict__:  # as copying and pickling ask
            raise AttributeError(name)
        path = f"{self._path}.{name}"
        value = (
            AskedConfig(path, self._answer, self._is_section)
            if self._is_section(path)
            else self._answer(path)
        )
        self._asked.append(name)
        self.__dict__[name] = value
        return value

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the answer, or the default where there is none."""
        return getattr(self, name, default)

    def __repr__(self) -> str:
        asked = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self._asked)
        return f"{self._path}({asked})"


def is_called_config(name: str) -> bool:
    """Say whether a parameter of this name holds a config.

    >>> is_called_config("config"), is_called_config("model_args"), is_called_config("dim")
    (True, True, False)
    """
    return bool(_CALLED_CONFIG.fullmatch(name))


def is_config_class(cls: Any) -> bool:
    """Say whether instances of a class are configs, by its name, fields or ancestors."""
    if not inspect.isclass(cls) or cls.__module__ in {"builtins", "typing", "types", "argparse"}:
        return False
    if any(base.__module__.startswith("torch.") for base in cls.__mro__):
        return False
    ancestors = {base.__name__ for base in cls.__mro__[1:]}
    if dataclasses.is_dataclass(cls) or hasattr(cls, "model_type") or ancestors & _CONFIG_ANCESTORS:
        return True
    has_names = (issubclass(cls, tuple) and hasattr(cls, "_fields")) or (
        issubclass(cls, dict) and hasattr(cls, "__total__")
    )
    return has_names or is_named_config(cls)


def is_named_config(cls: type) -> bool:
    """Say whether a class has the name of a config, as ``GPTConfig``."""
    return bool(_NAMED_CONFIG.fullmatch(cls.__name__))


def is_pretrained(cls: type) -> bool:
    """Say whether a config class is of the family that chooses among attention implementations."""
    return hasattr(cls, "model_type") and any(base.__name__ in _PRETRAINED for base in cls.__mro__)


def is_section(name: str, source: str) -> bool:
    """Say whether a config's attribute is a config: the source reads more from it, or its name says so."""
    word = re.escape(name)
    reads_more = rf"\.{word}\.[a-z]|\[[\"']{word}[\"']\]\s*[.\[]|\.{word}\[[\"']"
    return bool(re.search(reads_more, source) or _SECTION.fullmatch(name))


def defaults_in(source: str, unknown: Any) -> dict[str, Any]:
    """Return attribute -> default, as in ``getattr(config, "bias", True)``;
    ``unknown`` where it is no literal.

    >>> defaults_in('getattr(config, "bias", True)', None)
    {'bias': True}
    """
    found: dict[str, Any] = {}
    for call in _calls_in(source):
        name = call.args[1] if len(call.args) > 1 else None
        given = {"getattr": 3, "hasattr": 2}.get(ast.unparse(call.func))
        if given == len(call.args) and isinstance(name, ast.Constant):
            default = call.args[-1] if given == 3 else None
            found[str(name.value)] = default.value if isinstance(default, ast.Constant) else unknown
    return found


def _calls_in(source: str) -> Iterator[ast.Call]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return iter(())
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))
