"""Tensors out of files that others made: .npy, .npz, .safetensors and .pt, and no code is run.

A pickle can run anything when it is read. So NumPy reads no objects, and torch reads ``weights_only``.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.tensors import as_tensor
from softlookup.terms import SoftlookupError, did_you_mean

_MOST_ENTRIES = 1 << 34  # a small file can claim any shape: an axis that repeats takes no room in it


def read_tensors(path: str, name: str | None = None) -> dict[str, Tensor]:
    """Return the tensors of a file by their names; the only one of a file without names is called "".

    name: one of them

    Raises: SoftlookupError for a file that is not there, cannot be read, is of another kind or holds anything
    but tensors, and for a name that it does not hold.
    """
    file = Path(path)
    reader = READERS.get(file.suffix.lower())
    if reader is None or not file.is_file():
        raise SoftlookupError(
            f"mask: {path!r} cannot be read.",
            expected=f"a file that ends in {', '.join(READERS)}",
            got="no such file" if not file.is_file() else f"a file that ends in {file.suffix or 'nothing'}",
            hint="" if file.is_file() else "a mask in words takes no --identify, --from or --name",
        )
    try:
        found = reader(file, name)
    except SoftlookupError:
        raise
    except Exception as error:  # whatever a broken file makes of its reader
        raise SoftlookupError(
            f"mask: {path!r} cannot be read.",
            expected=f"a whole {file.suffix} file of tensors",
            got=_in_short(error),
            hint=_OTHERWISE.get(file.suffix.lower(), ""),
        ) from None
    if not found:
        raise SoftlookupError(f"mask: {path!r} is empty.", expected="a tensor", got="none")
    if name is not None:
        if name not in found:
            known = [it for it in found if it]
            raise SoftlookupError(
                f"mask: {path!r} holds no tensor {name!r}.",
                expected=", ".join(known) or "no --name: the only tensor of the file has none",
                got=repr(name),
                hint=did_you_mean(name, known),
            )
        found = {name: found[name]}
    return {key: _plain(value, path) for key, value in found.items()}


def _plain(value: Any, path: str) -> Tensor:
    tensor = value if isinstance(value, Tensor) else as_tensor(_native(value), f"mask: {path!r}")
    is_plain = tensor.layout == torch.strided and not (tensor.is_complex() or tensor.is_quantized)
    if not is_plain or tensor.is_meta or not tensor.numel():
        words = f"{tensor.dtype} {list(tensor.shape)}, {tensor.layout}".replace("torch.", "")
        raise SoftlookupError(
            f"mask: {path!r} holds no mask.",
            expected="a plain tensor of bool, integers or floats, with entries",
            got=words + ", without its numbers" * tensor.is_meta,
        )
    if tensor.numel() > _MOST_ENTRIES:
        raise _too_large(path, tensor.numel(), "entries")
    return tensor.detach()


def _native(array: Any) -> Any:
    """Return an array of the other byte order, which torch does not take, in that of this machine."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _npy(file: Path, name: str | None) -> dict[str, Any]:
    # "c": what is not looked at is not read; torch takes the memory as it is, which "r" would not let it.
    return {"": _numpy().load(file, mmap_mode="c", allow_pickle=False)}


def _npz(file: Path, name: str | None) -> dict[str, Any]:
    with _numpy().load(file, allow_pickle=False) as archive:
        wanted = list(archive.files) if name is None or name not in archive.files else [name]
        claims = {it.filename.removesuffix(".npy"): it.file_size for it in archive.zip.infolist()}
        claimed = sum(claims[it] for it in wanted)
        if claimed > _MOST_ENTRIES:  # zeros take next to no room in a compressed file
            raise _too_large(str(file), claimed, "bytes")
        return {it: archive[it] for it in wanted} | {it: None for it in archive.files if it not in wanted}


def _safetensors(file: Path, name: str | None) -> dict[str, Any]:
    try:
        from safetensors import safe_open
    except ImportError:
        raise SoftlookupError(
            "mask: this file is read by the package safetensors.",
            expected="safetensors",
            got="not installed",
            hint="pip install safetensors",
        ) from None
    with safe_open(str(file), "pt") as archive:
        known = list(archive.keys())
        return {it: archive.get_tensor(it) if name not in known or it == name else None for it in known}


def _pt(file: Path, name: str | None) -> dict[str, Any]:
    loaded = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    named = {"": loaded} if isinstance(loaded, Tensor) else loaded
    if isinstance(named, (list, tuple)):
        named = {str(number): it for number, it in enumerate(named)}
    if not isinstance(named, Mapping):
        raise _refuse_content(file, named)
    for it in named.values():
        if not isinstance(it, Tensor):
            raise _refuse_content(file, it)
    return {str(key): it for key, it in named.items()}


def _too_large(path: str, number: int, unit: str) -> SoftlookupError:
    return SoftlookupError(
        f"mask: {path!r} claims to be too large.",
        expected=f"at most {_MOST_ENTRIES:,} {unit}",
        got=f"{number:,}",
    )


def _in_short(error: Exception) -> str:
    """Return what a reader says, on one line; of a pickle the name of what it wanted to make.

    torch's own words tell how to load it all the same, which is no advice to give here.
    """
    words = str(error).strip()
    unsafe = re.search(r"GLOBAL (\S+)|(?:class|type|function) ([\w.]+\.[\w.]+)", words)
    if type(error).__name__ == "UnpicklingError":
        return f"an object, {unsafe[1] or unsafe[2]}" if unsafe else "no pickle of tensors alone"
    return f"{type(error).__name__}: {words.partition(chr(10))[0][:200]}"


def _refuse_content(file: Path, content: Any) -> SoftlookupError:
    return SoftlookupError(
        f"mask: {str(file)!r} holds more than tensors.",
        expected="a tensor, or several in a dict, list or tuple",
        got=f"{type(content).__name__} in it",
    )


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise SoftlookupError(
            "mask: .npy and .npz are files of NumPy.",
            expected="NumPy",
            got="not installed",
            hint="pip install numpy",
        ) from None
    return numpy


#: Suffix -> reader(file, name) -> the values by name; None where ``name`` asks for another one.
READERS: dict[str, Callable[[Path, str | None], dict[str, Any]]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".pt": _pt,
}
_OTHERWISE = {
    ".pt": "torch.save(tensor, file): other objects could run code, and are not read",
    ".npy": "numpy.save(file, array) of numbers: objects could run code, and are not read",
    ".npz": "numpy.savez(file, name=array) of numbers: objects could run code, and are not read",
}
