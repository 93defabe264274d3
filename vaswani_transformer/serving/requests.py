"""The fields of a request, from JSON or a form, and the API key."""

import hashlib
import hmac
import json
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from fastapi import HTTPException, Request
from pydantic import AfterValidator, BaseModel, Field, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser


MAX_ALTERNATIVES = 9
MAX_FIELDS = 1000  # in a form
JSON = "application/json"
FORMS = URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


def check_unicode(text: str) -> str:
    """Raises ValueError for a lone surrogate, which JSON can contain and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"invalid Unicode (a lone surrogate) at position {error.start}") from error
    return text


Text = Annotated[str, AfterValidator(check_unicode)]


class Keyed(BaseModel):
    api_key: str = Field("", description="If the server requires a key; or the header `Authorization: Bearer KEY`.")


class TranslateRequest(Keyed):
    q: Text | list[Text] = Field(description="A text of any length, or a list of texts.")
    source: Text = Field("auto", description="Its language, such as `en`; `auto` detects it.")
    target: Text = Field(description="The target language.")
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES, description="Number of further translations.")
    confidence: bool = Field(False, description="Return how likely the translation and each of its words are right.")

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class DetectRequest(Keyed):
    q: Text = Field(description="A text.")


class FileRequest(Keyed):
    source: Text = "auto"
    target: Text


Model = TypeVar("Model", bound=BaseModel)


async def read_fields(request: Request) -> tuple[dict[str, Any], UploadFile | None]:
    """Returns the fields of a request's URL and body and its file, without fields that are null or empty in a form.

    An empty `q` remains: it is a text.

    Raises:
        HTTPException: the body is neither JSON nor a form, or is not UTF-8.
    """
    fields = dict(url_fields(request))
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in FORMS:
        fields |= json_fields(await request.body())
        return {name: value for name, value in fields.items() if value is not None}, None
    items: list[tuple[str, Any]]
    items = (await multipart_form(request)).multi_items() if kind == MULTIPART else pairs(await request.body())
    texts = [value for name, value in items if name == "q" and isinstance(value, str)]
    fields |= {name: value for name, value in items if isinstance(value, str)}
    file = next((value for name, value in items if name == "file" and isinstance(value, UploadFile)), None)
    fields = {name: value for name, value in fields.items() if value or name == "q"}
    return fields | ({"q": texts} if len(texts) > 1 else {}), file


def url_fields(request: Request) -> list[tuple[str, str]]:
    """Returns the fields of a request's URL."""
    return pairs(request.scope["query_string"])


def pairs(form: bytes) -> list[tuple[str, str]]:
    """Parses a form as UTF-8, whether it is percent-encoded or not: starlette would take raw bytes for Latin-1."""
    try:
        return parse_qsl(form.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeDecodeError as error:
        raise HTTPException(400, "The form is not UTF-8.") from error
    except ValueError as error:
        raise HTTPException(400, f"The form has more than {MAX_FIELDS} fields.") from error


class StrictMultiPartParser(MultiPartParser):
    """Rejects texts that are not UTF-8: starlette would take them for Latin-1."""

    def on_part_end(self):
        if self._current_part.file is None:
            try:
                self._current_part.data.decode()
            except UnicodeDecodeError as error:
                raise MultiPartException("The form is not UTF-8.") from error
        super().on_part_end()


async def multipart_form(request: Request) -> FormData:
    """Parses a form that can hold files."""
    try:
        return await StrictMultiPartParser(request.headers, request.stream(), max_fields=MAX_FIELDS).parse()
    except MultiPartException as error:
        raise HTTPException(400, error.message) from error


def json_fields(body: bytes) -> dict[str, Any]:
    """Parses a JSON object; an empty body has no fields."""
    if not body.strip():
        return {}
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "The request body is neither JSON nor a form.") from error
    if not isinstance(content, dict):
        raise HTTPException(400, "The request body is not a JSON object.")
    return content


def validate(model: type[Model], fields: dict[str, Any]) -> Model:
    """Validates the fields of a request.

    Raises:
        HTTPException: a field is missing or invalid; the message names the first one.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "missing":
            raise HTTPException(400, f"Invalid request: missing {name} parameter") from error
        raise HTTPException(400, f"Invalid request: {name}: {first['msg']}") from error


def check_key(expected: str | None, fields: dict[str, Any], request: Request):
    """Raises HTTPException for a request without the key; takes the same time for every wrong key."""
    if not expected:
        return
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    key = str(fields.get("api_key") or bearer)
    if not hmac.compare_digest(digest(key), digest(expected)):
        raise HTTPException(403, "Invalid API key" if key else "This server requires an API key: api_key")


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def openapi_body(model: type[BaseModel], *kinds: str) -> dict[str, Any]:
    """Describes a request body for OpenAPI."""
    schema = model.model_json_schema()
    if kinds == FORMS[1:]:
        schema["properties"]["file"] = {"type": "string", "format": "binary"}
        schema["required"] = [*schema.get("required", []), "file"]
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}
