"""Requests are looked at before the page framework acts on them. Over HTTP, with the tiny checkpoint."""

from __future__ import annotations

import http.server
import threading
import time

import httpx
import pytest

from prompts.text import LINE_CHARACTERS
from web.entrance import BODY_BYTES


@pytest.fixture
def stranger():
    """A web server that counts who comes: its address and the paths that were asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


ROUTES = ["call/encode", "call/say", "run/encode", "api/encode", "queue/join"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("spelled", ["{}/a.wav", " {}/a.wav", "https://example.org/a.wav", "ftp://a.org/b"])
def test_a_file_by_web_address_is_refused_unfetched(house, stranger, route, spelled):
    """E-03: no field of any endpoint fetches an address; the refusal is one sentence."""
    address, asked = stranger
    clip = {"path": spelled.format(address), "meta": {"_type": "gradio.FileData"}}
    body = {"data": [[{"deep": clip}], clip], "fn_index": 0, "session_hash": "e03"}
    answer = httpx.post(f"{house.address}gradio_api/{route}", json=body)
    assert answer.status_code == 400
    assert answer.json()["detail"] == "A file is given as a web address; upload the file itself."
    assert asked == []


def test_an_uploaded_file_may_carry_an_address_of_this_server(house):
    """E-03: only `path` decides; what the page sends of an upload goes through."""
    clip = {
        "path": "/nowhere/x.wav",
        "url": f"{house.address}gradio_api/file=/nowhere/x.wav",
        "meta": {"_type": "gradio.FileData"},
    }
    answer = httpx.post(f"{house.address}gradio_api/call/encode", json={"data": [clip]})
    assert answer.status_code == 200
    assert "event_id" in answer.json()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_body_that_is_too_large_is_refused_before_it_is_read(house, streamed):
    """E-06: 50 MB of text cost neither memory nor time."""
    body = b'{"data": ["' + b"a" * (BODY_BYTES + 1) + b'"]}'
    parts = (body[at : at + 65_536] for at in range(0, len(body), 65_536))
    answer = httpx.post(f"{house.address}gradio_api/call/say", content=parts if streamed else body)
    assert answer.status_code == 413
    assert "larger than 8 MB; send less text" in answer.json()["detail"]


@pytest.mark.parametrize("endpoint", ["say", "perform"])
def test_a_text_that_is_too_long_is_refused_before_it_is_walked(house, endpoint, monkeypatch):
    """E-06: the length is asked for first, whatever would be done with the words."""
    walked = []
    monkeypatch.setattr("web.handlers.expected_seconds", lambda text: walked.append(len(text)) or 1.0)
    call, text = f"{house.address}gradio_api/call/{endpoint}", "a b " * LINE_CHARACTERS
    given = [text, "", ""] if endpoint == "say" else [text, "", "", "", "", "", [], [], "", 1.0, 0.9, 0]
    event = httpx.post(call, json={"data": given}).json()["event_id"]
    answer = httpx.get(f"{call}/{event}", timeout=20).text
    assert "split it into several lines" in answer
    assert walked == []


def test_a_body_that_is_no_json_is_refused(house):
    """E-06: nothing is done with what nobody can read."""
    began = time.monotonic()
    answer = httpx.post(f"{house.address}gradio_api/call/say", content=b"[" * 1_000_000)
    assert answer.status_code == 400
    assert time.monotonic() - began < 5
