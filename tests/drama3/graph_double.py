"""CUDA graphs for a machine without a GPU: what a desk captures is recorded, a replay runs the record again.

A capture runs its block under a dispatch mode that keeps every operation with its very tensors, and every
kernel that Triton's interpreter is given; a replay runs them in order and writes results where the capture's
results lie. Like the real thing, a replay follows no Python, and a capture may not look at a number.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from triton.runtime.interpreter import GridExecutor

from engine.drama3 import codec, codec_layers
from engine.drama3.experts import Experts

LOOKS = (
    "local_scalar_dense",
    "item",
    "nonzero",
    "unique",
    "equal",
    "masked_select",
    "is_nonzero",
    "bincount",
)


class GraphDouble:
    """Stands for `torch.cuda.CUDAGraph`."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], Any]] = []
        self.replays = 0

    def replay(self) -> None:
        assert self.steps, "replayed before it was captured"
        self.replays += 1
        for step in self.steps:
            step()


class _Capture(TorchDispatchMode):
    now: _Capture | None = None

    def __init__(self, graph: GraphDouble) -> None:
        super().__init__()
        self.graph, self.paused = graph, False
        self._before: dict[int, tuple[UntypedStorage, UntypedStorage]] = {}

    def keep(self, values: Any) -> None:
        """Remember what tensors hold that are about to be written."""
        for each in _tensors(values):
            storage = each.untyped_storage()
            if storage.data_ptr() not in self._before:
                self._before[storage.data_ptr()] = storage, storage.clone()

    def put_back(self) -> None:
        """A capture runs nothing: what was written is as it was."""
        for storage, was in self._before.values():
            storage.copy_(was)

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not self.paused and op._schema.is_mutable:
            self.keep((args, kwargs))
        results = op(*args, **kwargs)
        if not self.paused:
            name = op._overloadpacket.__name__
            assert name.strip("_0123456789") not in LOOKS, f"{name} looks at a number"
            self.graph.steps.append(_again(op, args, kwargs, results))
        return results


def _again(op, args: tuple, kwargs: dict, results: Any) -> Callable[[], None]:
    given = {each.untyped_storage().data_ptr() for each in _tensors((args, kwargs))}

    def run() -> None:
        for kept, new in zip(_tensors(results), _tensors(op(*args, **kwargs)), strict=True):
            if kept.untyped_storage().data_ptr() not in given:
                kept.copy_(new)

    return run


def _tensors(values: Any) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor)]


@contextmanager
def _graph(graph: GraphDouble, pool=None, stream=None, capture_error_mode="global"):
    with _Capture(graph) as _Capture.now:
        try:
            yield
        finally:
            capture, _Capture.now = _Capture.now, None
    capture.put_back()


def _launch(executor: GridExecutor, *args: Any, **kwargs: Any) -> None:
    capture = _Capture.now
    if capture is None:
        return _run(executor, *args, **kwargs)
    capture.graph.steps.append(lambda: _run(executor, *args, **kwargs))
    capture.paused = True
    capture.keep((args, kwargs))
    try:
        return _run(executor, *args, **kwargs)
    finally:
        capture.paused = False


_run = GridExecutor.__call__


class _Mark:
    """Stands for a stream or an event: here everything has happened when its call returns."""

    def __init__(self, *_: Any) -> None:
        self.recorded = False

    def record(self) -> None:
        self.recorded = True

    def query(self) -> bool:
        return self.recorded

    def synchronize(self) -> None:
        pass


def _unpinned(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def made(*args: Any, pin_memory: bool = False, **kwargs: Any) -> Tensor:
        return make(*args, **kwargs)

    return made


def _blind(look: Callable[..., Any]) -> Callable[..., Any]:
    def looked(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        assert _Capture.now is None or _Capture.now.paused, f"{look.__name__} looks at a number"
        return look(tensor, *args, **kwargs)

    return looked


@pytest.fixture
def graph_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `FrameDesk` and `CodecDesk` work on a CPU."""
    cuda = torch.cuda
    doubles = dict(
        CUDAGraph=GraphDouble,
        graph=_graph,
        graph_pool_handle=lambda: None,
        synchronize=lambda: None,
        Stream=_Mark,
        Event=_Mark,
        stream=lambda _: nullcontext(),
        current_stream=_Mark,
    )
    for name, double in doubles.items():
        monkeypatch.setattr(cuda, name, double)
    for name in ("tolist", "numpy", "__bool__", "__int__", "__float__"):
        monkeypatch.setattr(Tensor, name, _blind(getattr(Tensor, name)))
    monkeypatch.setattr(Experts, "_viewed", Experts._gathered)  # a GPU never looks at the choice
    for user in (codec, codec_layers):
        monkeypatch.setattr(user, "compiled_loops", lambda: (None, "a GPU has none"))
    for name in ("zeros", "empty"):
        monkeypatch.setattr(torch, name, _unpinned(getattr(torch, name)))
    monkeypatch.setattr(Tensor, "pin_memory", Tensor.clone)
    monkeypatch.setattr(GridExecutor, "__call__", _launch)
