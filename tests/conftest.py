"""What all tests share: one thread, one seed, and small models whose every parameter counts."""

import os
import sys
import tempfile


# On a busy machine even a Hub on this machine answers late. huggingface_hub reads these when it is imported.
os.environ |= {"HF_HUB_ETAG_TIMEOUT": "600", "HF_HUB_DOWNLOAD_TIMEOUT": "600"}

import pytest
import torch
from hypothesis import HealthCheck, settings

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration


torch.set_num_threads(1)
# No test reads or fills the user's cache of converted checkpoints.
CACHE = tempfile.TemporaryDirectory(prefix="vaswani-cache-")
os.environ["VASWANI_CACHE"] = CACHE.name

# The one profile of property tests: none depends on the clock, and in CI none depends on chance.
settings.register_profile(
    "suite",
    deadline=None,
    print_blob=True,
    derandomize="CI" in os.environ,
    # Slow machines are not an error; fixtures that property tests ask for keep no state between examples.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")

# Sizes that differ wherever they may, so that no mix-up of two of them goes unseen.
TINY = dict(
    vocab_size=48, d_model=16, d_ff=40, encoder_layers=2, decoder_layers=3,
    encoder_attention_heads=2, decoder_attention_heads=4, dropout=0.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def seed():
    torch.set_num_threads(1)  # again: ctranslate2 sets the number for the whole process
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def fresh_accelerate():
    """accelerate keeps the precision of the first Trainer or run of a process; the next test may ask for another."""
    if state := sys.modules.get("accelerate.state"):
        state.AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture(scope="session")
def tiny_config():
    """Makes a configuration with the fields given, the others small."""
    return lambda **fields: VaswaniConfig(**{**TINY, **fields})


@pytest.fixture(scope="session")
def tiny_model(tiny_config):
    """Makes a model in evaluation mode whose biases and LayerNorms are random instead of 0 and 1."""

    def make(**fields) -> VaswaniForConditionalGeneration:
        model = VaswaniForConditionalGeneration(tiny_config(**fields)).eval()
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.data.add_(0.3 * torch.randn_like(parameter))
        return model

    return make


@pytest.fixture(scope="session")
def make_batch():
    """Makes random source and target ids of the given lengths with their masks, padded with 0 on either side."""

    def make(source_lengths=(7, 4, 1), target_lengths=(5, 6, 2), side="right", vocab_size=48) -> dict:
        def pad(lengths):
            ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
            for row, length in zip(ids, lengths, strict=True):
                real = slice(None, length) if side == "right" else slice(len(row) - length, None)
                row[real] = torch.randint(3, vocab_size, (length,))
            return ids

        source, target = pad(source_lengths), pad(target_lengths)
        return {
            "input_ids": source,
            "attention_mask": source.ne(0).long(),
            "decoder_input_ids": target,
            "decoder_attention_mask": target.ne(0).long(),
        }

    return make
