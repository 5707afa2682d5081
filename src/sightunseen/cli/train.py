"""Train a model; hyperparameters are selected on validation classes and the test images are evaluated once."""

import argparse
import shlex
import sys
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sightunseen.methods.presets import Preset
    from sightunseen.pipeline import AutomaticSpecification, TrainingSpecification

AUTO = "auto"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import add_data_arguments, add_run_arguments, positive
    from sightunseen.cli._cluster import add_cluster_argument

    add_data_arguments(parser)
    add_run_arguments(parser)
    what = (
        "name listed by sightunseen methods, package.module:Class of your own, or auto to choose one on class folds (default: "
        "Foresight; CVC with --protocol paper or a preset that Foresight lacks, such as full)"
    )
    parser.add_argument("--method", metavar="NAME", help=what)
    what = (
        "also choose the feature scaling on validation classes: unit, standard, root or whitened, in addition to the method's "
        "default"
    )
    parser.add_argument("--search-scaling", action="store_true", help=what)
    parser.add_argument("--seed", type=int, default=0, help="random seed of selection and training (default: 0)")
    what = "number of models with consecutive seeds; prints mean ± std, saves the first model (default: 1)"
    parser.add_argument("--seeds", type=positive, default=1, metavar="N", help=what)
    what = "device (default: a GPU if there is one)"
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help=what)
    add_cluster_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Train, save and print the results; returns the exit code."""
    from sightunseen.cli._data import open_to_train
    from sightunseen.cli._long_run import long_work, output_folder
    from sightunseen.methods import GradientTrainedClassifier
    from sightunseen.methods.presets import Preset, preset
    from sightunseen.pipeline import train

    with output_folder(args) as workspace:
        name = args.method or _default_method(args)
        chosen = Preset() if name == AUTO else preset(args.preset, name)
        specification = _automatic(args) if name == AUTO else _specification(args, name, chosen)
        method = getattr(specification, "method", None)  # None: to be chosen among methods without gradient training
        opened = open_to_train(args, chosen.semantics or getattr(method, "semantics", None))
        identity = {**asdict(specification), "method": getattr(method, "__name__", AUTO), "data": opened.data.describe()}
        by_gradients = method is not None and issubclass(method, GradientTrainedClassifier)
        with long_work(workspace, identity, by_gradients) as hooks, _on_cluster(args, method):
            model = train(specification, opened.data, workspace, opened.findings, hooks)
        model.save(args.out)
    _report(model, args)
    return 0


@contextmanager
def _on_cluster(args: argparse.Namespace, method: Any) -> "Iterator[None]":
    """Compute sums over the images on the cluster of ``--cluster``, if there is one."""
    from sightunseen.cli._cluster import connected
    from sightunseen.methods import OnePassClassifier
    from sightunseen.methods.base.passes import mapping_parts

    if args.cluster is not None and not (method is not None and issubclass(method, OnePassClassifier)):
        name = AUTO if method is None else method.__name__
        print(f"note: {name} needs all images at once; it is trained on this machine, not on the cluster.", file=sys.stderr)
        args.cluster = None
    with connected(args) as cluster, mapping_parts(None if cluster is None else cluster.map_ordered):
        yield


def _default_method(args: argparse.Namespace) -> str:
    """Return Foresight or, with what only CVC has, CVC; a note says so."""
    from sightunseen.methods import Foresight
    from sightunseen.methods.base.presets import QUICK
    from sightunseen.methods.presets import METHOD, preset

    wanted = args.preset != QUICK and args.preset not in Foresight.presets
    if not wanted and args.protocol != "paper":
        return "Foresight"
    preset(args.preset)  # before the note: raises if CVC lacks it, too
    why = f"Foresight has no preset {args.preset}" if wanted else f"--protocol paper is that of {METHOD}"
    print(f"note: {why}, so {METHOD} is trained instead of Foresight. --method chooses another.", file=sys.stderr)
    return METHOD


def _specification(args: argparse.Namespace, name: str, chosen: "Preset") -> "TrainingSpecification":
    """Build the training specification; raises ``SettingsError`` on unknown or invalid hyperparameters."""
    from sightunseen.cli._arguments import parse_settings, selecting_of
    from sightunseen.methods import method_class
    from sightunseen.methods.catalogue import card_of
    from sightunseen.pipeline import TrainingSpecification

    method, given, selecting = method_class(card_of(name).estimator), parse_settings(args.set), selecting_of(args)
    _check_names(name, {**given, **(selecting["search"] or {})})
    if selecting["search"] is None and args.select != "none":
        selecting["search"] = chosen.search_without({**card_of(name).settings, **given})
    parameters = {**chosen.settings, **card_of(name).settings, **given}
    if "device" in method._get_param_names():
        parameters["device"] = args.device
    elif args.device == "cuda":
        print(f"note: {name} runs on the CPU; --device cuda has no effect.", file=sys.stderr)
    seeds = {"seed": args.seed, "n_seeds": args.seeds}
    return TrainingSpecification(method=method, parameters=parameters, search_scaling=args.search_scaling, **seeds, **selecting)


def _automatic(args: argparse.Namespace) -> "AutomaticSpecification":
    """Specify that the method is chosen; raises ``SettingsError`` on options that need a named method."""
    from sightunseen.cli._arguments import selecting_of
    from sightunseen.core.errors import SettingsError
    from sightunseen.methods.base.presets import QUICK
    from sightunseen.pipeline import AutomaticSpecification

    options = {
        "--set": args.set,
        f"--preset {args.preset}": args.preset != QUICK,
        "--search-scaling": args.search_scaling,
    }
    given = next((name for name, is_given in options.items() if is_given), None)
    if given:
        raise SettingsError(f"--method auto chooses hyperparameters as well; {given} needs a named method. Give --method NAME.")
    if args.device == "cuda":
        print("note: --method auto compares methods that run on the CPU; --device cuda has no effect.", file=sys.stderr)
    specification = AutomaticSpecification(seed=args.seed, n_seeds=args.seeds, **selecting_of(args))
    print(f"comparing {', '.join(specification.candidates())} on class folds", file=sys.stderr)
    return specification


def _check_names(name: str, given: dict[str, Any]) -> None:
    """Raise ``SettingsError`` on an unknown hyperparameter, with a hint where it can be set."""
    from sightunseen.core.errors import SettingsError
    from sightunseen.methods import METHODS, method_class
    from sightunseen.methods.catalogue import card_of
    from sightunseen.methods.presets import METHOD

    known = set(method_class(card_of(name).estimator)._get_param_names()) - {"seed", "device"}
    unknown = sorted(set(given) - known)
    if unknown:
        advice = f" {METHOD} has it: give --method {METHOD}." if unknown[0] in METHODS[METHOD]._get_param_names() else ""
        if unknown[0] in ("seed", "device"):
            advice = f" Give --{unknown[0]}."
        raise SettingsError(f"{name} has no hyperparameter '{unknown[0]}'; it has {', '.join(sorted(known))}.{advice}")


def _report(model: Any, args: argparse.Namespace) -> None:
    from sightunseen.cli._arguments import shown_data
    from sightunseen.cli._printing import print_calibration, print_choice, print_methods, print_results, print_verdict
    from sightunseen.methods import AdaptableClassifier

    record = model.record_
    print_verdict(record.verdict)
    print_methods(record, args.verbose)
    print_choice(record, args.verbose)
    print_calibration(model.calibration_, args.verbose)
    if record.results:
        by = "selected on TEST data" if record.protocol == "paper" else "test images evaluated once"
        title = f"{record.data['name']}, protocol {record.protocol} ({by}), percent"
        print_results(title, _rows(record), None if record.seeds else record.intervals)
    of_seed = f" (the model of seed {record.seed})" if record.seeds else ""
    print(f"saved {args.out}{of_seed} after {record.wall_seconds:.0f} s")
    if record.results and isinstance(model, AdaptableClassifier):
        model_folder, adapted = shlex.quote(str(args.out)), shlex.quote(f"{args.out}-t")
        print(f"next: sightunseen adapt {model_folder} {shown_data(args)} --out {adapted}")


def _rows(record: Any) -> dict[str, dict[str, Any]]:
    """Results of the model, or of each seed with mean and standard deviation."""
    if not record.seeds:
        return {"inductive": record.results}
    found = dict(zip(record.seeds["seeds"], record.seeds["results"], strict=True))
    return {
        **{f"seed {seed}": results for seed, results in found.items()},
        "mean": record.seeds["mean"],
        "± std": record.seeds["std"],
    }
