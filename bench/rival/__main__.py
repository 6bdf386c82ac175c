"""`python -m bench.rival`: the same questions to Apache Kafka and to Kavka in turns; a table, JSON, a document."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.report import OUT
from bench.rival import apache, kavka, machine, results
from bench.rival.family import split_cores
from bench.rival.figures import KAFKA, KAVKA, Sample, failures, lines, tally
from bench.rival.table import on_screen
from bench.rival.target import STEADY, Encrypted, Scale
from bench.wire import Caller

QUESTIONS = ("startup", "acks", "bulk", "raw", "tls", "partitions", "connections", "fanout", "share", "cluster")
PAIRS = 5
DOCUMENT = Path(__file__).resolve().parents[1] / "RESULTS.md"
STARTERS = {KAFKA: apache.running, KAVKA: kavka.running}


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, show, keep; a row that is lost is shown, not an error."""
    options = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 170)
    if options.render:
        _report(*results.load(options.render), options.results or DOCUMENT, console)
        return 0
    reason = apache.missing()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 1
    kavka.prepare()
    for signum in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs with the first ignored
        signal.signal(signum, _interrupted)
    available = frozenset(os.sched_getaffinity(0))
    brokers, client = (available, available) if options.unpinned else split_cores(available)
    os.sched_setaffinity(0, client)
    questions = options.only or list(QUESTIONS)
    pairs = options.pairs or (1 if options.quick else PAIRS)
    facts = {**machine.facts(brokers, client), "sizes": "small (--quick)" if options.quick else "full"}
    samples_file = OUT / f"rival-{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    samples: list[Sample] = []
    interrupted = False
    try:
        samples.extend(_ask_all(questions, pairs, Scale(options.quick), brokers, console))
    except KeyboardInterrupt:
        interrupted = True
        console.print("interrupted: what was measured until now follows")
    results.save(samples, facts, samples_file)
    whole = not (interrupted or options.quick) and questions == list(QUESTIONS) and pairs >= PAIRS
    _report(samples, facts, options.results or (DOCUMENT if whole else samples_file.with_suffix(".md")), console)
    console.print(f"every sample: {os.path.relpath(samples_file)}")
    return 130 if interrupted else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.rival", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=QUESTIONS, metavar="NAME", help=f"one of {', '.join(QUESTIONS)}"
    )
    parser.add_argument("--pairs", type=int, help=f"how often to ask both (default {PAIRS}, with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out; the figures mean little")
    parser.add_argument("--unpinned", action="store_true", help="let brokers and client share all cores")
    parser.add_argument("--results", type=Path, metavar="FILE", help="where the document goes (a full run: RESULTS.md)")
    parser.add_argument("--render", type=Path, metavar="JSON", help="measure nothing: write the document of a kept run")
    return parser


def _ask_all(
    questions: Sequence[str], pairs: int, scale: Scale, cores: frozenset[int], console: Console
) -> Iterator[Sample]:
    columns = TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress, _scratch() as scratch:
        task = progress.add_task("", total=2 * pairs * len(questions))
        for pair in range(1, pairs + 1):
            for question in questions:
                # Who is first takes turns too: a machine that slows down or warms up favours neither.
                for rival in (KAFKA, KAVKA) if pair % 2 else (KAVKA, KAFKA):
                    progress.update(task, description=f"pair {pair}: {question}, {rival}")
                    yield from _ask(question, rival, pair, scale, cores, scratch)
                    progress.advance(task)


def _ask(question: str, rival: str, pair: int, scale: Scale, cores: frozenset[int], scratch: Path) -> Iterator[Sample]:
    module = importlib.import_module(f"bench.rival.questions.{question}")
    folder = scratch / f"{rival}-{question}-{pair}"
    try:
        config = {**STEADY, **getattr(module, "CONFIG", {})}
        encrypted = Encrypted.made(scratch / "certificates") if getattr(module, "ENCRYPTED", False) else None
        with STARTERS[rival](folder, cores, module.NODES, config, encrypted) as target:
            with Caller(target.bootstrap.split(",")[0]) as caller:
                caller.new_producer()  # waits until the node can give producer ids too
            found = module.figures(target, scale)
    except Exception as error:  # the other questions can still be answered
        traceback.print_exc()
        yield Sample(pair, rival, question, None, f"{type(error).__name__}: {error}".splitlines()[0][:200])
    else:
        yield from (Sample(pair, rival, question, figure) for figure in found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kavka-rival-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _report(samples: Sequence[Sample], facts: dict[str, str], document: Path, console: Console) -> None:
    rows = lines(samples)
    console.print(on_screen(rows, failures(samples), f"{tally(rows)}; {facts['cores']}; commit {facts['commit']}"))
    results.write(samples, facts, document)
    console.print(f"document: {os.path.relpath(document)}")


def _interrupted(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
