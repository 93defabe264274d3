"""The benchmarks on small sizes: operations, batches, curves, and what each writes."""

import json
import shutil

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import beam_search, footprint, generation, gpu, growth, loss_curves, precision, shortlist
from benchmarks.models import OPUS_MT, SHAPES, marian_like, vaswani
from benchmarks.seq2seq_trainer import make_batches
from benchmarks.training_step import training_flops
from conversion.options import Options
from conversion.toolkits import hf_marian
from vaswani_transformer import Shortlist, checkpoint_path


@pytest.mark.parametrize("fields", [dict(), dict(d_k=6, d_v=10), dict(share_embeddings="none", decoder_vocab_size=31)])
def test_floating_point_operations_are_those_that_torch_counts(tiny_model, fields):
    model = tiny_model(**fields).train()
    model.set_attn_implementation("eager")
    source, labels = torch.randint(2, 31, (3, 7)), torch.randint(2, 31, (3, 5))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=source, labels=labels).loss.backward()
    assert counter.get_total_flops() == training_flops(model.config, 3, 7, 5)


def test_batches_hold_whole_sentences_within_the_budget():
    batches = make_batches(vocab_size=50, batch_tokens=400, count=5)
    assert len(batches) == 5
    for batch in batches:
        sentences, source = batch["input_ids"].shape
        target = batch["labels"].shape[1]
        assert 300 < sentences * max(source, target) <= 400
        assert torch.equal(batch["input_ids"] != 0, batch["attention_mask"] == 1)
        assert batch["attention_mask"][:, 0].all() and batch["attention_mask"][:, -1].any()
        real = batch["labels"] != -100
        assert real[:, 0].all() and real[:, -1].any()
        assert not batch["decoder_input_ids"][:, 0].any()
        assert torch.equal(batch["decoder_input_ids"][:, 1:][real[:, 1:]], batch["labels"][:, :-1][real[:, 1:]])
    lengths = [batch["labels"].shape[1] for batch in batches]
    assert lengths[0] < lengths[-1] / 3
    again = make_batches(vocab_size=50, batch_tokens=400, count=5)
    assert all(torch.equal(a[key], b[key]) for a, b in zip(batches, again, strict=True) for key in a)


def test_the_loops_of_beam_search_find_the_same(tmp_path):
    """The benchmark itself refuses to compare loops that find different translations."""
    output = tmp_path / "beam_search.json"
    sizes = ["--batch-sizes", "2", "--source-tokens", "5", "--new-tokens", "6", "--rounds", "1"]
    beam_search.main(["--presets", "tiny", *sizes, "--output", str(output)])
    [result] = json.loads(output.read_text())["results"]
    assert result["preset"] == "tiny" and {"as fast as forward", "as fast as library"} <= result.keys()


