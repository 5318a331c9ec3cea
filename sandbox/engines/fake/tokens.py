"""Tokens of the fake engine: pieces of words, so that copied text gives the same tokens wherever it stands."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable

# At most six letters or three signs with a space before them, single digits, spaces, line ends: about four characters a
# token in code and English, as with the real tokenizers. Whole control tokens such as <|im_end|>.
_PIECE = re.compile(
    r"<\|[a-z_]{1,20}\|>| ?[^\W\d_]{1,6}|\d| ?(?:(?!<\|[a-z_]{1,20}\|>)(?:[^\w\s]|_)){1,3}"
    r"|[^\S\n]+(?=[^\S\n])|[^\S\n]|\n",
    re.DOTALL,
)
END = "<|im_end|>"


class Tokenizer:
    """Text to ids and back. An id is a 31-bit hash of its piece, so it is the same in every process."""

    def __init__(self) -> None:
        self._pieces: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self.end = self._id(END)

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(piece) or self._id(piece) for piece in _PIECE.findall(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids that encode gave; control tokens give none. KeyError for an id never given."""
        return "".join("" if (piece := self._pieces[token]).startswith("<|") else piece for token in ids)

    def piece(self, token: int) -> str:
        return self._pieces[token]

    def _id(self, piece: str) -> int:
        # 0 is the token with which some versions fill drafts, so no piece has it.
        number = (zlib.crc32(piece.encode("utf-8", "surrogatepass")) & 0x7FFFFFFF) or 1
        while self._pieces.get(number, piece) != piece:
            number = number % 0x7FFFFFFF + 1
        self._pieces[number] = piece
        self._ids[piece] = number
        return number
