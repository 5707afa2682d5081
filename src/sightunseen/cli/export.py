"""Export a model as an ONNX file, or as linear classifiers of fixed classes; or a backbone as an ONNX file."""

import argparse
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightunseen.export.onnx_files import OnnxFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from sightunseen.cli._arguments import add_trust_arguments

    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help="model folder")
    what = "export this backbone instead of a model: --onnx FILE is then a backbone, onnx:FILE, that needs no torch"
    parser.add_argument("--backbone", metavar="NAME", help=what)
    what = "ONNX file to write, with features and class vectors as inputs; - writes it to stdout"
    parser.add_argument("--onnx", type=Path, metavar="FILE", help=what)
    what = ".npz file to write, with weights and bias of each candidate class; - writes it to stdout"
    parser.add_argument("--linear", type=Path, metavar="FILE", help=what)
    what = "classes of --linear: all (default), unseen, seen, or a text file with one label per line"
    parser.add_argument("--candidates", metavar="WHICH", help=what)
    add_trust_arguments(parser, opens=False)


def run(args: argparse.Namespace) -> int:
    """Write the files and describe them; returns the exit code."""
    _check(args)
    if args.backbone is not None:
        return _export_backbone(args)
    from sightunseen.cli._data import candidates_of
    from sightunseen.cli._output import messages_of, output_file
    from sightunseen.export.onnx_files import export_onnx
    from sightunseen.methods import load_model

    model = load_model(args.model)
    # Computed before anything is written, so that an error leaves no file.
    linear = model.to_linear(candidates_of(args.candidates or "all", model)) if args.linear is not None else None
    if args.onnx is not None:
        with output_file(args.onnx, ".onnx") as path, redirect_stdout(messages_of(args.onnx)):
            _print_onnx(export_onnx(model, path), args.onnx)
    if linear is not None:
        with output_file(args.linear, ".npz") as path, redirect_stdout(messages_of(args.linear)):
            linear.save(path)
            _print_linear(linear, args.linear, path.stat().st_size)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Validate the arguments before the model is loaded."""
    from sightunseen.cli._output import STDOUT, check_output
    from sightunseen.core.errors import SettingsError, StorageError

    if (args.model is None) == (args.backbone is None):
        raise SettingsError("give either a model folder or --backbone NAME to export.")
    if args.backbone is not None and (args.onnx is None or args.linear is not None):
        raise SettingsError("a backbone is exported as an ONNX file only. Give --onnx backbone.onnx, without --linear.")
    if args.onnx is None and args.linear is None:
        raise SettingsError("there is nothing to write. Give --onnx model.onnx, --linear weights.npz, or both.")
    if args.candidates is not None and args.linear is None:
        raise SettingsError("--candidates needs --linear; an ONNX file takes its class vectors as an input. Add --linear FILE.")
    if args.onnx == args.linear == STDOUT:
        raise SettingsError("--onnx and --linear cannot both go to stdout. Write one of them to a file.")
    for name, path, ending in (("--onnx", args.onnx, ".onnx"), ("--linear", args.linear, ".npz")):
        if path is None:
            continue
        if path != STDOUT and path.suffix != ending:
            raise SettingsError(f"{name} must end in {ending}; got {path}.")
        if path.is_dir():
            raise StorageError(f"{path} is a folder; expected a file. Give {name} {path / ('model' + ending)}.")
        check_output(path, binary=True)


def _export_backbone(args: argparse.Namespace) -> int:
    from sightunseen.cli._output import STDOUT, messages_of, output_file
    from sightunseen.features.backbones import open_backbone
    from sightunseen.features.onnx_export import export_backbone

    backbone = open_backbone(args.backbone, "cpu")
    with output_file(args.onnx, ".onnx") as path, redirect_stdout(messages_of(args.onnx)):
        made = export_backbone(backbone, path)
        print(f"wrote {args.onnx} ({path.stat().st_size / 1e6:.1f} MB): {made.size} features per photo")
        print(f"  compared with {args.backbone}: features differ by {made.difference:.1e} of the largest feature")
        if args.onnx != STDOUT:
            print(f"  use it without torch: --backbone onnx:{args.onnx}")
    return 0


def _print_onnx(file: "OnnxFile", path: Path) -> None:
    print(f"wrote {path} ({file.path.stat().st_size / 1e6:.1f} MB)")
    for what, tensors in (("inputs", file.inputs), ("outputs", file.outputs)):
        print(f"  {what}: " + ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in tensors.items()))
    if "seen_indices" in file.inputs:
        print("  seen_indices: index of each class among the seen classes, as in the metadata; -1 for other classes")
    print("  metadata: labels, class_vectors, seen_indices, attribute_names, semantics, temperature, none_below, backbone")
    if file.difference is None:
        print("  not compared with the model: onnxruntime is not installed (pip install 'sightunseen[onnx]')")
    else:
        print(f"  compared with the model on 1,000 random images: scores differ by {file.difference:.1e} of the largest score")


def _print_linear(linear: Any, path: Path, size: int) -> None:
    classes, features = linear.weights.shape
    print(f"wrote {path} ({size / 1e6:.1f} MB)")
    print(f"  labels ({classes}), weights ({classes}, {features}), bias ({classes})")
    scaled = "x" if linear.shift is None else "(x - shift) * factor"
    scaled = f"(sign({scaled}) * sqrt(|{scaled}|))" if linear.root else scaled
    print(f"  scores: weights . {scaled}{' / its L2 norm' if linear.normalise else ''} + bias")
