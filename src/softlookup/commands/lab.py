"""Open a local page where maps and experiments are done live."""

from __future__ import annotations

import click

from softlookup.console import CLEAN


@click.command("lab")
@click.argument("path", metavar="MODEL")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0: a free one.")
@click.option(
    "--tokens", type=click.IntRange(2, 4096), default=512, show_default=True, help="Most of a text."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Another one opens the lab to others.")
@click.option("--open/--no-open", "opens", default=True, help="Open the page in a browser.")
@click.pass_context
def command(context: click.Context, path: str, port: int, tokens: int, host: str, opens: bool) -> None:
    """Open MODEL in a page on this machine: edit a text, see its maps, change one, and see what that changes.

    MODEL is a folder of Hugging Face with a config.json, a .gguf file, or FILE.py:factory, where factory is a
    function or class without arguments. A Python file is run, in this process and without limits. The
    tokenizer is the one in the same folder; without one, ids are typed.

    The page is reached from this machine only, with the token in the printed address. Ctrl+C ends it.
    Exit status: 0 it was ended, 2 the request could not be carried out.
    """
    from softlookup.auditing.loading import loaded_model
    from softlookup.lab import serving
    from softlookup.lab.app import lab_app
    from softlookup.lab.session import Session

    serving.require_server()
    with serving.bound_socket(host, port) as bound:
        if host not in serving.LOOPBACK:
            click.echo(
                f"warning: --host {host} opens this lab to other machines. Whoever has the address below can "
                "run this model on texts of theirs, and it travels unencrypted.",
                err=True,
            )
        click.echo(f"loading {path} ...", err=True)
        session = Session(loaded_model(path, doing="lab"), path, most_tokens=tokens)
        keys = serving.keys_for(host)
        address = serving.address_of(bound, host, keys)

        def ready() -> None:
            click.echo(f"{session.name} is open at\n\n  {address}\n\nCtrl+C ends it.")
            if opens:
                serving.open_in_browser(address)

        try:
            serving.serve(lab_app(session, keys), bound, ready)
        finally:
            session.close()
    context.exit(CLEAN)
