"""The binary logs of one database in a target: read and added to, every piece sealed."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from grampus.core.errors import NotFoundError
from grampus.databases.backup.binlog_links import LogHead, read_head
from grampus.databases.backup.binlogs import (
    COVERED,
    DIRECTORY,
    STRETCH,
    Coverage,
    Piece,
    Stretch,
    StretchEnd,
    StretchFacts,
    in_order,
    name_before,
    parse_piece,
    tail_of,
)
from grampus.databases.backup.decide_joins import leads_through, without_parts
from grampus.databases.backup.decide_schedule import ArchiveEnd
from grampus.databases.backup.errors import BackupDamagedError, damaged
from grampus.databases.backup.keys import BackupKey
from grampus.databases.backup.sealed_stream import SealedWriter, read_sealed
from grampus.databases.backup.stretch_names import (
    following_stretch,
    newest_stretch,
    owner_of_stretch,
    split_stretch,
    stretch_order,
)
from grampus.databases.backup.target import BackupTarget

DocumentT = TypeVar("DocumentT", bound=BaseModel)


class BinlogArchive:
    """Archived binary logs of one database."""

    def __init__(
        self,
        target: BackupTarget,
        key: BackupKey,
        database: str,
        *,
        others: Sequence[BackupKey] = (),
        database_id: str = "",
    ) -> None:
        """What is added is sealed with `key`; what is read may be so with one of `others`.

        A stretch may outlast a key, and no file of it says which one it was sealed with. With
        `database_id`, the stretches are those of that database, and those of earlier releases,
        which do not say whose they are but by the server's UUID; without one, all that are there.
        """
        self._target = target
        self._key = key
        self._keys = (key, *(other for other in others if other != key))
        self._place = f"{database}/{DIRECTORY}"
        self._owner = database_id

    def stretches(self) -> list[Stretch]:
        """All stretches, oldest first; it lists all there is. Raises BackupDamagedError."""
        return [
            Stretch(
                id=stretch_id,
                facts=facts,
                until=self._until(stretch_id),
                pieces=tuple(without_parts(pieces)),
            )
            for stretch_id, (facts, pieces) in self._opened().items()
        ]

    def pieces(self) -> dict[str, list[Piece]]:
        """All pieces by stretch, in any order, those within bigger ones too; it lists all."""
        return {stretch_id: pieces for stretch_id, (_, pieces) in self._opened().items()}

    def has_others(self) -> bool:
        """Whether other databases archive under this name too."""
        owners = {owner_of_stretch(found) for found in _by_stretch(self._names())}
        return bool(owners - {self._owner, ""})

    def end(
        self, known: ArchiveEnd | None = None, *, server_uuid: str | None = None
    ) -> StretchEnd | None:
        """Where to go on; None: there is no stretch of this database.

        `known` is where the archive ended some time ago. Where that is still there, only what came
        after it is listed, however much came before; otherwise (pieces were deleted, or another
        archive lies there now) all is, and `known` counts for nothing. A stretch of an earlier
        release is continued while the database has no stretch of its id, if it is of `server_uuid`.
        Raises BackupDamagedError.
        """
        names = self._names_since(known) if known is not None else None
        if names is None:
            known, names = None, self._names(self._owner)
        former = known.stretch if known is not None else None
        found = {
            one: pieces
            for one, pieces in _by_stretch(names).items()
            if owner_of_stretch(one) == self._owner or one == former
        }
        if not found:
            found = self._of_server(server_uuid)
        stretch_id = newest_stretch(found)
        if stretch_id is None:
            return None
        pieces = in_order(found[stretch_id])
        first_file = pieces[0].file if pieces else None
        if known is not None and known.stretch == stretch_id:
            first_file = known.first_file or first_file
        return StretchEnd(
            id=stretch_id,
            facts=self._document(stretch_id, STRETCH, StretchFacts),
            first_file=first_file,
            last=pieces[-1] if pieces else None,
        )

    def begin(self, facts: StretchFacts, *, after: StretchEnd | None) -> StretchEnd:
        """A new stretch; `after` is the newest one."""
        stretch_id = following_stretch(self._owner, after.id if after is not None else None)
        self._put(f"{stretch_id}/{STRETCH}", facts.model_dump_json().encode())
        return StretchEnd(stretch_id, facts, None, None)

    def add(self, stretch_id: str, piece: Piece, content: bytes) -> Piece:
        """Keep a piece; answers with it as it is known from now on."""
        kept = Piece(piece.file, piece.start_bytes, piece.end_bytes, tail_of(content))
        self._put(f"{stretch_id}/{kept.name}", content)
        return kept

    def cover(self, stretch_id: str, coverage: Coverage) -> None:
        """Note up to when nothing is missing."""
        self._put(f"{stretch_id}/{COVERED}", coverage.model_dump_json().encode())

    def remove(self, stretch_id: str, files: Sequence[str]) -> None:
        """Take whole binary logs away, in that order; the stretch too, once it has none left."""
        place = f"{self._place}/{stretch_id}"
        for file in files:
            self._target.remove(f"{place}/{file}")
        if not any(parse_piece(n.removeprefix(f"{place}/")) for n in self._target.names(place)):
            self._target.remove(place)

    def join(self, stretch_id: str, parts: Sequence[Piece]) -> None:
        """Keep one piece that holds what `parts` do, which follow one another and stay.

        Raises what `read` raises.
        """
        content = b"".join(chunk for part in parts for chunk in self.read(stretch_id, part))
        self.add(
            stretch_id, Piece(parts[0].file, parts[0].start_bytes, parts[-1].end_bytes), content
        )

    def drop_parts(self, stretch_id: str, whole: Piece, parts: Sequence[Piece]) -> None:
        """Delete pieces that lie within `whole`, once that was read as it was written.

        Raises BackupDamagedError when it is not; then it is what goes, where the parts hold all of
        it, since readers would take it before them.
        """
        try:
            content = b"".join(self.read(stretch_id, whole))
            if tail_of(content) != whole.tail:
                raise damaged(f"{whole.name} does not end as its name says")
        except BackupDamagedError:
            if leads_through(whole, parts):
                self._target.discard(f"{self._place}/{stretch_id}/{whole.name}")
            raise
        for part in parts:
            self._target.discard(f"{self._place}/{stretch_id}/{part.name}")

    def read_log(self, stretch_id: str, pieces: Sequence[Piece]) -> Iterator[bytes]:
        """The bytes of pieces of one binary log that follow one another, as they were listed.

        It goes on where they become bigger ones meanwhile. Raises what `read` raises.
        """
        at_bytes, end_bytes, known = pieces[0].start_bytes, pieces[-1].end_bytes, list(pieces)
        while at_bytes < end_bytes:
            piece = next(p for p in known if _holds(p, at_bytes))
            here_bytes = piece.start_bytes
            try:
                for chunk in self.read(stretch_id, piece):
                    wanted = chunk[at_bytes - here_bytes : max(0, end_bytes - here_bytes)]
                    here_bytes += len(chunk)
                    at_bytes += len(wanted)
                    yield wanted
            except NotFoundError:
                known = self._log(stretch_id, piece.file)
                if piece in known or not any(_holds(p, at_bytes) for p in known):
                    raise

    def head(self, stretch_id: str, file: str, *, to_first: bool = False) -> LogHead | None:
        """What that binary log begins with; None: the stretch does not have it from there on.

        With `to_first`, its first transaction is looked for.

        Raises what `read` raises, and GrampusError with code `binlog-encrypted`.
        """
        pieces = self._log(stretch_id, file)
        if not pieces or pieces[0].start_bytes != 0:
            return None
        return read_head(file, self.read_log(stretch_id, pieces), to_first=to_first)

    def read(self, stretch_id: str, piece: Piece) -> Iterator[bytes]:
        """The bytes of a piece. Raises BackupDamagedError, NotFoundError."""
        name = f"{self._place}/{stretch_id}/{piece.name}"
        size_bytes = 0
        with self._target.reading(name) as file:
            for chunk in read_sealed(file, self._keys, name):
                size_bytes += len(chunk)
                yield chunk
        if size_bytes != piece.size_bytes:
            raise damaged(f"{name} has {size_bytes} bytes")

    def _opened(self) -> dict[str, tuple[StretchFacts, list[Piece]]]:
        """The stretches that can be this database's, oldest first.

        One of another database, or of an earlier release and so perhaps another's, is left out
        where this home has no key that opens it: nothing could be restored from it.
        """
        found = _by_stretch(self._names())
        opened: dict[str, tuple[StretchFacts, list[Piece]]] = {}
        for stretch_id in sorted(found, key=stretch_order):
            owner = owner_of_stretch(stretch_id)
            if self._owner and owner not in ("", self._owner):
                continue
            try:
                facts = self._document(stretch_id, STRETCH, StretchFacts)
            except BackupDamagedError:
                if owner == self._owner:
                    raise
                continue
            opened[stretch_id] = facts, found[stretch_id]
        return opened

    def _of_server(self, server_uuid: str | None) -> dict[str, list[Piece]]:
        """The stretches of earlier releases that hold that server's binary logs."""
        if not self._owner or server_uuid is None:
            return {}
        return {
            stretch_id: pieces
            for stretch_id, (facts, pieces) in self._opened().items()
            if not owner_of_stretch(stretch_id) and facts.server_uuid == server_uuid
        }

    def _names(self, below: str = "", *, after: str = "") -> list[str]:
        """Below the archive's own place, or a part of it, sorted."""
        place = f"{self._place}/{below}" if below else self._place
        begin = f"{self._place}/{after}" if after else ""
        names = self._target.names(place, after=begin)
        return [name.removeprefix(f"{self._place}/") for name in names]

    def _names_since(self, known: ArchiveEnd) -> list[str] | None:
        """What `known` ended with, and all after it; None: it does not end so any more.

        A stretch of an earlier release counts only while the database has none of its own.
        """
        owner, below = owner_of_stretch(known.stretch), self._owner
        if owner != self._owner:
            if owner or self._names(self._owner):
                return None
            below = known.stretch
        expected, before = f"{known.stretch}/{STRETCH}", f"{known.stretch}/"
        if known.last_piece is not None:
            piece = parse_piece(known.last_piece)
            begin = name_before(piece) if piece is not None else None
            if begin is None:
                return None
            # Its name tells of its content: one of that name is that piece.
            expected, before = f"{known.stretch}/{known.last_piece}", f"{known.stretch}/{begin}"
        names = self._names(below, after=before)
        return names if expected in names else None

    def _log(self, stretch_id: str, file: str) -> list[Piece]:
        """The pieces of one binary log as they are now."""
        place = f"{self._place}/{stretch_id}"
        names = self._target.names(f"{place}/{file}")
        found = (parse_piece(name.removeprefix(f"{place}/")) for name in names)
        return without_parts(piece for piece in found if piece is not None)

    def _until(self, stretch_id: str) -> datetime | None:
        if self._target.read(f"{self._place}/{stretch_id}/{COVERED}") is None:
            return None
        return self._document(stretch_id, COVERED, Coverage).until

    def _document(self, stretch_id: str, name: str, model: type[DocumentT]) -> DocumentT:
        place = f"{self._place}/{stretch_id}/{name}"
        content = self._target.read(place)
        if content is None:
            raise damaged(f"{place} is missing")
        try:
            plain = b"".join(read_sealed(io.BytesIO(content), self._keys, place))
            return model.model_validate_json(plain)
        except ValidationError:
            raise damaged(f"{place} cannot be read") from None

    def _put(self, below: str, content: bytes) -> None:
        name = f"{self._place}/{below}"
        sink = io.BytesIO()
        writer = SealedWriter(sink, self._key, name)
        writer.write(content)
        writer.finish()
        self._target.put(name, sink.getvalue())


def _holds(piece: Piece, at_bytes: int) -> bool:
    return piece.start_bytes <= at_bytes < piece.end_bytes


def _by_stretch(names: Iterable[str]) -> dict[str, list[Piece]]:
    """The pieces among names, by their stretches."""
    found: dict[str, list[Piece]] = {}
    for name in names:
        stretch_id, rest = split_stretch(name)
        pieces = found.setdefault(stretch_id, [])
        piece = parse_piece(rest)
        if piece is not None:
            pieces.append(piece)
    return found
