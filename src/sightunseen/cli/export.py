"""Export a model as an ONNX file, or as linear classifiers of fixed classes."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightunseen.export.onnx_files import OnnxFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    what = "ONNX file to write, with features and class vectors as inputs"
    parser.add_argument("--onnx", type=Path, metavar="FILE", help=what)
    what = ".npz file to write, with weights and bias of each candidate class"
    parser.add_argument("--linear", type=Path, metavar="FILE", help=what)
    what = "classes of --linear: all (default), unseen, seen, or a text file with one label per line"
    parser.add_argument("--candidates", metavar="WHICH", help=what)


def run(args: argparse.Namespace) -> int:
    """Write the files and describe them; returns the exit code."""
    _check(args)
    from sightunseen.cli._data import candidates_of
    from sightunseen.export.onnx_files import export_onnx
    from sightunseen.methods import load_model

    model = load_model(args.model)
    # Computed before anything is written, so that an error leaves no file.
    linear = model.to_linear(candidates_of(args.candidates or "all", model)) if args.linear is not None else None
    if args.onnx is not None:
        _print_onnx(export_onnx(model, args.onnx))
    if linear is not None:
        linear.save(args.linear)
        _print_linear(linear, args.linear)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Validate the arguments before the model is loaded."""
    from sightunseen.core.errors import SettingsError, StorageError
    from sightunseen.core.files import check_writable

    if args.onnx is None and args.linear is None:
        raise SettingsError("there is nothing to write. Give --onnx model.onnx, --linear weights.npz, or both.")
    if args.candidates is not None and args.linear is None:
        raise SettingsError("--candidates needs --linear; an ONNX file takes its class vectors as an input. Add --linear FILE.")
    for name, path, ending in (("--onnx", args.onnx, ".onnx"), ("--linear", args.linear, ".npz")):
        if path is not None and path.suffix != ending:
            raise SettingsError(f"{name} must end in {ending}; got {path}.")
        if path is not None and path.is_dir():
            raise StorageError(f"{path} is a folder; expected a file. Give {name} {path / ('model' + ending)}.")
        if path is not None:
            check_writable(path)


def _print_onnx(file: "OnnxFile") -> None:
    print(f"wrote {file.path} ({file.path.stat().st_size / 1e6:.1f} MB)")
    for what, tensors in (("inputs", file.inputs), ("outputs", file.outputs)):
        print(f"  {what}: " + ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in tensors.items()))
    if "seen_indices" in file.inputs:
        print("  seen_indices: index of each class among the seen classes, as in the metadata; -1 for other classes")
    print("  metadata: labels, class_vectors, seen_indices, attribute_names, semantics, temperature, none_below, backbone")
    if file.difference is None:
        print("  not compared with the model: onnxruntime is not installed (pip install 'sightunseen[onnx]')")
    else:
        print(f"  compared with the model on 1,000 random images: scores differ by {file.difference:.1e} of the largest score")


def _print_linear(linear: Any, path: Path) -> None:
    classes, features = linear.weights.shape
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
    print(f"  labels ({classes}), weights ({classes}, {features}), bias ({classes})")
    scaled = "x" if linear.shift is None else "(x - shift) * factor"
    scaled = f"(sign({scaled}) * sqrt(|{scaled}|))" if linear.root else scaled
    print(f"  scores: weights . {scaled}{' / its L2 norm' if linear.normalise else ''} + bias")
