"""Makes transformers' notation for types readable on the site: (`int`, *optional*) becomes (int, optional)."""

import re
from typing import Any

from griffe import Extension, Object


TYPES = re.compile(r"^( *[*\w][*\w, ]* \()(`.*)(\):)", re.MULTILINE)


class PlainTypes(Extension):
    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = TYPES.sub(lambda m: m[1] + re.sub("[`*]", "", m[2]) + m[3], obj.docstring.value)
