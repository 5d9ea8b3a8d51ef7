"""C-21: the page behind a proxy that strips the path under which the world sees it."""

from __future__ import annotations

import base64
import re
import threading
import time
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
import soundfile as sf
import uvicorn
from gradio_client import Client
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.conftest import served

PREFIX = "/stage"
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "host"}


def proxy_to(backend: str) -> Starlette:
    """What nginx does with `location /stage/ { proxy_pass backend/; }`, streams included."""
    client = httpx.AsyncClient(base_url=backend, timeout=60)

    async def forward(request: Request) -> StreamingResponse:
        path = request.url.path.removeprefix(PREFIX) or "/"
        asked = client.build_request(
            request.method,
            f"{path}?{request.url.query}",
            headers=[(name, value) for name, value in request.headers.items() if name not in HOP_BY_HOP],
            content=await request.body(),
        )
        answer = await client.send(asked, stream=True)
        headers = {name: value for name, value in answer.headers.items() if name not in HOP_BY_HOP}
        return StreamingResponse(
            answer.aiter_raw(), answer.status_code, headers, background=BackgroundTask(answer.aclose)
        )

    methods = ["GET", "POST", "DELETE", "HEAD"]
    return Starlette(routes=[Route(PREFIX + "{rest:path}", forward, methods=methods)])


@pytest.fixture(scope="module")
def address(drama3_tiny) -> Iterator[str]:
    """Where the proxy is, the prefix included."""
    with served(drama3_tiny / "checkpoint", root_path=PREFIX) as page:
        config = uvicorn.Config(proxy_to(page.address.rstrip("/")), port=0, log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        (port,) = (s.getsockname()[1] for each in server.servers for s in each.sockets)
        yield f"http://127.0.0.1:{port}{PREFIX}"
        server.should_exit = True
        thread.join()


def test_c_21_a_take_streams_through_it(address):
    outputs = list(Client(address, verbose=False).submit("Go on.", seed="7", api_name="/perform"))
    parts = [base64.b64decode(each[0]["pcm"]) for each in outputs if each[0]["kind"] == "audio"]
    message, wav, _ = outputs[-1]
    assert message["kind"] == "end"
    assert np.array_equal(np.frombuffer(b"".join(parts), np.int16), sf.read(wav, dtype="int16")[0])


def test_c_21_everything_that_the_page_names_is_below_its_path(address):
    page = httpx.get(f"{address}/")
    assert page.status_code == 200
    named = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
    # Gradio names a manifest that only its installable pages have, with a proxy or without.
    own = [each for each in named if not re.match("https?:|data:|/manifest.json", each)]
    assert own
    for each in own:
        assert httpx.get(str(page.url.join(each))).status_code == 200, each
    roots = re.findall(r'"root":"([^"]*)"', page.text)
    assert roots
    assert {root.split("//")[1].partition("/")[2] for root in roots} == {PREFIX[1:]}
