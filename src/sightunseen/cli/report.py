"""Write a report on a model or on the results of a benchmark: one HTML file with all figures, which needs no network."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightunseen.report.page import Page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    from sightunseen.cli._arguments import add_data_arguments, add_trust_arguments, new_folder

    parser.add_argument("subject", metavar="MODEL|RESULTS", type=Path, help="a model folder, or the results of a benchmark")
    add_data_arguments(parser, needed=False)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the page to write, such as report.html; - for stdout"
    )
    parser.add_argument(
        "--images", type=Path, metavar="FOLDER", help="folder of the photos, to show them instead of their names"
    )
    parser.add_argument(
        "--figures", type=new_folder, metavar="FOLDER", help="also write every figure as SVG and PDF, for a paper"
    )
    parser.add_argument("--quick", action="store_true", help="leave out figures that need training or t-SNE")
    parser.add_argument("--seed", type=int, default=0, help="random seed of t-SNE (default: 0)")
    add_trust_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page and print its path."""
    from sightunseen.cli._output import messages_of, output_file
    from sightunseen.core.errors import DataError, MissingDependencyError

    _check_output(args)
    try:
        import vl_convert  # noqa: F401 - imported now, so that a missing package is reported before minutes of work

        import sightunseen.report.page  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"reports need {error.name}: pip install 'sightunseen[report]'") from error
    if (args.subject / "jobs").is_dir():
        page = _benchmark(args)
    elif args.data is None:
        raise DataError(
            f"{args.subject} contains no results of a benchmark. If it is a model, give its data, too: "
            "sightunseen report MODEL DATA --out report.html"
        )
    else:
        page = _model(args)
    with output_file(args.out, ".html") as file:
        page.save(file)
        size = file.stat().st_size
    messages = messages_of(args.out)
    print(f"wrote {args.out} ({size / 1e6:.1f} MB): open it in a browser", file=messages)
    if args.figures is not None:
        written = [path for figure in page.figures for path in figure.save(args.figures)]
        print(f"wrote {len(written)} files to {args.figures}", file=messages)
    return 0


def _check_output(args: argparse.Namespace) -> None:
    """Check that the output paths can be written, before work that may take minutes."""
    from sightunseen.cli._output import check_output
    from sightunseen.core.errors import SettingsError, StorageError
    from sightunseen.core.files import check_writable

    def check_page(path: Path) -> None:
        if path.suffix.lower() not in (".html", ".htm"):
            raise SettingsError(f"--out must be an HTML file, such as report.html; got {path}.")
        if path.is_dir():
            raise StorageError(f"{path} is a folder. Give --out the name of a file, such as {path / 'report.html'}.")

    check_output(args.out, check_page)
    if args.figures is not None:
        check_writable(args.figures / "figure.svg")


def _benchmark(args: argparse.Namespace) -> "Page":
    from sightunseen.benchmark.store import Store
    from sightunseen.core.errors import DataError, SettingsError
    from sightunseen.report.benchmark_page import benchmark_page

    if args.data is not None:
        raise SettingsError(f"{args.subject} contains results of a benchmark, whose page needs no data. Leave {args.data} out.")
    outcomes = Store(args.subject).outcomes().values()
    if not outcomes:
        raise DataError(f"{args.subject} contains no outcome yet. Run the jobs first: sightunseen benchmark run")
    return benchmark_page(outcomes, f"Benchmark {args.subject.resolve().name}")


def _model(args: argparse.Namespace) -> "Page":
    from sightunseen.cli._data import load_images, open_to_test
    from sightunseen.data.table_files import is_unlabelled
    from sightunseen.methods import load_model
    from sightunseen.report.model_page import ModelReport, model_page
    from sightunseen.report.thumbnails import Photos
    from sightunseen.report.unlabelled_page import unlabelled_page

    model = load_model(args.subject)
    title = f"Report on {args.subject.resolve().name}"
    photos = None if args.images is None else Photos(args.images)
    if is_unlabelled(args.data):
        images = load_images(args.data, model)
        return unlabelled_page(title, model, *images, photos, None if args.quick else _tsne(args.seed))
    opened = open_to_test(args, model)
    report = ModelReport(title, model, opened.data, opened.findings, photos=photos)
    return model_page(report if args.quick else _with_reruns(report, not opened.differing, args.seed))


def _with_reruns(report: Any, trained_on_it: bool, seed: int) -> Any:
    """Add to a ModelReport the parts that need training: training curves and joint embedding spaces."""
    from dataclasses import replace

    from sightunseen.analysis.joint_spaces import space_models
    from sightunseen.analysis.reruns import rerun
    from sightunseen.cli._long_run import ProgressBar
    from sightunseen.report.model_page import image_names
    from sightunseen.report.space_figures import space_of

    model, data, hooks = report.model, report.data, [ProgressBar()]
    if not trained_on_it or not len(data.train) or not len(data.test_unseen):
        print(
            "note: training is not repeated; it needs the data that the model was trained on and test images.", file=sys.stderr
        )
        return report
    reruns = rerun(model, data, hooks)
    test = data.test_unseen
    known = {"names": image_names(data, test), "truth": test.y}
    spaces = [
        space_of(name, other, test.X, data.unseen, _tsne(seed, name), **known)
        for name, other in space_models(model, reruns, data, hooks)
    ]
    return replace(report, reruns=reruns, spaces=spaces)


def _tsne(seed: int, name: str = "") -> Any:
    """``tsne_embedding`` of images and classes with a progress bar on stderr."""
    from rich.console import Console
    from rich.progress import Progress

    from sightunseen.analysis.tsne import tsne_embedding

    def embed(images: Any, classes: Any) -> Any:
        console = Console(stderr=True)
        with Progress(console=console, disable=not console.is_terminal) as progress:
            bar = progress.add_task(f"t-SNE of {len(images) + len(classes):,} points{name and f', {name}'}", total=None)
            return tsne_embedding(images, classes, seed, lambda done, total: progress.update(bar, completed=done, total=total))

    return embed
