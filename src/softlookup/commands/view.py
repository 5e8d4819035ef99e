"""Attention maps, or the numbers of a watch, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from softlookup.console import CLEAN
from softlookup.terms import SoftlookupError


@click.command("view")
@click.argument("path", metavar="TRACE|MODEL|WEIGHTS")
@click.option("--text", help="What a model reads; without a tokenizer, ids such as 3 1 4.")
@click.option("--target", default="", help="What an encoder-decoder has written so far.")
@click.option("--compare", metavar="TEXT", help="Another text of as many tokens: differences.")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    default="view.html",
    show_default=True,
    help="Ends in .html, .png or .svg.",
)
@click.option("--layers", multiple=True, metavar="PATTERN", help='Paths, e.g. "*.layers.[0-3].*".')
@click.option("--head", metavar="LAYER.HEAD", help="Opened first, or drawn, e.g. 3.5.")
@click.option("--max-mb", type=float, default=20.0, show_default=True, help="Longer maps are pooled.")
@click.pass_context
def command(context: click.Context, /, path: str, to: Path, **asked: Any) -> None:
    """Write one page with attention maps, or with the numbers of a watch.

    TRACE is a folder that a watch has written. MODEL is a folder of Hugging Face with a config.json, a .gguf
    file, or FILE.py:factory; it reads --text once. A Python file is run, in this process and without limits.
    WEIGHTS is a file of tensors [H, T_q, T_k]: .safetensors, .npz, .npy or .pt.

    The page holds its data and loads nothing. Exit status: 0 written, 2 the request could not be carried out.
    """
    from softlookup.live.trace_files import parts_of, traces_in
    from softlookup.mask_files import READERS, read_tensors
    from softlookup.viewer import view
    from softlookup.viewer.viewing import refuse_other_files

    refuse_other_files(to)
    head = None if asked["head"] is None else _head(asked["head"])
    more = {"to": to, "head": head, "layers": asked["layers"] or "*", "max_mb": asked["max_mb"]}
    place = Path(path)
    is_model = (place / "config.json").is_file() and not parts_of(place)
    if traces_in(place) and not is_model:
        shown = view(place, title=place.name, to=to, head=head)
    elif place.suffix.lower() in READERS:
        tensors = {name or place.stem: it for name, it in read_tensors(path).items()}
        only = next(iter(tensors.values()))
        shown = view(only if len(tensors) == 1 else tensors, title=place.name, **more)
    else:
        shown = _of_model(path, asked, more)
    click.echo(f"{to}: {shown.words}, {to.stat().st_size / 1e6:.2f} MB")
    context.exit(CLEAN)


def _of_model(path: str, asked: dict[str, Any], more: dict[str, Any]) -> Any:
    """Let a model read the text, and view its maps."""
    if asked["text"] is None and (Path(path).exists() or ".py:" in path):
        raise SoftlookupError(
            "view: a model has maps of what it reads.",
            expected="--text",
            got="none",
            hint=f'softlookup view {path} --text "The cat sat on the mat."',
        )
    from softlookup.auditing.loading import loaded_model
    from softlookup.model_texts import texts_for
    from softlookup.recording import record_attention
    from softlookup.viewer import view

    model = loaded_model(path, doing="view").eval()
    texts = texts_for(model, path, most=1 << 20, doing="view")

    def recorded(text: str) -> tuple[Any, Any]:
        read = texts.encode(text, asked["target"])
        tokens = list(read.tokens) if read.source is None else (list(read.tokens), list(read.source.tokens))
        return record_attention(model, *read.args, layers=more["layers"], **read.kwargs), tokens

    recording, tokens = recorded(asked["text"])
    other, other_tokens = (None, None) if asked["compare"] is None else recorded(asked["compare"])
    return view(
        recording,
        tokens=tokens,
        compare=other,
        compare_tokens=other_tokens,
        title=Path(path).name,
        **more,
    )


def _head(words: str) -> tuple[int, int]:
    layer, _, head = words.replace(":", ".").partition(".")  # experiments write 3:5
    if not (layer.isdigit() and head.isdigit()):
        raise SoftlookupError(
            "view: --head names no head.", expected="LAYER.HEAD, e.g. 3.5 or 3:5", got=words
        )
    return int(layer), int(head)
