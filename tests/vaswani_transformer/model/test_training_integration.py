"""Seq2SeqTrainer, gradient accumulation and peft."""

import copy
import gc

import pytest
import torch
from model_examples import enable_checkpointing
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import DataCollatorForSeq2Seq, PreTrainedTokenizerFast, Seq2SeqTrainer, Seq2SeqTrainingArguments

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.loading import load_model


# Sentences whose lengths differ so much that the mean of means is far from the mean.
SENTENCES = [(3, 2), (9, 14), (1, 1), (6, 3), (12, 9), (2, 1), (5, 7), (4, 2)]


@pytest.fixture(autouse=True, scope="module")
def quick_garbage_collection():
    """Each trainer collects garbage, and half a million objects of the imported libraries would be looked at."""
    gc.freeze()
    yield
    gc.unfreeze()


def dataset():
    generator = torch.Generator().manual_seed(5)

    def ids(length):
        return [*torch.randint(3, 48, (length,), generator=generator).tolist(), 1]

    return [{"input_ids": ids(source), "labels": ids(target)} for source, target in SENTENCES]


def collator(model):
    vocabulary = {"<pad>": 0, "</s>": 1, **{str(i): i for i in range(2, 48)}}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(vocabulary)), pad_token="<pad>")
    return DataCollatorForSeq2Seq(tokenizer, model=model)


class KeepOrder(Seq2SeqTrainer):
    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def train(model, path, **options):
    """One pass over the data with plain gradient descent; returns the trained model and the losses logged."""
    settings = dict(
        output_dir=str(path), num_train_epochs=1, per_device_train_batch_size=2, learning_rate=0.5, optim="sgd",
        lr_scheduler_type="constant", max_grad_norm=0.0, logging_steps=1, save_strategy="no", report_to=[],
        use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = KeepOrder(
        model=model,
        args=Seq2SeqTrainingArguments(**{**settings, **options}),
        train_dataset=dataset(),
        data_collator=collator(model),
    )
    trainer.train()
    return model, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def whole_batch(model):
    return collator(model)(dataset())


@pytest.mark.parametrize("label_smoothing_factor", [0.0, 0.1], ids=["our smoothing", "the trainer's smoothing"])
@pytest.mark.parametrize("micro_batch", [8, 2, 1])
def test_micro_steps_make_one_large_step(tiny_model, tmp_path, micro_batch, label_smoothing_factor):
    """Against a step made by hand; where the trainer smooths, the model does not."""
    model = tiny_model(label_smoothing=0.1, label_smoothing_type="uniform")
    reference = copy.deepcopy(model).train()
    if label_smoothing_factor:
        model.config.label_smoothing = 0.7
    trained, losses = train(
        model,
        tmp_path,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=len(SENTENCES) // micro_batch,
        label_smoothing_factor=label_smoothing_factor,
    )
    loss = reference(**whole_batch(reference)).loss
    loss.backward()
    torch.optim.SGD(reference.parameters(), lr=0.5).step()
    assert losses == pytest.approx([loss.item()], rel=1e-4)
    for (name, actual), expected in zip(trained.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("smoothing_type", ["t2t", "uniform"])
def test_micro_steps_add_up_without_a_trainer(tiny_model, smoothing_type):
    model = tiny_model(label_smoothing_type=smoothing_type)
    batch = whole_batch(model)
    count = (batch["labels"] != -100).sum()
    expected = model(**batch).loss
    expected.backward()
    grads = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    total = 0.0
    for rows in (slice(0, 1), slice(1, 6), slice(6, 8)):
        loss = model(**{name: tensor[rows] for name, tensor in batch.items()}, num_items_in_batch=count).loss
        loss.backward()
        total += loss.detach()
    torch.testing.assert_close(total, expected.detach())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, grads[name], rtol=1e-4, atol=1e-6, msg=name)


def test_evaluation_reports_the_plain_loss_and_predicts(tiny_model, tmp_path):
    """The negative log-likelihood of a token, although the model is trained with label smoothing."""
    model = tiny_model()
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=str(tmp_path), per_device_eval_batch_size=len(SENTENCES), predict_with_generate=True,
            generation_max_length=6, report_to=[], use_cpu=True, disable_tqdm=True,
        ),
        eval_dataset=dataset(),
        data_collator=collator(model),
        compute_metrics=lambda prediction: {"longest": (prediction.predictions > 0).sum(axis=1).max()},
    )  # fmt: skip
    metrics = trainer.evaluate()
    with torch.no_grad():
        batch = whole_batch(model)
        outputs = model(**batch)
    expected = torch.nn.functional.cross_entropy(outputs.logits.flatten(0, 1), batch["labels"].flatten())
    assert model.config.label_smoothing == 0.1
    assert metrics["eval_loss"] == pytest.approx(expected.item(), rel=1e-4)
    assert 1 <= metrics["eval_longest"] <= 6


