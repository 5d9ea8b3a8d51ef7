"""The entrance: what a request brings is looked at before the page framework does anything with it.

The framework fetches a file that is given as a web address before any handler runs, and reads a body of any
size into memory. So both are refused here, in front of its queue and its run routes.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES = 8 << 20  # a script of a million characters, each as an escape of six
UPLOAD = "/gradio_api/upload"  # streamed to disk by the framework, under its own limit
ADDRESS = re.compile(r"\s*([a-z][a-z0-9+.-]*:)?[/\\]{2}", re.IGNORECASE)
TOO_LARGE = f"The request is larger than {BODY_BYTES >> 20} MB; send less text, or upload files."
NO_ADDRESS = "A file is given as a web address; upload the file itself."
NO_JSON = "The request is no JSON; send a JSON object."


class Refused(Exception):
    """A request that goes no further: the status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Entrance:
    """ASGI middleware that bounds bodies and lets no file in that is a web address. One per server."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_call = scope["type"] == "http" and scope["method"] not in ("GET", "HEAD", "OPTIONS")
        if not is_call or scope["path"].rstrip("/").endswith(UPLOAD):
            await self.app(scope, receive, send)
            return
        try:
            body = await _body(scope, receive)
            if body.strip():
                await asyncio.to_thread(check_body, body)
        except Refused as problem:
            told = {"detail": str(problem), "error": str(problem)}  # clients read one or the other
            await JSONResponse(told, problem.status)(scope, receive, send)
            return
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        await self.app(scope, again, send)


def check_body(body: bytes) -> None:
    """Raise Refused for a body that is no JSON, or in which a file is given as a web address.

    Only `path` decides: a file that was just uploaded may carry a `url` of this server.
    """
    try:
        waiting: list[Any] = [json.loads(body)]
    except (ValueError, RecursionError):
        raise Refused(400, NO_JSON) from None
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            path = value.get("path")
            if isinstance(path, str) and ADDRESS.match(path):
                raise Refused(400, NO_ADDRESS)
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


async def _body(scope: Scope, receive: Receive) -> bytes:
    """The whole body. Raises Refused as soon as it is too large, or the caller has gone."""
    told = dict(scope["headers"]).get(b"content-length", b"0")
    if told.isdigit() and int(told) > BODY_BYTES:
        raise Refused(413, TOO_LARGE)
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(400, NO_JSON)
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > BODY_BYTES:
            raise Refused(413, TOO_LARGE)
    return b"".join(parts)
