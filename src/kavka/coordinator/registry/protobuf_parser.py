"""The language of protoc, as far as it says what messages look like; services and extensions are kept as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from kavka.coordinator.registry.protobuf import Enum, Field, File, Message, Options
from kavka.coordinator.registry.schema import SchemaError

MAX_DEPTH: Final = 100
MAX_NUMBER: Final = (1 << 29) - 1

_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<number>-?(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?))
      | (?P<word>\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
      | (?P<sign>[{}()\[\];=,<>:/+.-])""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER: Final = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)")
_LABELS: Final = frozenset({"optional", "required", "repeated"})


def parsed(text: str) -> File:
    """A file out of its text; raises SchemaError with the line."""
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._next = 0
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise SchemaError(f"line {text.count(chr(10), 0, position) + 1}: cannot read {text[position]!r}")
            if found.lastgroup != "blank":
                assert found.lastgroup is not None
                self._tokens.append((found.lastgroup, found.group(), position))
            position = found.end()
        self._tokens.append(("end", "", len(text)))

    # -- tokens ---------------------------------------------------------------------------------------

    @property
    def _kind(self) -> str:
        return self._tokens[self._next][0]

    @property
    def _token(self) -> str:
        return self._tokens[self._next][1]

    def _wrong(self, wanted: str) -> SchemaError:
        position = self._tokens[self._next][2]
        line = self._text.count("\n", 0, position) + 1
        return SchemaError(f"line {line}: expected {wanted}, found {self._token or 'the end'}")

    def _take(self) -> str:
        token = self._token
        if self._kind == "end":
            raise self._wrong("more")
        self._next += 1
        return token

    def _sign(self, wanted: str) -> None:
        if self._token != wanted:
            raise self._wrong(repr(wanted))
        self._next += 1

    def _accept(self, token: str) -> bool:
        if self._token == token and self._kind != "string":
            self._next += 1
            return True
        return False

    def _word(self, what: str) -> str:
        if self._kind != "word":
            raise self._wrong(what)
        return self._take()

    def _name(self, what: str) -> str:
        if "." in self._token:
            raise self._wrong(what)
        return self._word(what)

    def _integer(self, what: str) -> int:
        if self._kind != "number" or not _INTEGER.fullmatch(self._token):
            raise self._wrong(what)
        text = self._token
        octal = text.lstrip("-").startswith("0") and text.lstrip("-").isdecimal()
        try:
            number = int(text, 8 if octal else 0)
        except ValueError:  # 09, or more digits than anybody counts
            raise self._wrong(what) from None
        self._take()
        return number

    def _string(self) -> str:
        if self._kind != "string":
            raise self._wrong("a string")
        text = self._take()[1:-1]
        while self._kind == "string":
            text += self._take()[1:-1]
        return text

    # -- a file ---------------------------------------------------------------------------------------

    def file(self) -> File:
        """The whole of it."""
        file = File()
        while self._kind != "end":
            if self._accept(";"):
                continue
            match word := self._word("a definition"):
                case "syntax":
                    self._sign("=")
                    file.syntax = self._string()
                    if file.syntax not in ("proto2", "proto3"):
                        raise SchemaError(f"syntax {file.syntax!r} is not known here")
                    self._sign(";")
                case "edition":
                    raise SchemaError('editions are not known here: say syntax = "proto3"')
                case "package":
                    file.package = self._word("a package")
                    self._sign(";")
                case "import":
                    kind = self._take() if self._token in ("public", "weak") else ""
                    file.imports.append((kind, self._string()))
                    self._sign(";")
                case "option":
                    self._option(file.options)
                case "message":
                    file.messages.append(self._message(0))
                case "enum":
                    file.enums.append(self._enum())
                case "service" | "extend":
                    file.verbatim.append(self._skipped(word))
                case _:
                    self._next -= 1
                    raise self._wrong("a definition")
        return file

    def _skipped(self, word: str) -> str:
        """A block that is kept as it was written."""
        start = self._tokens[self._next - 1][2]
        depth = 0
        while True:
            token = self._take()
            depth += (token == "{") - (token == "}")
            if token == "}" and depth == 0:
                end = self._tokens[self._next - 1][2] + 1
                return self._text[start:end]
            if depth < 0:
                raise self._wrong(f"the body of {word}")

    def _option(self, options: Options) -> None:
        name = self._option_name()
        self._sign("=")
        options[name] = self._value()
        self._sign(";")

    def _option_name(self) -> str:
        parts = []
        while self._token != "=":
            if self._accept("("):
                parts.append(f"({self._word('the name of an option')})")
                self._sign(")")
            elif parts and self._accept("."):
                parts.append(".")
            else:
                parts.append(self._word("the name of an option"))
        if not parts:
            raise self._wrong("the name of an option")
        return "".join(parts)

    def _value(self) -> str:
        if self._token == "{":
            return self._block("{", "}")
        if self._token in "+-" and self._kind == "sign":
            return self._take() + self._take()
        if self._kind == "string":
            return f'"{self._string()}"'
        if self._kind in ("word", "number"):
            return self._take()
        raise self._wrong("a value")

    def _block(self, opening: str, closing: str) -> str:
        start, depth = self._tokens[self._next][2], 0
        while True:
            token = self._take()
            depth += (token == opening) - (token == closing)
            if depth == 0:
                return " ".join(self._text[start : self._tokens[self._next - 1][2] + 1].split())

    def _field_options(self) -> Options:
        options: Options = {}
        if self._accept("["):
            while True:
                name = self._option_name()
                self._sign("=")
                options[name] = self._value()
                if not self._accept(","):
                    break
            self._sign("]")
        return options

    # -- messages -------------------------------------------------------------------------------------

    def _message(self, depth: int) -> Message:
        if depth > MAX_DEPTH:
            raise SchemaError(f"messages are nested more than {MAX_DEPTH} deep")
        message = Message(self._name("the name of a message"))
        self._body(message, depth)
        return message

    def _body(self, message: Message, depth: int) -> None:
        self._sign("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            before = self._next
            word = self._word("a field")
            if word == "oneof" and self._kind == "word":
                self._oneof(message, depth)
            elif word == "map" and self._token == "<":
                message.fields.append(self._map())
            elif (read := self._within(word, message, depth)) is not None and (
                self._kind != "sign" or (word == "option" and self._token == "(")
            ):
                read()
            elif word in ("reserved", "extensions") and self._kind in ("string", "number"):
                getattr(message, word).append(self._ranges())
            else:
                self._next = before
                self._add(message, self._field(message, depth))
        _check(message)

    def _within(self, word: str, message: Message, depth: int) -> Callable[[], None] | None:
        """How to read what begins with a word that may as well be the name of a type."""
        match word:
            case "message" if self._is_block():
                return lambda: message.messages.append(self._message(depth + 1))
            case "enum" if self._is_block():
                return lambda: message.enums.append(self._enum())
            case "extend":
                return lambda: message.verbatim.append(self._skipped(word)) if self._is_block() else None
            case "option":
                return lambda: self._option(message.options)
        return None

    def _is_block(self) -> bool:
        return self._tokens[min(self._next + 1, len(self._tokens) - 1)][1] == "{"

    def _add(self, message: Message, each: Field) -> None:
        message.fields.append(each)

    def _field(self, message: Message, depth: int, oneof: str = "") -> Field:
        label = self._take() if self._token in _LABELS and not oneof else ""
        type_ = self._word("a type")
        if type_ == "group" and self._tokens[self._next + 1][1] == "=":
            return self._group(message, label, depth, oneof)
        name = self._name("the name of a field")
        self._sign("=")
        number = self._integer("the number of a field")
        made = Field(name, number, type_, label, oneof, options=self._field_options())
        self._sign(";")
        return made

    def _group(self, message: Message, label: str, depth: int, oneof: str) -> Field:
        nested = Message(self._name("the name of a group"))
        self._sign("=")
        number = self._integer("the number of a field")
        options = self._field_options()
        self._body(nested, depth + 1)
        message.messages.append(nested)
        return Field(nested.name.lower(), number, nested.name, label, oneof, options=options)

    def _map(self) -> Field:
        self._sign("<")
        key = self._word("the type of keys")
        self._sign(",")
        type_ = self._word("the type of values")
        self._sign(">")
        name = self._name("the name of a field")
        self._sign("=")
        number = self._integer("the number of a field")
        made = Field(name, number, type_, "repeated", map_key=key, options=self._field_options())
        self._sign(";")
        return made

    def _oneof(self, message: Message, depth: int) -> None:
        name = self._name("the name of a oneof")
        message.oneofs.append(name)
        self._sign("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            if self._token == "option":
                self._take()
                self._option(message.oneof_options.setdefault(name, {}))
            else:
                message.fields.append(self._field(message, depth, name))

    def _ranges(self) -> str:
        parts: list[str] = []
        while not self._accept(";"):
            if self._token == "[":
                self._block("[", "]")
            elif self._accept(","):
                parts[-1] += ","
            else:
                parts.append(self._take())
        return " ".join(parts)

    def _enum(self) -> Enum:
        enum = Enum(self._name("the name of an enum"))
        self._sign("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            word = self._name("a value")
            if word == "option" and self._token != "=":
                self._option(enum.options)
            elif word == "reserved" and self._token != "=":
                enum.reserved.append(self._ranges())
            else:
                self._sign("=")
                enum.values.append((word, self._integer("the number of a value")))
                if options := self._field_options():
                    enum.value_options[word] = options
                self._sign(";")
        if not enum.values:
            raise SchemaError(f"the enum {enum.name} has no values")
        return enum


def _check(message: Message) -> None:
    numbers: set[int] = set()
    names: set[str] = set()
    for each in message.fields:
        if not 1 <= each.number <= MAX_NUMBER or 19_000 <= each.number <= 19_999:
            raise SchemaError(f"the field {each.name} of {message.name} cannot have the number {each.number}")
        if each.number in numbers:
            raise SchemaError(f"two fields of {message.name} have the number {each.number}")
        if each.name in names:
            raise SchemaError(f"two fields of {message.name} have the name {each.name}")
        numbers.add(each.number)
        names.add(each.name)