def test_the_trainers_defaults_do_not_shorten_later_translations(tiny_model, tmp_path):
    """After `predict_with_generate` the library's max_length of 20 is in a model's settings: not in ours."""
    model = tiny_model(softmax_bias=True)
    model.lm_head.bias.data[1] = -1e4  # it never ends
    source = torch.tensor([[5, 6, 7, 1]])
    before = model.generate(source)
    assert before.shape[1] == 1 + 4 + 50
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(tmp_path), per_device_eval_batch_size=2, predict_with_generate=True, report_to=[],
        use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    longest = []
    trainer = Seq2SeqTrainer(
        model=model, args=arguments, eval_dataset=dataset(), data_collator=collator(model),
        compute_metrics=lambda prediction: longest.append((prediction.predictions > 0).sum(axis=1).max()) or {},
    )  # fmt: skip
    trainer.evaluate()
    assert longest == [max(source for source, _ in SENTENCES) + 1 + 50], "later batches, too, had their own limits"
    assert torch.equal(model.generate(source), before)
    trainer.save_model(tmp_path / "saved")
    saved = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "saved")
    assert torch.equal(saved.generate(source), before)
    assert saved.generation_config.max_length is None
    assert model.generate(source, max_new_tokens=70).shape[1] == 71
    model.generation_config.max_length = 9
    trainer.evaluate()
    assert model.generate(source).shape[1] == 9, "a length that the user has set stays"


def test_a_run_resumes_where_it_stopped(tiny_model, tmp_path):
    model = tiny_model(dropout=0.1)
    options = dict(save_strategy="steps", save_steps=2, optim="adamw_torch", learning_rate=0.01)
    whole, _ = train(copy.deepcopy(model), tmp_path, **options)
    trainer = KeepOrder(
        model=copy.deepcopy(model),
        args=Seq2SeqTrainingArguments(
            output_dir=str(tmp_path), num_train_epochs=1, per_device_train_batch_size=2, lr_scheduler_type="constant",
            max_grad_norm=0.0, report_to=[], use_cpu=True, disable_tqdm=True, **options,
        ),
        train_dataset=dataset(),
        data_collator=collator(model),
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    for actual, expected in zip(trainer.model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(actual, expected)


# peft -----------------------------------------------------------------------------------------------------------------


def adapted(model, **options):
    options = {"target_modules": list(model.lora_targets), **options}
    return get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_2_SEQ_LM, r=4, lora_alpha=16, **options))


def adapted_layers(lora):
    return {name.rpartition(".lora_A")[0] for name, _ in lora.named_parameters() if ".lora_A" in name}


def test_lora_reaches_every_linear_map(tiny_model):
    """Every projection of attention by the names that the model gives, and everything but the head by peft's own."""
    model = tiny_model()
    by_name = adapted_layers(adapted(copy.deepcopy(model)))
    maps = [name for name, module in model.named_modules() if type(module) is torch.nn.Linear and name != "lm_head"]
    attention = [name for name in maps if "attn" in name]
    assert len(attention) == 2 * 2 + 3 * 5
    assert by_name == {f"base_model.model.{name}" for name in attention}
    assert adapted_layers(adapted(model, target_modules="all-linear")) == {f"base_model.model.{name}" for name in maps}


def test_lora_trains_saves_and_merges(tiny_model, tmp_path):
    model = tiny_model(attention_bias=True)
    untouched = copy.deepcopy(model)
    lora = adapted(model)
    trainable = [name for name, parameter in lora.named_parameters() if parameter.requires_grad]
    # Two projections in each encoder layer and five in each decoder layer, each with an A and a B.
    assert len(trainable) == 2 * (2 * 2 + 3 * 5) and all("lora_" in name for name in trainable)

    _, losses = train(lora, tmp_path / "run", num_train_epochs=8, per_device_train_batch_size=8, learning_rate=2.0)
    assert losses[-1] < losses[0] - 0.05
    lora.save_pretrained(tmp_path / "adapter")
    batch = whole_batch(untouched)
    with torch.no_grad():
        expected = lora.eval()(**batch).logits
        assert not torch.allclose(expected, untouched(**batch).logits, atol=1e-3)
        reloaded = PeftModel.from_pretrained(copy.deepcopy(untouched), tmp_path / "adapter").eval()
        torch.testing.assert_close(reloaded(**batch).logits, expected, rtol=1e-5, atol=1e-5)
        merged = lora.merge_and_unload()
        assert isinstance(merged, VaswaniForConditionalGeneration)
        assert merged.state_dict().keys() == untouched.state_dict().keys()
        torch.testing.assert_close(merged(**batch).logits, expected, rtol=1e-4, atol=1e-4)


def test_lora_with_embeddings_of_its_own_merges_saves_and_loads(tiny_model, tmp_path):
    """What peft advises for new tokens. It unties the configuration of a model that stays as it was built."""
    lora = adapted(tiny_model(), modules_to_save=["lm_head", "embed_tokens"])
    with torch.no_grad():
        for parameter in lora.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    merged = lora.merge_and_unload().eval()
    merged.save_pretrained(tmp_path)
    batch = whole_batch(merged)
    with torch.no_grad():
        torch.testing.assert_close(load_model(tmp_path)(**batch).logits, merged(**batch).logits, rtol=0, atol=0)


def test_lora_with_gradient_checkpointing_and_generation(tiny_model):
    lora = adapted(tiny_model()).train()
    lora.enable_input_require_grads()
    enable_checkpointing(lora, use_reentrant=True)
    batch = whole_batch(lora)
    lora(**batch).loss.backward()
    grads = [parameter.grad for name, parameter in lora.named_parameters() if "lora_B" in name]
    assert all(grad is not None and grad.abs().max() > 0 for grad in grads)
    generated = lora.eval().generate(
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=4
    )
    assert generated.shape[0] == len(SENTENCES)
