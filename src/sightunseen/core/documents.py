"""Read JSON and TOML documents and validate them against schemas, with one error message per document."""

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from sightunseen.core.limits import DOCUMENT_BYTES, DOCUMENT_VALUES, NESTING, QUOTED_LENGTH

T = TypeVar("T")
STRICT = {"strict": True, "extra": "forbid"}  # the ``__pydantic_config__`` of a dataclass that is a schema
NAMED_BY_FIELD = ("missing", "unexpected_keyword_argument", "extra_forbidden")  # errors that the name of the field explains


class DocumentError(Exception):
    """A document cannot be parsed or does not match its schema; callers turn it into an error of their own kind."""


def read_document(path: Path, encoding: str = "utf-8") -> Any:
    """Read a JSON or TOML file.

    Parameters
    ----------
    path : Path
        The file; one that ends in ``.toml`` is parsed as TOML, any other as JSON.
    encoding : str, default="utf-8"
        Encoding of the text.

    Returns
    -------
    object
        Parsed content.

    Raises
    ------
    DocumentError
        If the file is too large, is not text in this encoding, is not valid, or is nested too deeply.
    OSError
        If the file cannot be read.
    """
    with open(path, "rb") as file:
        content = file.read(DOCUMENT_BYTES + 1)
    return parse_document(content, "toml" if path.suffix == ".toml" else "json", encoding)


def parse_document(content: bytes, form: str = "json", encoding: str = "utf-8") -> Any:
    """Parse JSON or TOML.

    Parameters
    ----------
    content : bytes
        The encoded text.
    form : {"json", "toml"}, default="json"
        Format of the text.
    encoding : str, default="utf-8"
        Encoding of the text.

    Returns
    -------
    object
        Parsed content.

    Raises
    ------
    DocumentError
        If the text is too long, is not in this encoding, is not valid, or is nested too deeply.

    Examples
    --------
    >>> parse_document(b'{"seeds": 3}')
    {'seeds': 3}
    """
    if len(content) > DOCUMENT_BYTES:
        raise DocumentError(f"larger than {DOCUMENT_BYTES >> 20} MiB, the limit of such files")
    if sum(content.count(sign) for sign in b",[{=") > DOCUMENT_VALUES:
        raise DocumentError(f"it has more than {DOCUMENT_VALUES:,} values, the limit of such files")
    try:
        text = content.decode(encoding)
        found = tomllib.loads(text) if form == "toml" else json.loads(text)
    except UnicodeDecodeError as error:
        raise DocumentError(f"not {encoding} text: byte {error.start} is 0x{content[error.start]:02x}") from error
    except RecursionError as error:
        raise DocumentError(f"nested deeper than {NESTING} levels") from error
    except ValueError as error:  # of the parsers, and numbers with too many digits
        raise DocumentError(f"not valid {form.upper()}: {quoted(error, 200)}") from error
    _check_nesting(found)
    return found


def validated(kind: type[T], content: Any) -> T:
    """Validate parsed content against a schema.

    Parameters
    ----------
    kind : type
        An annotation such as ``dict[str, int]``, a pydantic model, or a dataclass with ``__pydantic_config__ = STRICT``. Values
        are not converted: the text "3" is not a number.
    content : object
        Parsed content.

    Returns
    -------
    object
        An instance of ``kind``.

    Raises
    ------
    DocumentError
        If the content does not match; the message names the first field that does not.

    Examples
    --------
    >>> validated(dict[str, int], {"seeds": 3})
    {'seeds': 3}
    >>> validated(dict[str, int], {"seeds": "three"})
    Traceback (most recent call last):
    ...
    sightunseen.core.documents.DocumentError: seeds: Input should be a valid integer; got 'three'
    """
    from pydantic import ValidationError  # takes 0.1 s to import

    try:
        # As JSON, where strict validation takes a list for a tuple and a table for a dataclass.
        found: T = _adapter(cast(Any, kind)).validate_json(json.dumps(content, default=str))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = quoted(".".join(str(part) for part in first["loc"]))
        shown = f"{field}: {first['msg']}" if field else first["msg"]
        if first["type"] not in NAMED_BY_FIELD:
            shown += f"; got {quoted(repr(first['input']))}"
        raise DocumentError(shown) from error
    except (ValueError, RecursionError) as error:  # of json: an integer of too many digits, a character that is none
        raise DocumentError(f"not valid: {quoted(error)}") from error
    return found


def quoted(value: object, most: int = QUOTED_LENGTH) -> str:
    """Format a value from the input for an error message: printable, and shortened.

    >>> quoted("a" * 100, 10)
    'aaaaaaa...'
    """
    text = str(value)[: most + 1]
    shown = printable(text)
    return shown if len(text) <= most else shown[: most - 3] + "..."


def printable(text: str, other: str = "?") -> str:
    """Replace the characters of a text that are not printable, such as those that control a terminal."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else other for letter in text)


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(kind, config=ConfigDict(strict=True, extra="forbid"))
    except PydanticUserError:  # a pydantic model or a dataclass: these carry a configuration of their own
        return TypeAdapter(kind)


def _check_nesting(content: Any) -> None:
    """Raise ``DocumentError`` if lists and tables are nested deeper than the limit; such values break later recursion."""
    level: list[Any] = [content]
    for _ in range(NESTING):
        level = [item for one in level for item in _items(one)]
        if not level:
            return
    raise DocumentError(f"nested deeper than {NESTING} levels")


def _items(value: Any) -> list[Any]:
    """The lists and tables directly inside a value."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [item for item in inner if isinstance(item, (list, dict))]
