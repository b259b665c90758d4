"""The command `curlhttp completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import os
from pathlib import Path

import click

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")
_EPILOG = """\b
Examples:
  curlhttp completion bash --install
  eval "$(curlhttp completion zsh)"
"""


@click.command(help="Show the script that completes commands in SHELL, or install it.",
               epilog=_EPILOG)  # fmt: skip
@click.argument("shell", type=click.Choice(_SHELLS))
@click.option("--install", is_flag=True, help="Write it to where the shell looks for it.")
@click.pass_context
def completion(context: click.Context, shell: str, install: bool) -> None:
    """Show or install a script."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "curlhttp", "_CURLHTTP_COMPLETE").source()
    if not install:
        click.echo(script)
        return
    path = _place(shell)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script, encoding="utf-8")
    click.echo(f"{path} was written: it is heeded by each {shell} that is started from now on")
    if shell == "zsh":
        click.echo("if ~/.zshrc has this line, before compinit:  fpath+=~/.zfunc")


def _place(shell: str) -> Path:
    """Return the file that a shell reads for the command."""
    home = Path.home()
    if shell == "zsh":
        return home / ".zfunc" / "_curlhttp"
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return config / "fish" / "completions" / "curlhttp.fish"
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return data / "bash-completion" / "completions" / "curlhttp"
