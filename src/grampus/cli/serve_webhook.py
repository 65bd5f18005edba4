"""`grampus serve --webhook`: a web address that gets each event of the controller by POST.

The address is in a file, because such addresses often hold a secret: a command line can be read by
every user of the machine. No message repeats more of it than the name of its host.
"""

from __future__ import annotations

import http.client
import urllib.request
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from grampus.core.errors import (
    GrampusError,
    NotFoundError,
    RefusedError,
    UsageError,
    suggest_file,
)
from grampus.databases.controller.due_jobs import ControllerEvent

WEBHOOK_TIMEOUT_S = 10.0  # of each wait for the other side
_OPEN_TO_OTHERS = 0o077
_MOST_BYTES = 4096  # of a file with one address


class Webhook:
    """Sends each event as a JSON document."""

    job = "webhook"
    remedy = "Check the address in the file, and that this machine reaches it."

    def __init__(self, file: Path, *, timeout_s: float = WEBHOOK_TIMEOUT_S) -> None:
        """The address in `file`. Raises what `read_webhook_address` raises."""
        self._address = read_webhook_address(file)
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(_NoRedirects)
        self.subject = f"The webhook at {urlsplit(self._address).hostname}"

    def deliver(self, event: ControllerEvent, document: str) -> None:
        """Send it; any answer but success is a failure. Raises GrampusError with code
        `webhook-failed`."""
        del event  # the document says it all
        request = urllib.request.Request(  # noqa: S310 - `read_webhook_address` allows http(s) alone
            self._address,
            data=document.encode(),
            headers={"Content-Type": "application/json", "User-Agent": "grampus"},
            method="POST",
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s):
                pass
        except HTTPError as error:
            with error:
                raise _failure(f"It answered {error.code} {error.reason}.") from None
        except URLError as error:
            raise _failure(f"It cannot be reached ({error.reason}).") from None
        except (OSError, http.client.HTTPException) as error:
            raise _failure(f"It did not answer as a web server does ({error}).") from None


def read_webhook_address(file: Path) -> str:
    """The address in a file that holds nothing else.

    Raises NotFoundError with code `no-webhook` when the file cannot be read, RefusedError with code
    `webhook-exposed` when others can read it, and UsageError when it holds no address.
    """
    try:
        mode = file.stat().st_mode
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"The file {file} with the address of the webhook does not exist.",
            suggest_file(
                file, "Write the address to the file, or name another file with --webhook."
            ),
            code="no-webhook",
        ) from None
    except OSError as error:
        raise NotFoundError(
            f"The file {file} with the address of the webhook cannot be read ({error.strerror}).",
            "Write the address to the file, or name another file with --webhook.",
            code="no-webhook",
        ) from None
    if mode & _OPEN_TO_OTHERS:
        raise RefusedError(
            f"Other users can read the address of the webhook in {file}.",
            f"Run `chmod 600 {file}`.",
            code="webhook-exposed",
        )
    address = content.decode(errors="replace").strip()
    if not _is_address(address):
        raise UsageError(
            f"The file {file} holds no address of a webhook.",
            "Write one line to it that begins with https:// or http://.",
        )
    return address


def _is_address(text: str) -> bool:
    if not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises when it is no number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A POST that is sent elsewhere would arrive there as a GET without the event."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        del req, fp, code, msg, headers, newurl


def _failure(problem: str) -> GrampusError:
    return GrampusError(problem, code="webhook-failed")
