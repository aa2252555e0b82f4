"""The command line: verbs are found by name and imported only when called, so that --help answers at once."""

import importlib
import os
import sys
from contextlib import ExitStack
from types import ModuleType

import click

from ingest import __version__
from ingest.errors import PrivsieveError
from ingest.machine import keep_pandas_away
from ingest.storage.place import reason_of
from ingest.storage.web import without_credentials
from jobs.console.commands import Commands
from jobs.console.settings import add_settings
from jobs.console.terminal import write_line

VERBS: dict[str, str] = {
    "fetch": "Download images named by metadata into shards.",
    "plan": "Estimate hours, cost and storage of a scan by its first half minute.",
    "doctor": "Check this machine for what a scan needs.",
    "screen": "Fit a cheap first stage for scans, whose miss rate labels prove.",
    "scan": "Score every image of a corpus into a run.",
    "status": "Show how far a scan is, and who scans.",
    "report": "Show how private a scanned corpus is.",
    "explain": "Say what a run knows of one image, and what policies do with it.",
    "sql": "Query a run with SQL, read-only.",
    "audit": "Correct the rates of a run by a few hundred labels.",
    "review": "Look at pictures of a run in the browser, and say what they show.",
    "browse": "Look through the pictures of a run in the browser, by filters, and export what you see.",
    "evaluate": "Judge the answers of a run by labels.",
    "calibrate": "Compare probabilities with labels, and choose thresholds.",
    "diff": "Compare two runs picture by picture.",
    "filter": "Write the corpus again without what a policy drops.",
    "release": "Check a release, look pictures up in it, and take pictures out of it.",
    "similarity": "Say whether changed pictures still show the same person or thing.",
    "tune": "Tune a vision-language model on labelled pictures.",
    "models": "Fetch, list and check the weights of models on this machine.",
    "labels": "Import, join, compare and export what people and benchmarks say about pictures.",
    "help": "Show a page of the documentation.",
    "purge": "Delete what a run knows of single pictures; its figures stay.",
}
"""Verb -> one line of help. The click command has the name of the verb, in `command_module(verb)`."""

HEADINGS: dict[str, tuple[str, ...]] = {
    "Before a scan": ("fetch", "models", "screen", "plan", "doctor"),
    "Scanning": ("scan", "status"),
    "Reading a run": ("report", "explain", "browse", "sql", "diff"),
    "Checking by people": ("audit", "review", "labels", "evaluate", "calibrate"),
    "Acting on it": ("filter", "release", "similarity", "purge"),
    "Tuning a model": ("tune",),
    "Other commands": ("help",),
}
"""Heading of `--help` -> verbs."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "fetch": (
        'privsieve fetch laion.parquet --out shards --where "punsafe < 0.1" --limit 1000',
        "privsieve fetch shards/fetch.parquet --out shards-2 --where \"reason = 'timeout'\"",
    ),
    "plan": ("privsieve plan s3://bucket/shards --run s3://bucket/run --price-per-hour 2.5",),
    "doctor": ("privsieve doctor --source photos/ --run my-run",),
    "scan": (
        "privsieve scan photos/ --run my-run",
        'privsieve scan "s3://bucket/laion/{00000..00099}.tar" --run s3://bucket/run --sample 10000',
        "privsieve scan photos/ --run my-run --config run.yaml",
    ),
    "report": ("privsieve report my-run --html report.html", "privsieve report my-run --format csv > rates.csv"),
    "sql": ('privsieve sql my-run "SELECT level, count(*) FROM images GROUP BY level"',),
    "explain": ("privsieve explain my-run 000000013",),
    "review": ("privsieve review my-run --queue audit --as ana",),
    "browse": ("privsieve browse my-run --policy strict",),
    "status": ("privsieve status s3://bucket/run",),
    "evaluate": ("privsieve evaluate my-run --labels labels.parquet --html evaluation.html",),
    "calibrate": ("privsieve calibrate my-run --labels labels.csv",),
    "diff": ("privsieve diff my-run other-run --html diff.html",),
    "filter": ("privsieve filter my-run --policy strict --out release --dry-run",),
    "purge": ("privsieve purge my-run --yes",),
    "help": ("privsieve help filter",),
}
"""Verb -> command lines for its `--help`; verbs with commands of their own have none."""

CONTINUED = {
    **dict.fromkeys(
        ["fetch", "models", "scan", "release", "purge", "tune"], "; run the same command again to continue"
    ),
    "filter": "; run the same command with --resume to continue",
}
"""Verb that leaves something to continue when it is interrupted -> how."""


def command_module(verb: str) -> ModuleType:
    """Return the module of a command."""
    return importlib.import_module(f"jobs.commands.{verb}")


class _Verbs(Commands):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        keep_pandas_away()
        command = getattr(command_module(cmd_name), cmd_name)
        assert isinstance(command, click.Command)
        add_settings(command, (cmd_name,), EXAMPLES.get(cmd_name, ()))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))
        for heading, verbs in HEADINGS.items():
            with formatter.section(heading):
                formatter.write_dl([(verb.ljust(width), VERBS[verb]) for verb in verbs])


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="privsieve")
def cli() -> None:
    """Measure how much personal content an image dataset exposes, and take out the worst before release.

    Begin with: privsieve scan FOLDER --run RUN, then privsieve report RUN. privsieve COMMAND --help has more,
    privsieve help the documentation.
    """


def main(args: list[str] | None = None) -> None:
    """Run a command.

    Exit codes: 0 done; 1 not complete, also if a store did not answer; 2 the command was wrong; 130 interrupted.
    """
    # NumPy's matrices are small here, and its threads spin while they wait for each other: fitting a screen took nine
    # times the CPU time with two of them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.stdout is None:  # closed by the caller, who wants no output
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    with ExitStack() as until_written:  # Ray is left after the line is written, see `ray_session`
        try:
            code = cli.main(args, prog_name="privsieve", standalone_mode=False, obj=until_written)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            text = error.format_message()
            context = error.ctx if isinstance(error, click.UsageError) else None
            is_unknown = isinstance(error, click.NoSuchOption) and not error.possibilities
            if is_unknown or isinstance(error, click.MissingParameter):
                text = text.replace("\n\t", " ")  # click lists the choices of an option on a line each
                text = f"{text.rstrip('.')}; see {context.command_path} --help" if context else text
            message, code = text, error.exit_code
        except PrivsieveError as error:
            message, code = str(error), error.exit_code
        except OSError as error:
            message, code = f"{reason_of(error)}{f': {error.filename}' if error.filename else ''}", 2
        except (click.Abort, KeyboardInterrupt):
            verb = next(iter(sys.argv[1:] if args is None else args), "")
            message, code = f"interrupted{CONTINUED.get(verb, '')}", 130
        else:
            sys.exit(code if isinstance(code, int) else 0)
        write_line(f"privsieve: {without_credentials(message)}", to_stderr=True)
        sys.exit(code)
