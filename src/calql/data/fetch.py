"""One file over HTTP: resumed where it stopped, checked before it is used, in place only when whole."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calql.data.store import OnProgress, digest, locked
from calql.system.errors import UserError
from calql.system.machine import in_words

BLOCK = 1 << 18
ATTEMPTS = 4
TIMEOUT = 30.0  # seconds without a byte
SLOWEST = 1_000.0  # bytes a second, once a connection is older than a minute
MOST = 4 * 2**30  # bytes of one file, several times the largest there is


@dataclass(frozen=True)
class Fetched:
    path: Path
    sha256: str
    published: bool  # the checksum was known beforehand, not only recorded at the first download


def fetch(
    url: str, path: Path, *, sha256: str | None = None, progress: OnProgress | None = None, pause: float = 1.0
) -> Fetched:
    """The file at `path`, from `url` unless it is there and whole. An interrupted call leaves `path`.part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path):
        known = sha256 or _recorded(path)
        if not (path.is_file() and known and digest(path) == known):
            path.unlink(missing_ok=True)
            _receive(url, path, progress or (lambda what, done, total: None), pause, checked=known is not None)
            _accept(url, path, known, recorded=sha256 is None)
    return Fetched(path, sha256 or str(_recorded(path)), sha256 is not None)


def _receive(url: str, path: Path, progress: OnProgress, pause: float, *, checked: bool) -> None:
    """Read into the part file, again from where it stopped when the line breaks."""
    for attempt in range(ATTEMPTS):
        try:
            if _read_on(url, path, progress, checked=checked):
                return
        except urllib.error.HTTPError as problem:
            raise UserError(
                f"the server answers {problem.code} ({problem.reason})",
                where=url,
                mend="the file may have moved: get it elsewhere and give its path instead of a name",
            ) from None
        except (OSError, http.client.HTTPException) as problem:
            if attempt == ATTEMPTS - 1:
                reason = getattr(problem, "reason", problem)
                raise UserError(
                    f"cannot be read ({reason})", where=url, mend="run it again: it goes on where it stopped"
                ) from None
        time.sleep(pause * 2**attempt)
    raise UserError("the connection keeps closing early", where=url, mend="run it again: it goes on where it stopped")


def _read_on(url: str, path: Path, progress: OnProgress, *, checked: bool) -> bool:
    """One connection; whether the file is complete after it, which a length tells, or else its checksum."""
    part, label = _part(path), _label(path)
    have = part.stat().st_size if part.is_file() and label.is_file() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "calql"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", str(json.loads(label.read_text())["validator"]))
    try:
        answer = _OPENER.open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as problem:
        if problem.code != 416:
            raise
        part.unlink()  # what is there is longer than the file: start again
        return False
    with answer:
        if answer.status != 206:
            have = 0
        total = have + int(answer.headers.get("Content-Length") or 0)
        _require_size(url, path, total)
        if not (checked or "Content-Length" in answer.headers or answer.chunked):
            raise UserError("the server does not say how long the file is", where=url, mend="get the file elsewhere")
        validator = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        if validator and not validator.startswith("W/"):
            label.write_text(json.dumps({"validator": validator}))
        else:
            label.unlink(missing_ok=True)  # nothing tells whether it is still the same file: never resumed
        begun, before = time.monotonic(), have
        with part.open("ab" if have else "wb") as file:
            while block := answer.read(BLOCK):
                file.write(block)
                have += len(block)
                _require_size(url, path, have)
                _require_speed(have - before, time.monotonic() - begun)
                progress(path.name, have, max(total, have))
    return have >= total


def _require_size(url: str, path: Path, count: int) -> None:
    """Stop before a disk is filled with what cannot be a dataset, and keep nothing of it."""
    if count > MOST:
        _throw_away(path)
        raise UserError(
            f"is larger than {in_words(MOST)}, so it was thrown away", where=url, mend="get the file elsewhere"
        )


def _require_speed(count: int, seconds: float) -> None:
    if seconds > 60.0 and count / seconds < SLOWEST:
        raise TimeoutError(f"{count / seconds:.0f} bytes a second")


class _StaySecure(urllib.request.HTTPRedirectHandler):
    """A file asked for over https is never taken from elsewhere without it."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise urllib.error.HTTPError(req.full_url, code, f"sends on to {newurl}, without https", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_StaySecure)


def _accept(url: str, path: Path, known: str | None, *, recorded: bool) -> None:
    """Check the received file, remember its checksum, and put it in place.

    A checksum that was recorded at the first download is held to as one that was published: a file that changed
    since then was changed by somebody.
    """
    part = _part(path)
    found = digest(part)
    if known and found != known:
        _throw_away(path)
        whose = "was recorded when it was first downloaded" if recorded else "was expected"
        mend = f"get the file elsewhere; if it was replaced on purpose, delete {_sum(path)}" if recorded else ""
        raise UserError(
            f"has checksum {found[:16]}... and {known[:16]}... {whose}, so it was thrown away",
            where=url,
            mend=mend or "run it again, or get the file elsewhere",
        )
    _sum(path).write_text(found + "\n")
    part.replace(path)
    _label(path).unlink(missing_ok=True)


def _throw_away(path: Path) -> None:
    _part(path).unlink(missing_ok=True)
    _label(path).unlink(missing_ok=True)


def _recorded(path: Path) -> str | None:
    return _sum(path).read_text().strip() if _sum(path).is_file() else None


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _label(path: Path) -> Path:
    return path.with_name(path.name + ".part.json")


def _sum(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")
