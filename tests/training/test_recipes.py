"""Recipes: those that ship, and what a recipe is refused for."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from training import recipe as recipe_module
from training import train
from training.recipe import load_recipe
from vaswani_transformer import PRESETS, VaswaniConfig


pytestmark = pytest.mark.quick


RECIPES = Path(train.__file__).with_name("recipes")
SHIPPED = sorted(RECIPES.rglob("*.yaml"))
TABLE_3 = {"base", "big", *(preset for preset in PRESETS if preset.startswith("table3-"))}

PLAIN = """
name: plain
source_language: en
target_language: de
preset: tiny
vocab_size: 300
data:
  train:
    - path: train.tsv
  validation:
    - {path: valid.en, target_path: valid.de}
"""


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "plain.yaml"
    path.write_text(PLAIN, encoding="utf-8")
    return path


def config_of(recipe) -> VaswaniConfig:
    return VaswaniConfig.from_preset(recipe.preset, vocab_size=recipe.vocab_size, **recipe.model)


def sources_of(recipe):
    return recipe.data.train + recipe.data.validation + recipe.data.test


class TestShipped:
    @pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
    def test_loads_under_the_name_of_its_file(self, path):
        assert load_recipe(path).name == "-".join(path.relative_to(RECIPES).with_suffix("").parts)

    @pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
    def test_every_training_source_has_a_licence_and_restrictions_are_in_the_notice(self, path):
        recipe = load_recipe(path)
        assert all(source.licence for source in recipe.data.train)
        if any(re.search("research|non-commercial", source.licence) for source in recipe.data.train):
            assert "non-commercial" in recipe.notice and "-nc-" in recipe.licence

    @pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
    def test_no_file_is_both_learned_from_and_tested_on(self, path):
        recipe = load_recipe(path)
        learned = {(s.path, s.dataset, s.config, s.split) for s in recipe.data.train}
        assert not learned & {(s.path, s.dataset, s.config, s.split) for s in recipe.data.validation + recipe.data.test}
        assert not any(Path(source.path or "").is_absolute() for source in sources_of(recipe))

    def test_columns_of_a_direction_agree(self):
        """Files name the languages of their columns; Multi30k has English, German, French."""
        for path in SHIPPED:
            recipe = load_recipe(path)
            for source in sources_of(recipe):
                if source.target_path:
                    read = [source.path.rsplit(".")[-1], source.target_path.rsplit(".")[-1]]
                elif source.path and not source.generator:
                    pair = re.search(r"\b(en|de|fr)-(en|de|fr)\b", source.path)
                    languages = pair.groups() if pair else ["en", "de", "fr"]
                    read = [languages[source.source_column], languages[source.target_column]]
                else:
                    read = [source.source_column.split(".")[-1], source.target_column.split(".")[-1]]
                assert read == [recipe.source_language, recipe.target_language], (path, source.title)

    def test_table_3_is_complete_and_each_row_is_its_preset(self):
        rows = [load_recipe(path) for path in (RECIPES / "table3").glob("*.yaml")]
        assert {row.preset for row in rows} == TABLE_3 and len(rows) == len(TABLE_3)
        for row in rows:
            assert config_of(row).to_dict() == VaswaniConfig.from_preset(row.preset).to_dict()
            assert row.optimisation.max_steps == (300_000 if row.preset == "big" else 100_000)
            assert row.checkpointing.average_last == 1
            assert [source.split for source in row.data.test] == ["validation"]  # newstest2013

    def test_table_3_names_the_published_figures(self):
        rows = {path.stem: path.read_text(encoding="utf-8") for path in (RECIPES / "table3").glob("*.yaml")}
        figures = {
            row: re.search(r"perplexity ([\d.]+), BLEU ([\d.]+) on", text).groups() for row, text in rows.items()
        }
        assert {row: " ".join(pair) for row, pair in figures.items()} == {
            "base": "4.92 25.8",
            **{"a-h1": "5.29 24.9", "a-h4": "5.00 25.5", "a-h16": "4.91 25.8", "a-h32": "5.01 25.4"},
            **{"b-dk16": "5.16 25.1", "b-dk32": "5.01 25.4"},
            **{"c-n2": "6.11 23.7", "c-n4": "5.19 25.3", "c-n8": "4.88 25.5", "c-d256": "5.75 24.5"},
            **{"c-d1024": "4.66 26.0", "c-ff1024": "5.12 25.4", "c-ff4096": "4.75 26.2"},
            **{"d-dropout0": "5.77 24.6", "d-dropout0.2": "4.95 25.5"},
            **{"d-smoothing0": "4.67 25.3", "d-smoothing0.2": "5.47 25.7", "e-learned": "4.92 25.7"},
            "big": "4.33 26.4",
        }

    @pytest.mark.parametrize("pair", ["de", "fr"])
    @pytest.mark.parametrize("size", ["base", "big"])
    def test_the_papers_runs(self, pair, size):
        recipe = load_recipe(RECIPES / f"wmt14-en-{pair}-{size}.yaml")
        config, steps = config_of(recipe), recipe.optimisation
        assert config.vocab_size == {"de": 37_000, "fr": 32_000}[pair]
        assert (config.d_model, config.encoder_layers) == ({"base": 512, "big": 1024}[size], 6)
        assert config.dropout == (0.3 if (pair, size) == ("de", "big") else 0.1)
        assert config.label_smoothing == 0.1
        assert steps.max_steps == {"base": 100_000, "big": 300_000}[size]
        assert (steps.optimiser, steps.adam_beta1, steps.adam_beta2, steps.adam_epsilon) == ("adam", 0.9, 0.98, 1e-9)
        assert (steps.warmup_steps, steps.learning_rate_scale, steps.cooldown_steps) == (4000, 1.0, 0)
        assert (steps.max_grad_norm, steps.precision, steps.batch_tokens) == (None, "float32", 25_000)
        seconds_a_step = {"base": 0.4, "big": 1.0}[size]
        assert recipe.checkpointing.save_steps * seconds_a_step == 600
        assert recipe.checkpointing.average_last == {"base": 5, "big": 20}[size]


class TestReading:
    def test_defaults_are_the_papers(self, plain):
        recipe = load_recipe(plain)
        assert recipe.optimisation.adam_beta2 == 0.98 and recipe.optimisation.optimiser == "adam"
        assert (recipe.data.train[0].source_column, recipe.data.train[0].target_column) == (0, 1)
        assert recipe.data.validation[0].source_column is None  # plain text has none

    @pytest.mark.parametrize("source", ["path: a.jsonl", "path: a.jsonl.gz", "dataset: owner/name"])
    def test_named_columns_follow_the_languages(self, plain, source):
        plain.write_text(PLAIN.replace("path: train.tsv", source), encoding="utf-8")
        train = load_recipe(plain).data.train[0]
        assert (train.source_column, train.target_column) == ("translation.en", "translation.de")

    def test_overrides(self, plain):
        recipe = load_recipe(
            plain,
            [
                "optimisation.max_steps=7",
                "model.dropout=0.3",
                "data.train.0.weight=2",
                "data.validation.0.path=other.en",
                "data.test=[{path: test.tsv, name: a=b}]",
                "optimisation.adam_epsilon=1e-8",
            ],
        )
        assert recipe.optimisation.max_steps == 7 and recipe.model == {"dropout": 0.3}
        assert recipe.data.train[0].weight == 2 and recipe.data.validation[0].path == "other.en"
        assert recipe.data.test[0].name == "a=b"
        assert recipe.optimisation.adam_epsilon == 1e-8

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ("seed", "expects KEY=VALUE"),
            ("data.train.1.weight=2", "data.train has 1 entries"),
            ("data.train.1={path: b.tsv}", "data.train has 1 entries"),
            ("data.train.first.weight=2", "not 'first'"),
            ("name.first=2", "name is a single value"),
            ("seed=[1", "not valid YAML"),
            ("data.train.0=", "data.train.0 must have keys and values"),
        ],
    )
    def test_overrides_that_fit_nowhere(self, plain, override, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            load_recipe(plain, [override])

    def test_extends_merges_keys_and_replaces_lists(self, plain):
        (plain.parent / "rows").mkdir()
        above = plain.parent / "rows" / "above.yaml"
        above.write_text(
            "extends: ../plain.yaml\nname: above\ndata: {train: [{path: a.tsv}, {path: b.tsv}]}\n"
            "optimisation: {max_steps: 5}\n"
        )
        top = plain.parent / "top.yaml"
        top.write_text("extends: rows/above.yaml\noptimisation: {warmup_steps: 2}\n")
        recipe = load_recipe(top)
        assert recipe.name == "above" and recipe.preset == "tiny"
        assert [source.path for source in recipe.data.train] == ["a.tsv", "b.tsv"]
        assert recipe.data.validation[0].path == "valid.en"
        assert (recipe.optimisation.max_steps, recipe.optimisation.warmup_steps) == (5, 2)

    def test_extends_and_adds_to_a_list(self, plain):
        above = plain.parent / "above.yaml"
        above.write_text("extends: plain.yaml\ndata:\n  train+: [{path: more.tsv}]\n")
        one, two = (load_recipe(path).data for path in (plain, above))
        assert two.train[:-1] == one.train and two.train[-1].path == "more.tsv"
        assert two.validation == one.validation
        above.write_text("extends: plain.yaml\ndata:\n  training+: [{path: more.tsv}]\n")
        with pytest.raises(ValueError, match=r"data\.training\+ is unknown; did you mean 'train'"):
            load_recipe(above)

    def test_extends_in_a_circle(self, plain):
        for name, below in (("one", "two"), ("two", "one"), ("self", "self")):
            (plain.parent / f"{name}.yaml").write_text(f"extends: {below}.yaml\nname: {name}\n")
        with pytest.raises(ValueError, match=r"extends itself: one\.yaml -> two\.yaml -> one\.yaml"):
            load_recipe(plain.parent / "one.yaml")
        with pytest.raises(ValueError, match=r"extends itself: self\.yaml -> self\.yaml"):
            load_recipe(plain.parent / "self.yaml")

    @pytest.mark.parametrize(
        ("text", "error", "message"),
        [
            ("extends: none.yaml", FileNotFoundError, "none.yaml"),
            ("extends: [plain.yaml]", ValueError, "extends is ['plain.yaml']"),
            ("- a list", ValueError, "is not a recipe"),
            ("name: [", ValueError, "not valid YAML"),
            ("name: a\nseed: 1\nname: b", ValueError, "duplicate key 'name'"),
            ("extends: plain.yaml\ndata:\n  joined: 1\n  joined: 2", ValueError, "duplicate key 'joined'"),
        ],
    )
    def test_files_that_are_no_recipe(self, plain, text, error, message):
        path = plain.parent / "wrong.yaml"
        path.write_text(text)
        with pytest.raises(error, match=re.escape(message)):
            load_recipe(path)

    def test_merge_keys_of_yaml_are_no_repetition(self, plain):
        plain.write_text(
            PLAIN.replace("- path: train.tsv", "- &one {path: train.tsv, weight: 2}\n    - {<<: *one, path: b.tsv}")
        )
        assert [(source.path, source.weight) for source in load_recipe(plain).data.train] == [
            ("train.tsv", 2),
            ("b.tsv", 2),
        ]


# What a recipe says -> what its refusal names.
CONTRADICTIONS = {
    "initial and preset": (["initial=mini-en-de"], "leave out preset and vocab_size"),
    "no model": (["preset=null"], "give preset and vocab_size, or initial"),
    "no vocabulary": (["vocab_size=null"], "give preset and vocab_size, or initial"),
    "unknown preset": (["preset=bse"], "preset is 'bse'; it must be one of base, "),
    "vocabulary below the bytes": (["vocab_size=257"], "vocab_size is 257; it must be 258 or more"),
    "unknown field": (["model.d_modle=64"], "model.d_modle is not a field of VaswaniConfig"),
    "the tokenizer's id": (["model.pad_token_id=3"], "model.pad_token_id follows from the tokenizer"),
    "the tokenizer's size": (["model.vocab_size=400"], "model.vocab_size follows from the tokenizer"),
    "another target vocabulary": (["model.decoder_vocab_size=400"], "model.decoder_vocab_size follows from"),
    "heads": (["model.encoder_attention_heads=7"], "(128) is not divisible by encoder_attention_heads (7)"),
    "a field's type": (["model.d_model=wide"], "d_model must be a whole number, not 'wide'"),
    "more than the learned positions": (
        ["model={position_encoding: learned, max_position_embeddings: 90, position_offset: 2}", "data.max_length=89"],
        "data.max_length is 89, but the 90 learned positions",
    ),
    "nothing to learn": (["data.train=[]"], "data.train is []"),
    "file and data set": (["data.train.0.dataset=a/b"], "data.train.0: needs either path or dataset"),
    "neither": (["data.train.0={}"], "data.train.0: needs either path or dataset"),
    "target alone": (["data.train.0={dataset: a/b, target_path: c}"], "data.train.0: target_path needs path"),
    "columns of plain text": (["data.validation.0.tag_column=1"], "data.validation.0: plain text (target_path) has no"),
    "a file's config": (["data.train.0.config=de-en"], "data.train.0: config, split and revision belong to dataset"),
    "a file's revision": (["data.train.0.revision=main"], "data.train.0: config, split and revision belong to"),
    "a file's split": (["data.validation.0.split=test"], "data.validation.0: config, split and revision belong to"),
    "a name in TSV": (["data.train.0.source_column=en"], "data.train.0: columns of tab-separated text are numbers"),
    "tags alone": (["data.train.0.tags=[a]"], "data.train.0: tags and tag_column must be used together"),
    "tag_column alone": (["data.train.0.tag_column=2"], "data.train.0: tags and tag_column must be used together"),
    "no weight": (["data.train.0.weight=0"], "data.train.0.weight is 0; it must be more than 0"),
    "no number as weight": (["data.train.0.weight=.nan"], "data.train.0.weight is nan"),
    "fewer than none": (["data.train.0.held_out=-1"], "data.train.0.held_out is -1"),
    "held out of validation": (
        ["data.validation.0.held_out=1"],
        "validation.0: held_out, weight and",
    ),
    "a test set's weight": (
        ["data.test=[{path: a.tsv, weight: 2}]"],
        "test.0: held_out, weight and",
    ),
    "held out of a stream": (
        ["data.streaming=true", "data.train.0.held_out=9"],
        "held_out pairs cannot be",
    ),
    "the same name twice": (
        ["data.train=[{path: a.tsv, name: A, held_out: 1}, {path: b.tsv, name: A, held_out: 1}]"],
        "two sources with held_out have the same name",
    ),
    "an unknown variation": (["data.variations.colour=0.1"], "data.variations.colour"),
    "a negative variation": (["data.variations.capitals=-1"], "data.variations.capitals is -1"),
    "tokenizer lines of a test": (["data.test=[{path: a, tokenizer_lines: 3}]"], "test.0: held_out, weight and token"),
    "a schedule for none": (
        ["optimisation.optimiser=schedule_free", "optimisation.cooldown_steps=5"],
        "optimisation: cooldown_steps needs a schedule",
    ),
    "all merges undone": (["data.bpe_dropout=1"], "data.bpe_dropout is 1; it must be less than 1"),
    "joined": (["data.joined=-0.1"], "data.joined is -0.1; it must be 0 or more"),
    "seed": (["seed=-1"], "seed is -1"),
    "momentum": (["optimisation.adam_beta2=1.0"], "optimisation.adam_beta2 is 1.0; it must be less than 1"),
    "negative momentum": (["optimisation.adam_beta1=-0.1"], "optimisation.adam_beta1 is -0.1"),
    "workers": (["optimisation.workers=-1"], "optimisation.workers is -1"),
    "negative cooldown": (["optimisation.cooldown_steps=-1"], "optimisation.cooldown_steps is -1"),
    "long cooldown": (["optimisation.cooldown_steps=9", "optimisation.max_steps=8"], "is more than max_steps"),
    "small batch": (["optimisation.batch_tokens=99", "data.max_length=100"], "batch_tokens is less than data.max_leng"),
    "BLEU of nothing": (["checkpointing.bleu_steps=5", "data.validation=[]"], "bleu_steps needs data.validation"),
    "negative BLEU": (["checkpointing.bleu_steps=-5"], "checkpointing.bleu_steps is -5"),
    "negative samples": (["checkpointing.samples=-1"], "checkpointing.samples is -1"),
    "compiled checkpointing": (
        ["optimisation.compile=true", "optimisation.gradient_checkpointing=true"],
        "compile and gradient_checkpointing do not work together",
    ),
    **{
        key: ([f"{key}=0"], f"{key} is 0; it must be more than 0")
        for key in (
            *("data.max_length", "data.max_ratio", "data.window", "data.tokenizer_lines"),
            *("optimisation.max_steps", "optimisation.batch_tokens", "optimisation.micro_batches"),
            *("optimisation.warmup_steps", "optimisation.learning_rate_scale", "optimisation.adam_epsilon"),
            *("optimisation.max_grad_norm", "checkpointing.save_steps", "checkpointing.average_last"),
            *("checkpointing.log_steps", "checkpointing.validation_steps", "checkpointing.bleu_sentences"),
        )
    },
}


class TestRefusing:
    @pytest.mark.parametrize(("overrides", "message"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
    def test_contradictions(self, plain, overrides, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            load_recipe(plain, overrides)

    def test_wrong_keys_and_types_are_named_at_once(self, plain):
        overrides = ["optimisation.max_step=3", "vocab_size=many", "optimisation.precision=int8", "colour=red"]
        overrides += ["seed=true", "data.train.0.tags=good", "checkpointing.trackers=[1]", "optimisation.compile=1"]
        plain.write_text(PLAIN.replace("name: plain\n", ""), encoding="utf-8")
        with pytest.raises(ValueError) as error:
            load_recipe(plain, overrides)
        named = [line.removeprefix("  - ").split()[0] for line in str(error.value).splitlines()[1:]]
        assert sorted(named) == sorted(["name", *(override.partition("=")[0] for override in overrides[:5])]
            + ["data.train.0.tags", "checkpointing.trackers.0", "optimisation.compile"])  # fmt: skip

    def test_contradictions_are_named_at_once(self, plain):
        with pytest.raises(ValueError) as error:
            load_recipe(plain, ["preset=bse", "data.joined=-1", "optimisation.max_steps=0"])
        assert len(str(error.value).splitlines()) == 4

    def test_training_ends_before_anything_is_read_or_written(self, plain, tmp_path, monkeypatch, capsys):
        def nothing_else(*arguments):
            raise AssertionError("the run was begun")

        monkeypatch.setattr("training.run.Run", nothing_else)
        output = tmp_path / "run"
        arguments = ["train", str(plain), "--output", str(output), "--set", "optimisation.max_step=3"]
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as end:
            train.main()
        assert end.value.code == 1
        assert "optimisation.max_step is unknown; did you mean 'max_steps'?" in capsys.readouterr().err
        assert not output.exists()


class TestPrinting:
    @pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
    def test_what_is_printed_is_the_same_recipe(self, path, tmp_path, monkeypatch, capsys):
        overrides = ["seed=3", "checkpointing.trackers=[tensorboard]", "notice='für alle: ja'"]
        arguments = [word for override in overrides for word in ("--set", override)]
        monkeypatch.setattr(sys, "argv", ["recipe", str(path), *arguments])
        recipe_module.main()
        printed = tmp_path / "printed.yaml"
        printed.write_text(capsys.readouterr().out, encoding="utf-8")
        assert "extends" not in yaml.safe_load(printed.read_text(encoding="utf-8"))
        assert load_recipe(printed) == load_recipe(path, overrides)

    def test_a_wrong_recipe_is_not_printed(self, plain, monkeypatch, capsys):
        monkeypatch.setattr(sys, "argv", ["recipe", str(plain), "--set", "colour=red"])
        with pytest.raises(SystemExit) as end:
            recipe_module.main()
        printed = capsys.readouterr()
        assert end.value.code == 1 and "colour is unknown; known keys: name, " in printed.err and not printed.out
