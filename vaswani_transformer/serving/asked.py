"""A request's fields, from JSON or a form, and who may ask."""

import hashlib
import hmac
import json
from typing import Annotated, Any, Literal, TypeVar

from fastapi import HTTPException, Request
from pydantic import AfterValidator, BaseModel, Field, ValidationError
from starlette.datastructures import FormData


MOST_ALTERNATIVES = 9
JSON = "application/json"
FORMS = "application/x-www-form-urlencoded", "multipart/form-data"


def whole_characters(text: str) -> str:
    """JSON can hold half a character, which no text can."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"it has half a character at position {error.start}") from error
    return text


Text = Annotated[str, AfterValidator(whole_characters)]


class Keyed(BaseModel):
    api_key: str = Field("", description="Where the server asks for one; a header `Authorization: Bearer ...` will do.")


class TranslateRequest(Keyed):
    q: Text | list[Text] = Field(description="A text of any length, or several.")
    source: Text = Field("auto", description="Its language, such as `en`; `auto` finds out.")
    target: Text = Field(description="The language to translate into.")
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=MOST_ALTERNATIVES, description="Translations wanted besides the best.")


class DetectRequest(Keyed):
    q: Text = Field(description="A text.")


class FileRequest(Keyed):
    source: Text = "auto"
    target: Text


Model = TypeVar("Model", bound=BaseModel)


async def fields_of(request: Request) -> tuple[dict[str, Any], FormData | None]:
    """What a request says in its address and its body; and its form, which holds files.

    Raises:
        HTTPException: the body is neither JSON nor a form.
    """
    fields: dict[str, Any] = dict(request.query_params)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in FORMS:
        form = await request.form(max_fields=1000)
        texts = [value for name, value in form.multi_items() if name == "q"]
        fields |= {name: value for name, value in form.items() if isinstance(value, str)}
        return fields | ({"q": texts} if len(texts) > 1 else {}), form
    body = await request.body()
    if not body.strip():
        return fields, None
    try:
        said = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "The body of the request is neither JSON nor a form.") from error
    if not isinstance(said, dict):
        raise HTTPException(400, "The body of the request is not a JSON object.")
    return fields | said, None


def checked(model: type[Model], fields: dict[str, Any]) -> Model:
    """Raises HTTPException, with a sentence, for fields that are missing or of the wrong kind."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "missing":
            raise HTTPException(400, f"Invalid request: missing {name} parameter") from error
        raise HTTPException(400, f"Invalid request: {name}: {first['msg']}") from error


def check_key(expected: str | None, fields: dict[str, Any], request: Request):
    """Raises HTTPException for a request without the key, after the same time for any other key."""
    if not expected:
        return
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    given = str(fields.get("api_key") or bearer)
    if not hmac.compare_digest(digest(given), digest(expected)):
        raise HTTPException(403, "Invalid API key" if given else "This server asks for an API key: api_key")


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def body_of(model: type[BaseModel], *kinds: str) -> dict[str, Any]:
    """What OpenAPI says of a request's body."""
    schema = model.model_json_schema()
    if kinds == FORMS[1:]:
        schema["properties"]["file"] = {"type": "string", "format": "binary"}
        schema["required"] = [*schema.get("required", []), "file"]
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}
