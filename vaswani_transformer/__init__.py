"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017), Hugging Face-native and trained.

Importing this package registers the model with transformers' Auto classes.
"""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

from ._version import __version__
from .catalogue import checkpoint_path
from .configuration_vaswani import PRESETS, VaswaniConfig
from .modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel, VaswaniPreTrainedModel
from .pipeline_translation import TranslationPipeline
from .tokenization_vaswani import VaswaniTokenizer


AutoConfig.register("vaswani", VaswaniConfig, exist_ok=True)
AutoModel.register(VaswaniConfig, VaswaniModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(VaswaniConfig, VaswaniForConditionalGeneration, exist_ok=True)
AutoTokenizer.register(VaswaniConfig, fast_tokenizer_class=VaswaniTokenizer, exist_ok=True)
# Saved repositories carry the code, so that they load where this package is not installed.
VaswaniConfig.register_for_auto_class()
VaswaniModel.register_for_auto_class("AutoModel")
VaswaniForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
VaswaniTokenizer.register_for_auto_class("AutoTokenizer")

__all__ = [
    "PRESETS",
    "TranslationPipeline",
    "VaswaniConfig",
    "VaswaniForConditionalGeneration",
    "VaswaniModel",
    "VaswaniPreTrainedModel",
    "VaswaniTokenizer",
    "__version__",
    "checkpoint_path",
]