def test_curves_are_drawn_and_compared(tmp_path):
    for name, last in (("a", 3.0), ("b", 3.25)):
        (tmp_path / name).mkdir()
        lines = [{"step": 10, "loss": 5.0}, {"step": 10, "validation_loss": 9.0}, {"step": 20, "loss": last}]
        (tmp_path / name / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    output = tmp_path / "curves.json"
    loss_curves.main([f"one={tmp_path}/a", f"two={tmp_path}/b", "--output", str(output)])
    [difference, *_] = json.loads(output.read_text())["results"]
    assert difference == {"of": "two", "from": "one", "largest difference": 0.25, "last difference": 0.25}
    assert "<svg" in output.with_suffix(".svg").read_text()


def test_precisions_are_compared_on_the_same_sentences(tmp_path):
    (tmp_path / "set.tsv").write_text("Ein Hund.\tA dog.\nHallo!\tHello!\n", encoding="utf-8")
    options = ["mini-en-de", f"two={tmp_path}/set.tsv", "--columns", "1", "0", "--output", str(tmp_path / "out.json")]
    precision.main([*options, "--dtypes", "float32", "int8"])
    report = json.loads((tmp_path / "out.json").read_text())
    exact, int8 = report["results"]
    assert (exact["dtype"], int8["dtype"]) == ("float32", "int8") and exact["sentences"] == 2
    assert exact["the same as in float32"] == 1.0 and 0 <= int8["BLEU"] <= 100
    assert "|tok:13a|" in exact["signature"] and str(tmp_path) not in json.dumps(report["settings"]["sets"])


def test_generation_compares_models_that_write_equally_much(tmp_path):
    output = tmp_path / "generation.json"
    sizes = ["--batch-sizes", "2", "--beams", "1", "2", "--source-tokens", "5", "--new-tokens", "6", "--rounds", "1"]
    contenders = ["--contenders", "vaswani", "vaswani int8", "marian", "--cpu-time"]
    generation.main(["--presets", "tiny", *sizes, *contenders, "--output", str(output)])
    results = json.loads(output.read_text())["results"]
    assert [result["beams"] for result in results] == [1, 2]
    assert all({"vaswani / marian", "vaswani int8 / vaswani"} <= result.keys() for result in results)


def test_the_shape_of_opus_mt_is_that_of_its_conversion(monkeypatch):
    """Our model has the configuration that `hf-marian` makes of a MarianMTModel of this shape."""
    monkeypatch.setitem(SHAPES, "opus-mt", ("tiny", OPUS_MT | {"vocab_size": 50}))
    marian = marian_like(vaswani("opus-mt").config).config.to_dict() | {"architectures": ["MarianMTModel"]}
    converted = hf_marian.read_config(Options(marian, "MarianMTModel"))
    assert {name: getattr(converted, name) for name in OPUS_MT} == OPUS_MT | {"vocab_size": 50}


def test_growth_is_measured_and_drawn(tmp_path):
    sizes = ["--length", "4", "6", "--beams", "1", "--sentences", "2", "--vocabulary", "30", "60", "--rounds", "1"]
    output = tmp_path / "growth.json"
    growth.main(["--preset", "tiny", *sizes, "--contenders", "vaswani", "marian", "--output", str(output)])
    results = json.loads(output.read_text())["results"]
    assert [(r["grown"], r["value"]) for r in results] == [
        ("length", 4), ("length", 6), ("beams", 1), ("sentences", 2), ("vocabulary", 30), ("vocabulary", 60)
    ]  # fmt: skip
    assert all(r["seconds"].keys() == {"vaswani", "marian"} for r in results)
    assert "<svg" in output.with_suffix(".svg").read_text()


def test_a_footprint_is_measured_in_a_separate_process(tmp_path, monkeypatch):
    def write(preset, folder):
        vaswani(preset).save_pretrained(folder / "vaswani")

    monkeypatch.setattr(footprint, "write_models", write)
    output = tmp_path / "footprint.json"
    sizes = ["--batch-size", "2", "--source-tokens", "4", "--new-tokens", "3", "--repetitions", "2"]
    held = bytearray(600 * 2**20)  # must not count for the separate process
    footprint.main(["--presets", "tiny", *sizes, "--contenders", "vaswani", "--output", str(output)])
    del held
    [result] = json.loads(output.read_text())["results"]
    assert 50 < result["MiB imported"] <= result["MiB at most"] < 900
    assert 0 < result["imported after s"] <= result["loaded after s"] <= result["first sentence after s"]
    assert result["ms a sentence"] > 0


def test_shortlists_are_measured_on_real_sentences(tmp_path):
    shutil.copytree(checkpoint_path("mini-en-de"), tmp_path / "model")
    size = json.loads((tmp_path / "model" / "config.json").read_text())["vocab_size"]
    Shortlist(torch.ones(size, 1), torch.arange(size)).save_pretrained(tmp_path / "model")
    (tmp_path / "set.tsv").write_text("A dog.\tEin Hund.\nIt is NASA.\tDas ist NASA.\n", encoding="utf-8")
    options = ["--dtypes", "float32", "--beams", "1", "--rounds", "1", "--output", str(tmp_path / "out.json")]
    shortlist.main([str(tmp_path / "model"), f"two={tmp_path}/set.tsv", *options])
    [result] = json.loads((tmp_path / "out.json").read_text())["results"]
    assert result["the same"] == 1.0 and result["BLEU full"] == result["BLEU short"]
    assert result["copied words"] == result["of these kept"]


@pytest.mark.slow
def test_the_gpu_benchmark_is_rehearsed(tmp_path):
    sizes = ["--sentences", "4", "--tokens", "8", "--batch-sizes", "2", "--rounds", "1"]
    gpu.main(["--device", "cpu", "--presets", "tiny", *sizes, "--output", str(tmp_path / "gpu.json")])
    results = json.loads((tmp_path / "gpu.json").read_text())["results"]
    assert [r for r in results if "error" in r] == []
    assert [r["training"] for r in results if "training" in r] == ["sdpa", "flash", "compiled"]
    assert {r["beams"] for r in results if r.get("decoding") == "static cache, compiled"} == {1, 4}
