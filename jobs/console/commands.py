"""How commands show their options, and groups such as `labels` the commands that they have."""

import click

from ingest.errors import did_you_mean

SENTENCE_LENGTH = 300
"""Characters of a command's first sentence in `--help`; click would cut it at the end of the line."""


class Command(click.Command):
    """A command (`cls=` of `click.command`) whose `--help` puts options under the headings of its requests (`takes`).
    Options without a heading come first, below "Options"."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        headings: dict[str, list[str]] = getattr(self.callback, "headings", {})
        heading_of = {name: heading for heading, names in headings.items() for name in names}
        records: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *headings)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and record is not None:
                heading = next((heading_of[name] for name in parameter.opts if name in heading_of), "Options")
                records[heading].append(record)
        for heading, options in records.items():
            if options:
                with formatter.section(heading):
                    formatter.write_dl(options)


class Commands(click.Group):
    """A group of commands (`cls=` of `click.group`). An unknown one is an error that says which there are."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(
                f'unknown command "{args[0]}"{did_you_mean(args[0], names)}; there are: {", ".join(names)}'
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(SENTENCE_LENGTH)) for name, command in sorted(self.commands.items())]
            )
