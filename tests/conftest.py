"""What every test shares: the golden checkpoints, and no silent skips in CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

torch.set_num_threads(1)  # tiny matrices: a second thread only waits for the first
DATA = Path(__file__).parent / "data"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    excused = item.get_closest_marker("gpu") or item.get_closest_marker("slow")
    if os.environ.get("TABLEREAD_CI") and report.skipped and not hasattr(report, "wasxfail") and not excused:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped in CI: {report.longrepr}"


@pytest.fixture(scope="session")
def drama3_tiny(tmp_path_factory) -> Path:
    """A golden folder of the Drama 3 layout, whole: the tower layers of checkpoint_fp8, which no array
    depends on and which would be 1.5 MB, are put back as zeros."""
    folder = tmp_path_factory.mktemp("golden") / "drama3_tiny"
    shutil.copytree(DATA / "drama3_tiny", folder)
    _complete_tower(folder / "checkpoint_fp8")
    return folder


@pytest.fixture(scope="session")
def tiny_family(drama3_tiny):
    """The tiny checkpoint, loaded. It speaks noise, mostly up to the frame cap, and 10 ms a frame."""
    from engine.drama3.family import Drama3Family

    return Drama3Family.load(drama3_tiny / "checkpoint", "tiny", "local", torch.device("cpu"))


@pytest.fixture(scope="module")
def house(drama3_tiny) -> Iterator[SimpleNamespace]:
    """The whole page, served: its address, its blocks, and the handlers behind it."""
    with served(drama3_tiny / "checkpoint") as page:
        yield page


@contextmanager
def served(checkpoint: Path, **launch: object) -> Iterator[SimpleNamespace]:
    """The page over a checkpoint; `launch` goes to Gradio's `launch`."""
    import app  # late, like all of it: only tests of the page need Gradio
    from web import gpu
    from web.cast_stage import CastStage
    from web.handlers import Stage
    from web.queue import Gate
    from web.rooms import Rooms
    from web.scene_stage import SceneStage
    from web.shelf import Shelf

    shelf, rooms = Shelf(), Rooms()
    stage = Stage(gpu.open_house(str(checkpoint)), Gate(), shelf)
    scenes = SceneStage(stage, rooms)
    blocks = app.build(stage, "A test performs here.", scenes)
    _, address, _ = blocks.queue().launch(
        prevent_thread_lock=True, quiet=True, ssr_mode=False, **app.LOOKS, **launch
    )
    yield SimpleNamespace(address=address, blocks=blocks, stage=stage, scenes=scenes, casts=CastStage(scenes))
    blocks.close(verbose=False)
    shelf.close()
    rooms.close()


@pytest.fixture
def prompt_vocoder(monkeypatch):
    """Sound comes out of the vocoder with the step it falls due at, however busy the machine is."""
    from engine.vocoder import ThreadVocoder

    heard = ThreadVocoder.heard
    monkeypatch.setattr(ThreadVocoder, "heard", lambda vocoder, wait: heard(vocoder, True))


def _complete_tower(folder: Path) -> None:
    import json

    from safetensors.torch import save_file

    from engine.drama3.config import Drama3Config
    from engine.drama3.model import Drama3Model

    with torch.device("meta"):
        slots = dict(Drama3Model(Drama3Config.from_folder(folder)).tower.slots())
    layers = {key: torch.zeros(view.shape) for key, view in slots.items() if ".layers." in key}
    save_file(layers, folder / "tower.safetensors")
    index = folder / "model.safetensors.index.json"
    weight_map = json.loads(index.read_text())["weight_map"]
    index.write_text(json.dumps({"weight_map": {**weight_map, **dict.fromkeys(layers, "tower.safetensors")}}))
