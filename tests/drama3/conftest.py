"""Kernels without a GPU: Triton's interpreter, made to round float32 to bfloat16 as a GPU does.

It stands here so that it comes before any module that defines kernels.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined

import triton
import triton.language as tl
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, TensorHandle

from install import interpretable_numpy

_cast = InterpreterBuilder.cast_impl


def _rounded(builder: InterpreterBuilder, source: TensorHandle, kind: tl.dtype) -> TensorHandle:
    """The interpreter cuts the last 16 bits off, which makes a chain of casts 2 % too small."""
    if (source.dtype.scalar, kind.scalar) != (tl.float32, tl.bfloat16):
        return _cast(builder, source, kind)
    bits = torch.from_numpy(np.ascontiguousarray(source.data, np.float32)).bfloat16().view(torch.int16)
    return TensorHandle(bits.numpy().view(np.uint16).reshape(np.shape(source.data)), tl.bfloat16)


InterpreterBuilder.cast_impl = _rounded


if interpretable_numpy(triton.__version__) and np.lib.NumpyVersion(np.__version__) >= "2.4.0":
    WHY_NOT = (
        f"the kernels aren't interpreted: triton {triton.__version__} goes with numpy before 2.4, and numpy "
        f"{np.__version__} is here; ./test installs one that goes with it"
    )
    GridExecutor.__call__ = lambda *_, **__: pytest.skip(WHY_NOT)
