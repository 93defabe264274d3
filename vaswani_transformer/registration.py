"""Registers the model with transformers, and imports the public names of the package.

`import vaswani_transformer` imports this module. A command imports it only when it uses a public name.
"""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipelines

from ._version import __version__
from .inspection.attention_figure import attention_figure
from .inspection.heads import without_heads
from .inspection.inspection import Inspection, inspect_translation
from .learn_bpe import learn_tokenizer
from .loading import LoadingError, load
from .locating import checkpoint_path
from .model.configuration_vaswani import PRESETS, VaswaniConfig
from .model.glossary_vaswani import Glossary
from .model.int8_vaswani import Int8Config, quantize
from .model.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel, VaswaniPreTrainedModel
from .model.pipeline_translation import TranslationPipeline, translate_texts
from .model.shortlist_vaswani import Shortlist
from .model.tokenization_vaswani import VaswaniTokenizer


AutoConfig.register("vaswani", VaswaniConfig, exist_ok=True)
AutoModel.register(VaswaniConfig, VaswaniModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(VaswaniConfig, VaswaniForConditionalGeneration, exist_ok=True)
AutoTokenizer.register(VaswaniConfig, fast_tokenizer_class=VaswaniTokenizer, exist_ok=True)

# `save_pretrained` also writes the code, so that saved models load where this package is not installed.
VaswaniConfig.register_for_auto_class()
VaswaniModel.register_for_auto_class("AutoModel")
VaswaniForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
VaswaniTokenizer.register_for_auto_class("AutoTokenizer")

# transformers 5 has removed the task "translation", and rejects removed tasks before it checks the registry. This
# package adds the task again, so it counts as present again.
getattr(pipelines, "REMOVED_TASKS", {}).pop("translation", None)
pipelines.PIPELINE_REGISTRY.register_pipeline("translation", TranslationPipeline, pt_model=AutoModelForSeq2SeqLM)

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
