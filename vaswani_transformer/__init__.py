"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017), Hugging Face-native and trained.

Importing this package registers the model with transformers' Auto classes, and the task "translation" with `pipeline`.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .catalogue import checkpoint_path


if TYPE_CHECKING:
    from .inspection.attention_figure import attention_figure
    from .inspection.heads import without_heads
    from .inspection.inspection import Inspection, inspect_translation
    from .learn_bpe import learn_tokenizer
    from .loading import LoadingError, load
    from .model.configuration_vaswani import PRESETS, VaswaniConfig
    from .model.glossary_vaswani import Glossary
    from .model.int8_vaswani import Int8Config, quantize
    from .model.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel, VaswaniPreTrainedModel
    from .model.pipeline_translation import TranslationPipeline, translate_texts
    from .model.shortlist_vaswani import Shortlist
    from .model.tokenization_vaswani import VaswaniTokenizer

__all__ = [
    "PRESETS",
    "Glossary",
    "Inspection",
    "Int8Config",
    "LoadingError",
    "Shortlist",
    "TranslationPipeline",
    "VaswaniConfig",
    "VaswaniForConditionalGeneration",
    "VaswaniModel",
    "VaswaniPreTrainedModel",
    "VaswaniTokenizer",
    "__version__",
    "attention_figure",
    "checkpoint_path",
    "inspect_translation",
    "learn_tokenizer",
    "load",
    "quantize",
    "translate_texts",
    "without_heads",
]


if not TYPE_CHECKING:  # a checker sees the imports above, and with this would believe in every other name, too

    def __getattr__(name: str) -> Any:
        """A public name that needs torch, which takes seconds to import (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(".registration", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _runs_a_command() -> bool:
    """Whether this process is `vaswani`, or `python -m` with a module of ours: they import torch when they need it."""
    program = sys.argv[0] if sys.argv else ""
    if Path(program).stem == "vaswani" or (program == "-m" and __name__ in sys.orig_argv):
        return True
    module = getattr(sys.modules["__main__"], "__spec__", None)  # set by `python -m`
    if module is None or module.name.partition(".")[0] not in (__name__, "training", "conversion"):
        return False
    return Path(__file__).parents[1] in Path(module.origin).parents


if not _runs_a_command():
    _registration = import_module(".registration", __name__)
    globals().update({name: getattr(_registration, name) for name in _registration.__all__})
