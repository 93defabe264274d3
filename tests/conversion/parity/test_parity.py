"""References of another model, or invalid ones, must not pass as a check."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from conversion.converted import generation_config
from conversion.options import ConversionError
from conversion.parity.recorded import compare_recorded
from conversion.parity.scores import compare
from conversion.toolkits.torch import convert


FILES = Path(__file__).parents[2] / "fixtures" / "torch_nn_transformer" / "base"


@pytest.fixture(scope="module")
def model():
    return convert(FILES).model()


@pytest.fixture
def reference(tmp_path):
    """The recorded reference with some arrays changed."""

    def make(**changed) -> Path:
        with np.load(FILES / "reference.npz") as file:
            arrays = {name: changed.get(name, lambda x: x)(file[name]) for name in file.files}
        np.savez(tmp_path / "reference.npz", **arrays)
        return tmp_path / "reference.npz"

    return make


@pytest.mark.parametrize(
    "changed",
    [
        {"logits": lambda x: x[..., :1]},
        {"logits": lambda x: x[..., : x.shape[-1] // 2]},
        {"logits": lambda x: np.concatenate([x, x], axis=-1)},
        {"logits": lambda x: x[:, :1]},
        {"input_ids": lambda x: x + 10**6},
        {"input_ids": lambda x: x.astype(str)},
        {"decoder_attention_mask": np.zeros_like},
        {name: lambda x: x[:0] for name in ("input_ids", "attention_mask")},
    ],
    ids=lambda x: "-".join(x),
)
def test_a_reference_of_another_model_is_refused(model, reference, changed):
    with pytest.raises(ConversionError, match="reference"):
        compare_recorded(model, reference(**changed))


@pytest.mark.parametrize(
    "said",
    ["[]", "{", '{"generate": [1]}', '{"generate": {"greedy": [[{"ids": [5]}]]}}', '{"generate": {"greedy": [[5]]}}'],
)
def test_an_invalid_record_is_refused(model, reference, said):
    path = reference()
    path.with_suffix(".json").write_text(said)
    with pytest.raises(ConversionError, match="reference.json"):
        compare_recorded(model, path)


@pytest.mark.parametrize("scale, holds", [(1, False), (100, True)])
def test_a_difference_counts_by_the_size_of_the_scores(model, scale, holds):
    with np.load(FILES / "reference.npz") as file:
        inputs = {name: torch.from_numpy(file[name]) for name in file.files if name.endswith(("ids", "mask"))}

    def scaled(**inputs):
        return SimpleNamespace(logits=model(**inputs).logits * scale)

    scaled.config = model.config
    scores = scaled(**{name: x for name, x in inputs.items() if name != "decoder_attention_mask"}).logits
    assert compare(scaled, inputs, scores + 2e-4, "itself").holds is holds
    assert not compare(scaled, inputs, scores + 1e-2 * scale, "itself").holds


def test_greedy_settings_can_be_saved(model, tmp_path):
    settings = generation_config(model.config, num_beams=1, length_penalty=0.6, early_stopping=True)
    settings.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "generation_config.json").read_text())["num_beams"] == 1
    with pytest.raises(ConversionError, match="0 beams"):
        generation_config(model.config, num_beams=0)
