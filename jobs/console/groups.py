"""Commands that have commands of their own, such as `labels import`."""

import click

from ingest.errors import did_you_mean
from jobs.console.request_options import Command

SENTENCE_LENGTH = 300
"""Characters of a command's first sentence in `--help`; click would cut it at the end of the line."""


class Commands(click.Group):
    """A group of commands (`cls=` of `click.group`). An unknown one is an error that says which there are."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            raise click.UsageError(
                f'unknown command "{args[0]}"{did_you_mean(args[0], names)}; there are: {", ".join(names)}'
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(SENTENCE_LENGTH)) for name, command in sorted(self.commands.items())]
            )
