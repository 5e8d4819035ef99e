"""Models out of files: what a function in a Python file returns, a folder of Hugging Face, a GGUF file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from torch import nn

from softlookup.terms import SoftlookupError, did_you_mean


def loaded_model(path: str, *, doing: str = "audit") -> nn.Module:
    """Return the model at a path. A Python file is run; folders and GGUF files hold no code that would be.

    path: ``FILE.py:factory``, where factory is a function or class that takes no arguments; a folder with a
        config.json, as ``save_pretrained`` writes it; or a ``.gguf`` file
    doing: whose words errors are told in

    Raises: SoftlookupError when there is no such file or name, a library is missing, or loading fails.
    """
    file, _, name = path.rpartition(":")
    if file.endswith(".py"):
        return _from_code(Path(file), name, doing)
    place = Path(path)
    if place.suffix == ".gguf" and place.is_file():
        return _by_transformers(place.parent, doing, gguf_file=place.name)
    if (place / "config.json").is_file():
        return _by_transformers(place, doing)
    hint = (
        f"{path}:make_model, with the name of a function that returns the model"
        if place.suffix == ".py"
        else ""
    )
    raise SoftlookupError(
        f"{doing}: no model was found at {path!r}.",
        expected="FILE.py:factory, a folder with a config.json, or a .gguf file",
        got="a Python file without a name" if hint else "nothing of the kind",
        hint=hint,
    )


def _from_code(file: Path, name: str, doing: str) -> nn.Module:
    """Run a Python file and call what it calls ``name``; its folder is where it imports from meanwhile."""
    if not file.is_file():
        raise SoftlookupError(f"{doing}: there is no file {str(file)!r}.")
    spec = importlib.util.spec_from_file_location(f"audited_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
        names = [it for it, value in vars(module).items() if callable(value) and not it.startswith("_")]
        factory = getattr(module, name, None)
        if factory is None:
            raise SoftlookupError(
                f"{doing}: {file} has no {name!r}.",
                hint=did_you_mean(name, names, f"it has {', '.join(names)}"),
            )
        model = factory if isinstance(factory, nn.Module) else factory()
    except SoftlookupError:
        raise
    except Exception as problem:
        raise _failed(f"{file}:{name}", problem, doing) from problem
    finally:
        sys.path.remove(str(file.parent.resolve()))
        sys.modules.pop(spec.name, None)
    if not isinstance(model, nn.Module):
        raise SoftlookupError(
            f"{doing}: {file}:{name} gave no model.", expected="a torch.nn.Module", got=type(model).__name__
        )
    return model


def _by_transformers(folder: Path, doing: str, **more: Any) -> nn.Module:
    """Load with transformers, from this disk only, by the class that the config names."""
    if importlib.util.find_spec("transformers") is None:
        raise SoftlookupError(
            f"{doing}: this model is loaded with transformers, which is not installed.",
            hint="pip install transformers",
        )
    import transformers

    more |= {"local_files_only": True, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **more)
        named = [getattr(transformers, it, None) for it in getattr(config, "architectures", None) or ()]
        kind = next((it for it in named if it is not None), None)
        if kind is None:
            kind = transformers.AutoModelForCausalLM if "gguf_file" in more else transformers.AutoModel
        model: nn.Module = kind.from_pretrained(folder, dtype="float32", **more)
    except Exception as problem:
        raise _failed(str(folder / str(more.get("gguf_file", ""))), problem, doing) from problem
    return model


def _failed(what: str, problem: Exception, doing: str) -> SoftlookupError:
    reason = str(problem).splitlines()
    return SoftlookupError(
        f"{doing}: {what} could not be loaded.",
        got=f"{type(problem).__name__}: {reason[0] if reason else ''}",
    )
