"""A checkpoint folder like those that ship, small enough to train while a test waits: it knows `PAIRS` by heart."""

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

import torch

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.learn_bpe import learn_tokenizer
from vaswani_transformer.model.generation_vaswani import paper_generation_config


PAIRS = {
    "A man rides a bicycle.": "Ein Mann fährt Fahrrad.",
    "Two dogs run.": "Zwei Hunde rennen.",
    "A woman reads a long book in the old park.": "Eine Frau liest im alten Park ein langes Buch.",
    "Hello!": "Hallo!",
    "The child sleeps, and the cat watches it.": "Das Kind schläft, und die Katze schaut ihm zu.",
    "Thanks": "Danke",
}

ABOUT = {
    "name": "tiny-en-de",
    "source_language": "en",
    "target_language": "de",
    "parameters": 123_456,
    "bytes": 250_000,
    "licence": "CC-BY 2.0 FR",
    "domain": "",
    "notice": "Knows six sentences.",
    "trained_on": ["six sentences"],
    "max_length": 40,
    "scores": [{"dataset": "six sentences", "metric": "BLEU", "value": 100.0, "signature": "nrefs:1"}],
}


@cache
def tiny_checkpoint() -> Path:
    """The folder, made on the first call in a process."""
    tokenizer = learn_tokenizer([*PAIRS, *PAIRS.values()], vocab_size=300)
    config = VaswaniConfig(
        vocab_size=300, d_model=32, d_ff=64, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2, dropout=0.0, label_smoothing=0.0,
    )  # fmt: skip
    torch.manual_seed(1)
    model = VaswaniForConditionalGeneration(config)
    model.generation_config = paper_generation_config(
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )
    batch = tokenizer(list(PAIRS), text_target=list(PAIRS.values()), padding=True, return_tensors="pt")
    batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert loss < 0.01, "the model has not learned its sentences"

    folder = Path(tempfile.mkdtemp(prefix="tiny-checkpoint-")) / ABOUT["name"]
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    model.eval().half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "about.json").write_text(json.dumps(ABOUT), encoding="utf-8")
    return folder
