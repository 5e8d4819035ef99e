"""Draw a mask, explain it, translate it, identify it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softlookup.terms import SoftlookupError

if TYPE_CHECKING:
    from softlookup.conventions.spelling import Sizes
    from softlookup.mask_answers import AskedMask

_SUFFIXES = (".npy", ".npz", ".safetensors", ".pt")
_AT_LEAST_1 = click.IntRange(min=1)
_OPTIONS = {  # what stands for an argument in the words of an error
    r"\bq_len=": "--q-len",
    r"\bk_len=": "--k-len",
    r"\bbatch_size=": "--batch-size",
    r"\bnum_heads=": "--heads",
    r"\bsource=": "--from",
}


@click.command("mask")
@click.argument("mask", required=False)
@click.option("--q-len", type=_AT_LEAST_1, help="Queries, T_q, where the mask does not fix them.")
@click.option("--k-len", type=_AT_LEAST_1, help="Keys, T_k, where the mask does not fix them.")
@click.option("--batch-size", type=_AT_LEAST_1, help="Samples, B, where a call needs to know them.")
@click.option("--heads", "num_heads", type=_AT_LEAST_1, help="Heads, H, where a call needs to know them.")
@click.option("--draw", is_flag=True, help="Draw it here; so it is when nothing else is asked.")
@click.option(
    "--explain",
    metavar="QUERY,KEY",
    help="Why a key is hidden from a query, in every sample and head; 3,5,1,0 asks for sample 1 and head 0.",
)
@click.option("--to", "targets", multiple=True, metavar="NAME", help="The call of a library; repeatable.")
@click.option("--lossy", is_flag=True, help="Leave out what that call cannot say; it then shows more.")
@click.option("--from", "source", metavar="NAME", help="What the tensor of a file means: whose mask it is.")
@click.option("--identify", is_flag=True, help="What the tensors of a file can mean.")
@click.option("--name", metavar="NAME", help="One tensor of a file that holds several.")
@click.option("--svg", type=click.Path(dir_okay=False), metavar="FILE", help="Write a picture with words.")
@click.option("--png", type=click.Path(dir_okay=False), metavar="FILE", help="Write a picture of the cells.")
@click.option("--list", "listing", is_flag=True, help="List the names that --to and --from take.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people or tools."
)
def command(mask: str | None, listing: bool, form: str, **asked: Any) -> None:
    """Draw a mask, say why a key is hidden, write it for other libraries, or identify the mask in a file.

    MASK is a mask in words, "causal & padding(5, 3)", or a file: .npy, .npz, .safetensors or .pt. In a file,
    True means that a query may look at a key, unless --from says otherwise.
    """
    if listing:
        from softlookup.mask_answers import convention_lines, convention_list

        click.echo(json.dumps(convention_list(), indent=2) if form == "json" else convention_lines())
        return
    if mask is None:
        raise SoftlookupError(
            "mask: there is nothing to look at.", expected="a mask in words, or a file", got="no argument"
        )
    answer = _identified if asked["identify"] else _shown
    try:
        click.echo(answer(mask, form, asked))
    except SoftlookupError as error:
        raise _in_options(error) from None


def _shown(mask: str, form: str, options: dict[str, Any]) -> str:
    """Return the drawing, the reasons and the calls, and write the pictures."""
    from softlookup.mask_answers import Wanted, mask_facts, mask_report

    asked = _asked_mask(mask, options)
    place = _place(options["explain"])
    pictures = [option for option in ("svg", "png") if options[option] is not None]
    draw = options["draw"] or not (place or options["targets"] or pictures)
    wanted = Wanted(draw, place, options["targets"], options["lossy"])
    answer = json.dumps(mask_facts(asked, wanted), indent=2) if form == "json" else mask_report(asked, wanted)
    for option in pictures:
        _write_picture(option, options[option], asked)
    return answer


def _asked_mask(text: str, options: dict[str, Any]) -> AskedMask:
    """Read the mask: from a file, or from words."""
    from softlookup.mask_answers import ask_mask

    in_file = Path(text).suffix.lower() in _SUFFIXES or options["source"] or options["name"]
    if not in_file and not (Path(text).suffix and Path(text).is_file()):
        from softlookup.masks.expression import read_mask_expression

        mask = read_mask_expression(text)
        return ask_mask(mask, repr(mask), _sizes(options))
    from softlookup.conventions.discover import find_convention
    from softlookup.mask_files import read_tensors

    tensors = read_tensors(text, options["name"])
    convention, _ = find_convention(options["source"] or "allowed_mask")
    arguments = {takes.argument for takes in convention.takes}
    said = f"{_where(text, options['name'])} as {convention.name}"
    if options["name"] is None and tensors.keys() <= arguments:  # a file of one call's arguments
        return ask_mask(tensors, said, _sizes(options), convention.name)
    if len(tensors) > 1:
        raise SoftlookupError(
            f"mask: {text!r} holds several tensors.",
            expected="--name " + " or ".join(tensors),
            got="no --name",
            hint="--identify looks at each of them",
        )
    (tensor,) = tensors.values()
    return ask_mask(tensor, said, _sizes(options), convention.name)


def _identified(file: str, form: str, options: dict[str, Any]) -> str:
    """Return what each tensor of a file can mean; where there are several, one that is no mask says so."""
    from softlookup.conventions import identify
    from softlookup.mask_files import read_tensors
    from softlookup.report.plain_words import printable

    tensors = read_tensors(file, options["name"])
    sizes = _sizes(options)
    texts: list[str] = []
    facts: list[dict[str, Any]] = []
    for name, tensor in tensors.items():
        dtype, shape = str(tensor.dtype).removeprefix("torch."), list(tensor.shape)
        facts.append({"name": name, "dtype": dtype, "shape": shape})
        try:
            found = identify(tensor, **asdict(sizes))
        except SoftlookupError as error:
            if len(tensors) == 1:
                raise
            words, facts[-1]["refused"] = str(error), str(error)
        else:
            words, facts[-1]["identified"] = str(found), found.as_dict()
        texts.append(f"{printable(_where(file, name))}\n{words}")
    return json.dumps({"file": file, "tensors": facts}, indent=2) if form == "json" else "\n\n".join(texts)


def _where(file: str, name: str | None) -> str:
    return f"{file}, {name}" if name else file


def _sizes(options: dict[str, Any]) -> Sizes:
    from softlookup.conventions.spelling import Sizes

    return Sizes(options["q_len"], options["k_len"], options["batch_size"], options["num_heads"])


def _in_options(error: SoftlookupError) -> SoftlookupError:
    """Return the words of an error with the options of this command in place of arguments."""
    words = str(error).replace("lossy=True", "--lossy")
    for argument, option in _OPTIONS.items():
        words = re.sub(argument + r"\.\.\.", f"{option} N", words)
        words = re.sub(argument, f"{option} ", words)
    return SoftlookupError(words)


def _place(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    numbers = [part.strip() for part in text.split(",")]
    if not 2 <= len(numbers) <= 4 or not all(it.isascii() and it.isdigit() for it in numbers):
        raise SoftlookupError(
            "mask: --explain could not be read.",
            expected="QUERY,KEY or QUERY,KEY,SAMPLE or QUERY,KEY,SAMPLE,HEAD, each counted from 0",
            got=repr(text),
            hint="--explain 3,5",
        )
    return tuple(map(int, numbers))


def _write_picture(option: str, file: str, asked: AskedMask) -> None:
    from softlookup.report.mask_png import png_of
    from softlookup.report.mask_svg import svg_of

    picture = asked.picture()
    try:
        Path(file).write_bytes(png_of(picture) if option == "png" else svg_of(picture).encode())
    except OSError as problem:
        raise SoftlookupError(
            f"mask: the picture could not be written to {file!r}.",
            expected="a file in a folder that exists",
            got=str(problem),
        ) from None
