"""`kavka pipeline`: data pipelines on Spark."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, group, key_values, read_client_config, secured
from kavka.cli.output import CommandError, Output, note, print_rows

if TYPE_CHECKING:
    from kavka.spark.pipelines.spec import Pipeline

app = group(
    "Data pipelines on Spark: topics in, topics and lake tables out.\n\n"
    "A project is a folder with `pipeline.yaml` and Python functions. It needs `pip install kavka[spark]`."
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The project's folder.")]
Master = Annotated[
    str, typer.Option("--master", envvar="KAVKA_MASTER", metavar="URL", help="Where Spark runs: local[2], spark://...")
]
ProjectBootstrap = Annotated[
    str | None, typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="Another cluster than the spec names.")
]
FlowOption = Annotated[str | None, typer.Option("--flow", metavar="NAME", help="Which flow, if there are several.")]
LOCAL = "local[2]"
HERE = Path()
EXTRA = ("pyspark", "pyarrow", "pandas", "yaml")
"""What the commands import at once, of what `kavka[spark]` brings."""


@app.command()
def init(folder: Folder, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Write a new project: a spec and a function to start from.

    Example: `kavka pipeline init my-pipeline`
    """
    _need_extra()
    from kavka.spark.pipelines.project import create

    for path in create(folder, folder.resolve().name, bootstrap):
        note(f"wrote {path}")
    note(f"next: `kavka pipeline dry-run {folder}`, then `kavka pipeline run {folder}`")


@app.command()
def run(
    folder: Folder = HERE,
    master: Master = LOCAL,
    bootstrap: ProjectBootstrap = None,
    once: Annotated[bool, typer.Option("--once", help="Read what is there now, then stop.")] = False,
    declarative: Annotated[
        bool, typer.Option("--declarative", help="As a Spark Declarative Pipeline: once, into Spark's own tables.")
    ] = False,
) -> None:
    """Run the flows of a project, one line for each batch; Ctrl-C stops between two batches.

    A pipeline that is started again goes on where its checkpoint ends.

    Example: `kavka pipeline run my-pipeline --once`
    """
    pipeline = _load(folder, bootstrap)
    if declarative:
        from kavka.spark.pipelines.declarative import run_declarative

        raise typer.Exit(run_declarative(pipeline, master))
    from kavka.spark.pipelines.run import PipelineError
    from kavka.spark.pipelines.run import run as run_pipeline

    try:
        run_pipeline(pipeline, master, note, once=once)
    except PipelineError as error:
        raise CommandError(str(error)) from None


