"""Common code of the exporters: loads our checkpoints and writes folders completely or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniForConditionalGeneration, VaswaniTokenizer
from vaswani_transformer.loading import config_problem
from vaswani_transformer.locating import checkpoint_path
from vaswani_transformer.system.files import atomic_folder

from ..files.folders import check_new
from ..files.text import one_line, read_json_object, read_text
from ..hub.card import exported_card
from ..options import ConversionError, shown
from ..parity.samples import padded, sample_ids
from ..parity.scores import tolerance


SNIPPET = """\
```python
{imports}from transformers import {classes}

folder = "PATH OF THIS FOLDER"
tokenizer = AutoTokenizer.from_pretrained(folder)
{code}
```
"""


def load(checkpoint: str, **settings) -> tuple[VaswaniForConditionalGeneration, PreTrainedTokenizerBase | None]:
    """Loads a checkpoint: the model in float32 and evaluation mode, and its tokenizer, or None if there is none.

    `checkpoint` is an included checkpoint, a folder or a Hub id. Code in the checkpoint never runs.

    Raises:
        ConversionError: it does not exist, is damaged, is another kind of model, or weights are missing.
    """
    folder = checkpoint_folder(checkpoint)
    check_kind(folder, checkpoint)
    try:
        model, report = VaswaniForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, trust_remote_code=False, **settings
        )
    except StrictDataclassError as error:
        raise ConversionError(f"{checkpoint}/config.json: {config_problem(error)}") from error
    except Exception as error:  # damaged files raise errors of many kinds
        raise ConversionError(f"Cannot load {checkpoint}: {one_line(error)}") from error
    if missing := sorted(report["missing_keys"]):
        raise ConversionError.from_problems(f"Weights are missing in {checkpoint}", missing)
    if getattr(model, "is_quantized", False):
        model = model.dequantize(torch.float32)
    if not (folder / "tokenizer_config.json").is_file():
        return model.eval(), None
    try:
        return model.eval(), AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:
        raise ConversionError(f"Cannot load the tokenizer of {checkpoint}: {one_line(error)}") from error


def check_kind(folder: Path, checkpoint: str):
    """Checks the kind of model before transformers loads the folder, whose config.json may request custom code.

    Raises:
        ConversionError: it is not a Vaswani model.
    """
    try:
        kind = read_json_object(folder / "config.json").get("model_type")
    except (OSError, ConversionError) as error:
        raise ConversionError(f"Cannot load {checkpoint}: {one_line(error)}") from None
    if kind != VaswaniForConditionalGeneration.config_class.model_type:
        raise ConversionError(f"{checkpoint} is a {shown(kind)} model, not a vaswani model. Convert it first.")


def checkpoint_folder(checkpoint: str) -> Path:
    """Returns the folder of a checkpoint; a Hub repository is downloaded.

    Raises:
        ConversionError: it does not exist.
    """
    try:
        return Path(checkpoint_path(str(checkpoint), needs_target=False))
    except Exception as error:  # huggingface_hub also raises errors of its HTTP client
        raise ConversionError(one_line(error)) from error


@torch.no_grad()
def accepted_difference(model: VaswaniForConditionalGeneration) -> float:
    """Returns the largest difference of a score that rounding explains; see `parity.scores`."""
    config = model.config
    source, mask = padded(sample_ids(config, (3, 1), config.vocab_size), config.pad_token_id)
    target, _ = padded(sample_ids(config, (1, 3), config.decoder_vocab_size), config.pad_token_id)
    logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False).logits
    return tolerance(logits.max(dim=-1).values)


@contextmanager
def exported_folder(
    out: Path, model: PreTrainedModel, start: str, library: str, tokenizer: PreTrainedTokenizerBase | None = None
) -> Iterator[Path]:
    """Yields a folder to fill, which becomes `out` if the block ends without an error.

    Saves the tokenizer and the card of `model`'s folder, with `start` as its section on getting started and `library`
    as its library. The card keeps the licence.

    Raises:
        ConversionError: `out` exists and is not an empty folder.
    """
    check_new(out)
    with atomic_folder(out) as folder:
        yield folder
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        card = Path(model.name_or_path) / "README.md"
        if card.is_file():
            (folder / "README.md").write_text(exported_card(read_text(card), start, library), encoding="utf-8")


def snippet(code: str, *modules: str, tokenizer: PreTrainedTokenizerBase | None = None, also: str = "") -> str:
    """Returns a Python block for a card: it imports `modules`, loads the folder's tokenizer and runs `code`.

    `also` names another class to import from transformers. For a VaswaniTokenizer, the block imports our package.
    """
    if isinstance(tokenizer, VaswaniTokenizer):
        modules = (*modules, "vaswani_transformer  # its tokenizer")
    classes = ", ".join(filter(None, [also, "AutoTokenizer"]))
    return SNIPPET.format(
        imports="".join(f"import {module}\n" for module in modules), classes=classes, code=code.strip()
    )
