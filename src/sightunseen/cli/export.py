"""Write a model for use outside of Python: as ONNX, or as the linear classifiers of a fixed list of classes."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightunseen.export.onnx_files import OnnxFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    parser.add_argument("--onnx", type=Path, metavar="FILE", help="features and class vectors in, scores out, as FILE.onnx")
    parser.add_argument("--linear", type=Path, metavar="FILE", help="weights and bias of a fixed list of classes, as FILE.npz")
    parser.add_argument(
        "--candidates",
        metavar="WHICH",
        help="the classes of --linear: all (default), unseen, seen, or a text file with one label a line",
    )


def run(args: argparse.Namespace) -> int:
    """Write what is asked for and say what it is."""
    _check(args)
    from sightunseen.cli._data import candidates_of
    from sightunseen.export.onnx_files import export_onnx
    from sightunseen.methods import load_model

    model = load_model(args.model)
    # Made before anything is written, so that a refusal leaves nothing behind.
    linear = model.to_linear(candidates_of(args.candidates or "all", model)) if args.linear is not None else None
    if args.onnx is not None:
        _say_onnx(export_onnx(model, args.onnx))
    if linear is not None:
        linear.save(args.linear)
        _say_linear(linear, args.linear)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse what cannot be meant, before the model is read."""
    from sightunseen.core.errors import SettingsError, StorageError

    if args.onnx is None and args.linear is None:
        raise SettingsError("say what to write: --onnx model.onnx, --linear weights.npz, or both.")
    if args.candidates is not None and args.linear is None:
        raise SettingsError("--candidates belongs to --linear; an ONNX file is given its class vectors at every run.")
    for name, path, ending in (("--onnx", args.onnx, ".onnx"), ("--linear", args.linear, ".npz")):
        if path is not None and path.suffix != ending:
            raise SettingsError(f"{name} must be a file whose name ends in {ending}; got {path}.")
        if path is not None and path.is_dir():
            raise StorageError(f"{path} is a folder. Give {name} the name of a file, such as {path / ('model' + ending)}.")


def _say_onnx(file: "OnnxFile") -> None:
    print(f"wrote {file.path} ({file.path.stat().st_size / 1e6:.1f} MB)")
    for what, tensors in (("inputs", file.inputs), ("outputs", file.outputs)):
        print(f"  {what}: " + ", ".join(f"{name} ({_shape(shape)})" for name, shape in tensors.items()))
    if "seen_indices" in file.inputs:
        print("  seen_indices: the place of a class among the seen ones, as in the file's metadata; -1 for any other class")
    print("  metadata: labels, class_vectors, seen_indices, attribute_names, semantics, temperature, none_below, backbone")
    if file.difference is None:
        print("  not compared with the model: that needs onnxruntime (pip install 'sightunseen[onnx]')")
    else:
        print(f"  compared with the model on 1,000 random images: it differs by {file.difference:.1e} of the largest score")


def _say_linear(linear: Any, path: Path) -> None:
    classes, features = linear.weights.shape
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
    print(f"  labels ({classes}), weights ({classes}, {features}), bias ({classes})")
    scaled = "x" if linear.shift is None else "(x - shift) * factor"
    scaled = f"(sign({scaled}) * sqrt(|{scaled}|))" if linear.root else scaled
    print(f"  scores: weights . {scaled}{' / its length' if linear.normalise else ''} + bias")


def _shape(shape: tuple[int | str, ...]) -> str:
    return ", ".join(map(str, shape))
