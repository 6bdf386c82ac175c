"""`kavka completion`: what makes a shell complete commands and options."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import typer

from kavka.cli.output import write_line

VARIABLE: Final = "_KAVKA_COMPLETE"
"""What the shell sets when it asks for completions."""


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes commands and options in a shell.

    Examples:

    - `kavka completion bash >> ~/.bashrc`
    - `kavka completion zsh >> ~/.zshrc`
    - `kavka completion fish > ~/.config/fish/completions/kavka.fish`
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    write_line(get_completion_script(prog_name="kavka", complete_var=VARIABLE, shell=shell))