@app.command("dry-run")
def dry_run(
    folder: Folder = HERE,
    master: Master = LOCAL,
    bootstrap: ProjectBootstrap = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check the spec, the functions and the topics; show what each flow would write.

    Example: `kavka pipeline dry-run my-pipeline`
    """
    _need_spark()
    from kavka.spark.pipelines.run import PipelineError
    from kavka.spark.pipelines.run import dry_run as check

    try:
        rows = check(_load(folder, bootstrap), master)
    except PipelineError as error:
        raise CommandError(str(error)) from None
    print_rows(output, ("flow", "writes", "columns"), rows)


@app.command()
def status(folder: Folder = HERE, bootstrap: ProjectBootstrap = None, output: OutputOption = Output.TABLE) -> None:
    """Show each flow's last batch, its lag, and how fresh its table is; needs no Spark.

    Example: `kavka pipeline status my-pipeline`
    """
    pipeline = _load(folder, bootstrap)
    from kavka.spark.pipelines.jobs import status as how

    columns = ("flow", "state", "batch", "lag", "table_rows", "table_files", "seconds_since_commit")
    print_rows(output, columns, how(pipeline))


@app.command()
def backfill(
    folder: Folder = HERE,
    flow: FlowOption = None,
    start: Annotated[
        str, typer.Option("--from", metavar="PLACE", help="earliest, JSON offsets, or a time.")
    ] = "earliest",
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="PLACE", help="latest, JSON offsets, or a time [default: where the stream began]"),
    ] = None,
    master: Master = LOCAL,
    bootstrap: ProjectBootstrap = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write a topic's history through a flow's function into its table: what came before the flow's stream began.

    A place is `earliest`, `latest`, offsets like `{"orders": {"0": 5}}`, or milliseconds since 1970. The table
    remembers which offsets it has: those of an earlier backfill are left out, and those of the stream are refused.

    Example: `kavka pipeline backfill my-pipeline --from earliest`
    """
    _need_spark()
    from kavka.spark.pipelines.backfill import backfill as fill
    from kavka.spark.pipelines.run import session

    pipeline = _load(folder, bootstrap)
    chosen = pipeline.flow(flow)
    place = {"startingTimestamp" if start.isdigit() else "startingOffsets": start}
    if end is not None:
        place["endingTimestamp" if end.isdigit() else "endingOffsets"] = end
    with session(pipeline, master) as spark:
        done = _clear(lambda: fill(spark, pipeline, chosen, place))
    for line in done.said:
        note(line)
    print_rows(output, ("flow", "rows"), [{"flow": chosen.name, "rows": done.rows}])


@app.command()
def compact(
    folder: Folder = HERE,
    target_mb: Annotated[int, typer.Option("--target-mb", min=1, help="How large files should become.")] = 128,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make few large files of the many small ones that micro-batches leave in tables; needs no Spark.

    Example: `kavka pipeline compact my-pipeline --target-mb 64`
    """
    pipeline = _load(folder, None)
    from kavka.spark.pipelines.jobs import compact as work

    found = _clear(lambda: work(pipeline, target_mb << 20))
    rows = [{"flow": name, **asdict(done)} for name, done in found.items()]
    print_rows(output, ("flow", "files_before", "files_after"), rows)


@app.command()
def vacuum(
    folder: Folder = HERE,
    keep_hours: Annotated[
        int, typer.Option("--keep-hours", min=1, metavar="HOURS", help="Versions that are younger stay readable.")
    ] = 168,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete files of tables that only old versions have, or none; needs no Spark.

    Old snapshots of Iceberg tables are expired. Files of batches that came to no end are deleted, too, if they are as
    old; so keep longer than a batch can take.

    Example: `kavka pipeline vacuum my-pipeline --keep-hours 24 --dry-run`
    """
    pipeline = _load(folder, None)
    from kavka.spark.pipelines.jobs import vacuum as work

    found = _clear(lambda: work(pipeline, keep_hours, dry=dry_run))
    rows = [{"flow": name, **asdict(done)} for name, done in found.items()]
    print_rows(output, ("flow", "files", "bytes", "snapshots"), rows)


@app.command()
def replay(
    folder: Folder = HERE,
    flow: FlowOption = None,
    master: Master = LOCAL,
    bootstrap: ProjectBootstrap = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read a flow's dead letters again, and add those to its table that can be read by now.

    The table remembers how far it got; letters that still cannot be read stay dead letters, for the next time.

    Example: `kavka pipeline replay my-pipeline`
    """
    _need_spark()
    from kavka.spark.pipelines.replay import replay as again
    from kavka.spark.pipelines.run import session

    pipeline = _load(folder, bootstrap)
    chosen = pipeline.flow(flow)
    with session(pipeline, master) as spark:
        done = _clear(lambda: again(spark, pipeline, chosen))
    print_rows(output, ("flow", "letters", "rows"), [{"flow": chosen.name, **asdict(done)}])


@app.command()
def restart(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="Which flow.")],
    folder: Folder = HERE,
) -> None:
    """Have a running pipeline start one flow again, as after a change of its function, while the others go on.

    Example: `kavka pipeline restart orders my-pipeline`
    """
    pipeline = _load(folder, None)
    from kavka.spark.pipelines.running import ask_restart, is_running

    pipeline.flow(flow)
    if not is_running(pipeline.folder):
        raise CommandError(f"the pipeline in {folder} does not run: `kavka pipeline run {folder}`")
    ask_restart(pipeline.folder, flow)
    note(f"asked: flow {flow} starts again after the batch it is at")


@app.command()
def mirror(
    topics: Annotated[str, typer.Argument(metavar="TOPICS", help="Topics with commas between.")],
    to: Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="The cluster to copy to.")],
    checkpoint: Annotated[Path, typer.Option("--checkpoint", metavar="FOLDER", help="Where to remember progress.")],
    to_config: Annotated[
        str | None, typer.Option("--to-config", metavar="FILE", help="A client.properties for the cluster to copy to.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Another name there; may be repeated.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on copying what comes.")] = False,
    exactly_once: Annotated[
        bool, typer.Option("--exactly-once", help="Each record once; it takes transactions.")
    ] = False,
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"] | None,
        typer.Option("--compression", help="How what is written is compressed [default: as the topics' last batches]"),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option("--groups", metavar="NAMES", help="Groups that are to go on there, with commas between."),
    ] = None,
    master: Master = LOCAL,
) -> None:
    """Copy the committed records of topics to another cluster, or to other names, keeping partitions and timestamps.

    At least once by default. With `--groups`, what these have committed is committed there, too, at the same records;
    a group must have no members there.

    Example: `kavka pipeline mirror orders --to 127.0.0.1:9192 --checkpoint mirrored`
    """
    if follow and groups is not None:
        raise typer.BadParameter("a copy that goes on has no end to count from", param_hint="--groups")
    _need_spark()
    from kavka.client.security import SecuredBootstrap
    from kavka.spark.connecting import connection_options
    from kavka.spark.pipelines.jobs import mirror as copy
    from kavka.spark.pipelines.mirroring import codec_of, translate
    from kavka.spark.session import start

    source = {**connection_options(bootstrap), "subscribe": topics}
    target = to if to_config is None else SecuredBootstrap(to, read_client_config(to_config))
    names = key_values(rename or (), "--rename")
    codec = compression or codec_of(source)
    spark = _clear(lambda: start("kavka-mirror", master=master))
    places = []
    try:
        start_copy = partial(copy, spark, source, target, names, str(checkpoint.resolve()), once=not follow)
        query = _clear(lambda: start_copy(compression=codec, exactly_once=exactly_once))
        _clear(query.awaitTermination)
        if groups is not None:
            wanted = [each.strip() for each in groups.split(",") if each.strip()]
            places = _clear(lambda: translate(spark, source, target, names, checkpoint.resolve(), wanted))
    except KeyboardInterrupt:
        query.stop()
    finally:
        spark.stop()
    for place in places:
        at = f"group {place.group} is at offset {place.offset} of {place.topic}-{place.partition}"
        if place.there is None:
            note(f"{at}, and the records behind that are not the same there: nothing is committed")
        else:
            note(f"{at}, and goes on at offset {place.there} of {place.copy}-{place.partition}")
    if any(place.there is None for place in places):
        raise typer.Exit(1)


@app.command()
def verify(
    topics: Annotated[str, typer.Argument(metavar="TOPICS", help="Topics with commas between.")],
    against: Annotated[
        str | None, typer.Option("--against", metavar="HOST:PORT", help="A cluster with copies: compare the records.")
    ] = None,
    against_config: Annotated[
        str | None, typer.Option("--against-config", metavar="FILE", help="A client.properties for that cluster.")
    ] = None,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Another name there; may be repeated.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = LOCAL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read every batch of topics in parallel and check it: CRC, sizes, records, offsets. Exit code 1 if any is bad.

    Gaps in offsets are shown, not counted as faults: compaction and transactions leave them. With `--against` the
    committed records are compared with those of a mirror, partition by partition, whatever their offsets.

    Example: `kavka pipeline verify orders`
    """
    names = key_values(rename or (), "--rename")
    for option, said in (("--against-config", against_config), ("--rename", names)):
        if said and against is None:
            raise typer.BadParameter("it belongs to --against", param_hint=option)
    _need_spark()
    from kavka.client.security import SecuredBootstrap
    from kavka.spark.connecting import connection_options
    from kavka.spark.pipelines.jobs import compare
    from kavka.spark.pipelines.jobs import verify as check
    from kavka.spark.session import start

    options = {**connection_options(bootstrap), "subscribe": topics}
    there = against or ""
    if against_config is not None:
        there = SecuredBootstrap(there, read_client_config(against_config))
    spark = _clear(lambda: start("kavka-verify", master=master))
    try:
        if against is None:
            found = _clear(lambda: check(spark, options))
            columns: tuple[str, ...] = ("topic", "partition", "start", "end", "batches", "records", "gaps", "fault")
        else:
            found = _clear(lambda: compare(spark, options, there, names))
            columns = ("topic", "partition", "records", "copied", "equal")
    finally:
        spark.stop()
    print_rows(output, columns, [asdict(each) for each in found])
    if any(each.fault if against is None else not each.equal for each in found):
        raise typer.Exit(1)


def _load(folder: Path, bootstrap: str | None) -> Pipeline:
    _need_spark()
    from kavka.spark.pipelines.spec import load

    pipeline = load(folder, bootstrap)
    return replace(pipeline, bootstrap=secured(pipeline.bootstrap) or pipeline.bootstrap)


def _need_extra() -> None:
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise CommandError(f"pipelines need Spark: pip install 'kavka[spark]' (missing: {', '.join(missing)})")


def _need_spark() -> None:
    _need_extra()
    from kavka.spark.java import NoJavaError, java_home
    from kavka.spark.session import pyspark_version
    from kavka.spark.versions import SparkVersionError, check_version

    try:
        check_version(pyspark_version())
        java_home()
    except (NoJavaError, SparkVersionError) as error:
        raise CommandError(str(error)) from None


def _clear(work: Any) -> Any:
    """Run something on Spark or on tables; its failure in one line."""
    from pyspark.errors import PySparkException

    from kavka.spark.lake import LakeError
    from kavka.spark.pipelines.progress import one_line

    try:
        return work()
    except LakeError as error:
        raise CommandError(str(error)) from None
    except PySparkException as error:
        raise CommandError(one_line(error)) from None
