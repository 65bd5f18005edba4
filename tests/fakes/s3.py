"""An S3 service in memory, behind HTTP on the loopback device: as much of it as backups use."""

from __future__ import annotations

import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

from grampus.databases.backup.places import TargetPlace

PAGE = 3  # entries of a listing: so that every test of one turns pages
_XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


@dataclass
class FakeS3:
    """What the service holds, and what it shall refuse."""

    endpoint: str = ""
    buckets: set[str] = field(default_factory=lambda: {"backups"})
    objects: dict[str, bytes] = field(default_factory=dict)  # by bucket/key
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)  # by bucket/key?id
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)  # status, code by verb
    seen: list[str] = field(default_factory=list)  # verbs, in order
    authorizations: list[str] = field(default_factory=list)
    _next_id: int = 0
    # Buckets with object lock, which keep versions: one of each object here, and its deletion.
    locking: set[str] = field(default_factory=set)
    retained: dict[str, str] = field(default_factory=dict)  # until when, by bucket/key
    hidden: dict[str, bytes] = field(default_factory=dict)  # deleted, with its version still there
    now: str = "2000-01-01T00:00:00Z"  # locks until later hold

    def place(self, directory: Path) -> TargetPlace:
        """Its bucket for backups, with a file of credentials in `directory`; while it is served."""
        keys = directory / "credentials"
        keys.write_text("[default]\naws_access_key_id = key\naws_secret_access_key = secret\n")
        keys.chmod(0o600)
        return TargetPlace(url="s3://backups/one", endpoint=self.endpoint, credentials=str(keys))

    def answer(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: bytes,
        if_none_match: str | None,
        *,
        locks: bool = False,
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, content and headers of the answer."""
        bucket, _, key = path.lstrip("/").partition("/")
        verb = self._verb(method, key, query)
        self.seen.append(verb)
        if verb in self.refused:
            return self._error(*self.refused[verb])
        if verb == "create-bucket":
            self.buckets.add(bucket)
            self.locking |= {bucket} if locks else set()
            return 200, b"", {}
        if bucket not in self.buckets:
            return self._error(404, "NoSuchBucket")
        return self._of_object(verb, f"{bucket}/{key}", query, body, if_none_match)

    def _of_object(
        self, verb: str, name: str, query: dict[str, str], body: bytes, if_none_match: str | None
    ) -> tuple[int, bytes, dict[str, str]]:
        if verb == "head-bucket":
            return 200, b"", {}
        if verb.endswith("-lock") or verb.endswith("-retention"):
            return self._of_lock(verb, name, body)
        if verb == "list-versions":
            return self._list_versions(name.rstrip("/"), query)
        if verb == "delete-version":
            return self._delete_version(name, query["versionId"])
        if verb == "put":
            if if_none_match == "*" and name in self.objects:
                return self._error(412, "PreconditionFailed")
            self.objects[name] = body
            return 200, b"", {"ETag": '"0"'}
        if verb == "get":
            if name not in self.objects:
                return self._error(404, "NoSuchKey")
            return 200, self.objects[name], {}
        if verb == "delete":
            content = self.objects.pop(name, None)
            if name.partition("/")[0] not in self.locking:
                return 204, b"", {}
            if content is not None:
                self.hidden[name] = content
            return 204, b"", {"x-amz-delete-marker": "true", "x-amz-version-id": "mark"}
        if verb == "list":
            return self._list(name.rstrip("/"), query)
        if verb == "list-uploads":
            return self._list_uploads(name.rstrip("/"), query)
        return self._of_upload(verb, name, query, body)

    def _of_lock(self, verb: str, name: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        if name.partition("/")[0] not in self.locking:
            if verb == "get-lock":
                return self._error(404, "ObjectLockConfigurationNotFoundError")
            return self._error(400, "InvalidRequest")
        if verb == "get-lock":
            enabled = "<ObjectLockEnabled>Enabled</ObjectLockEnabled>"
            return self._xml("ObjectLockConfiguration", enabled)
        if verb == "put-retention":
            self.retained[name] = body.decode().partition("<RetainUntilDate>")[2].partition("<")[0]
            return 200, b"", {}
        if name not in self.retained:
            return self._error(404, "NoSuchObjectLockConfiguration")
        until = f"<RetainUntilDate>{self.retained[name]}</RetainUntilDate>"
        return self._xml("Retention", f"<Mode>COMPLIANCE</Mode>{until}")

    def _list_versions(
        self, bucket: str, query: dict[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        names = [name for name in (*self.objects, *self.hidden) if name.startswith(f"{bucket}/")]
        keys = {name.removeprefix(f"{bucket}/") for name in names}
        content = "".join(
            f"<{kind}><Key>{escape(key)}</Key><VersionId>{version}</VersionId></{kind}>"
            for key in sorted(keys)
            if key.startswith(query.get("prefix", ""))
            for kind, version in (("Version", "1"), ("DeleteMarker", "mark"))
        )
        return self._xml("ListVersionsResult", content + "<IsTruncated>false</IsTruncated>")

    def _delete_version(self, name: str, version: str) -> tuple[int, bytes, dict[str, str]]:
        if version == "1":
            if self.retained.get(name, "") > self.now:
                return self._error(403, "AccessDenied")
            self.hidden.pop(name, None)
            self.retained.pop(name, None)
        return 204, b"", {}

    def _of_upload(
        self, verb: str, name: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        if verb == "begin":
            self._next_id += 1
            self.uploads[f"{name}?{self._next_id}"] = {}
            bucket, _, key = name.partition("/")
            return self._xml(
                "InitiateMultipartUploadResult",
                f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>"
                f"<UploadId>{self._next_id}</UploadId>",
            )
        upload = f"{name}?{query['uploadId']}"
        if upload not in self.uploads:
            return self._error(404, "NoSuchUpload")
        if verb == "part":
            self.uploads[upload][int(query["partNumber"])] = body
            return 200, b"", {"ETag": f'"{query["partNumber"]}"'}
        parts = self.uploads.pop(upload)
        if verb == "abort":
            return 204, b"", {}
        self.objects[name] = b"".join(parts[number] for number in sorted(parts))
        return self._xml("CompleteMultipartUploadResult", "<ETag>x</ETag>")

    def _list(self, bucket: str, query: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        prefix = query.get("prefix", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        keys = [name.removeprefix(f"{bucket}/") for name in sorted(self.objects)]
        keys = [key for key in keys if key.startswith(prefix) and key > after]
        more = len(keys) > PAGE
        content = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>1</Size></Contents>" for key in keys[:PAGE]
        )
        following = escape(keys[PAGE - 1]) if more else ""
        token = f"<NextContinuationToken>{following}</NextContinuationToken>" if more else ""
        truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        return self._xml("ListBucketResult", content + truncated + token)

    def _list_uploads(
        self, bucket: str, query: dict[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        names = [name.removeprefix(f"{bucket}/") for name in sorted(self.uploads)]
        names = [name for name in names if name.startswith(query.get("prefix", ""))]
        content = "".join(
            f"<Upload><Key>{escape(name.partition('?')[0])}</Key>"
            f"<UploadId>{name.partition('?')[2]}</UploadId></Upload>"
            for name in names
        )
        return self._xml("ListMultipartUploadsResult", content + "<IsTruncated>false</IsTruncated>")

    @staticmethod
    def _verb(method: str, key: str, query: dict[str, str]) -> str:
        if not key:
            if method == "GET" and {"object-lock", "versions"} & set(query):
                return "get-lock" if "object-lock" in query else "list-versions"
            if method == "GET":
                return "list-uploads" if "uploads" in query else "list"
            return {"HEAD": "head-bucket", "PUT": "create-bucket"}[method]
        if "retention" in query:
            return f"{method.lower()}-retention"
        if "versionId" in query:
            return "delete-version"
        if "uploads" in query:
            return "begin"
        if "uploadId" in query:
            return {"PUT": "part", "POST": "complete", "DELETE": "abort"}[method]
        return {"PUT": "put", "GET": "get", "DELETE": "delete"}[method]

    @staticmethod
    def _xml(element: str, content: str) -> tuple[int, bytes, dict[str, str]]:
        text = f'<?xml version="1.0"?><{element} {_XMLNS}>{content}</{element}>'
        return 200, text.encode(), {"Content-Type": "application/xml"}

    @staticmethod
    def _error(status: int, code: str) -> tuple[int, bytes, dict[str, str]]:
        text = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
        return status, text.encode(), {"Content-Type": "application/xml"}


@contextmanager
def serving(service: FakeS3) -> Iterator[FakeS3]:
    """The service, reachable at its `endpoint` for the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # One answer, one send: the second of two would wait 40 ms for the first to be acknowledged.
        wbufsize = -1
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            service.authorizations.append(self.headers.get("Authorization", ""))
            status, content, headers = service.answer(
                self.command,
                urllib.parse.unquote(parts.path),
                query,
                body,
                self.headers.get("If-None-Match"),
                locks=self.headers.get("x-amz-bucket-object-lock-enabled", "").lower() == "true",
            )
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 - as the base asks

        def handle_expect_100(self) -> bool:
            goes_on = super().handle_expect_100()
            self.wfile.flush()  # the client waits a second for it before it sends the content
            return goes_on

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that closed its connection is no error of ours."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
