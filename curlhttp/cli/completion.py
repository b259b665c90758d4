"""The command for shell completion: `curlhttp completion`."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")
_COMPLETION_EPILOG = """\b
Examples:
  curlhttp completion bash --install
  eval "$(curlhttp completion zsh)"
"""


@click.command(help="Print or install the script for shell completion.",
               epilog=_COMPLETION_EPILOG)  # fmt: skip
@click.argument("shell", type=click.Choice(_SHELLS))
@click.option(
    "--install", is_flag=True, help="Write the script to the file that the shell loads it from."
)
@click.pass_context
def completion(context: click.Context, shell: str, install: bool) -> None:
    """Print or install a completion script."""
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "curlhttp", "_CURLHTTP_COMPLETE").source()
    if not install:
        click.echo(script)
        return
    path = _get_completion_path(shell)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script, encoding="utf-8")
    click.echo(f"wrote {path}: restart {shell} to use it")
    if shell == "zsh":
        click.echo("add this line to ~/.zshrc, before compinit:  fpath+=~/.zfunc")


def _get_completion_path(shell: str) -> Path:
    """Return the file from which a shell loads the completion script."""
    home = Path.home()
    if shell == "zsh":
        return home / ".zfunc" / "_curlhttp"
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return config / "fish" / "completions" / "curlhttp.fish"
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return data / "bash-completion" / "completions" / "curlhttp"
