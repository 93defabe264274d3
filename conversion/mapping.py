"""Tables that map the tensors of another toolkit to ours, in both directions.

A table is text, one row for a module or a tensor: our name, then the other toolkit's.

    model.encoder.layers.{e}.self_attn.qkv_proj    encoder.layers.{e}.self_attn.{q,k,v}_proj
    model.encoder.layers.{e}.feed_forward.fc1      encoder_l{e+1}_ffn_W1.T

- `{e}` and `{d}` count the layers of the encoder and of the decoder, from 0; `{e+1}` counts from 1.
- `{q,k,v}` stands for three names. The tensors of each side, joined along the first axis, are equal.
- `.T` at the end: the other toolkit's matrices are [in, out], ours [out, in].
- A row of modules stands for their parameters, `weight` and `bias`, whatever the toolkit calls them.
- `ffn_[W|b]1` names a module's weight and bias where the toolkit has no common name for the two.

transformers' `WeightConverter` works in one direction. A table works in both and reports every problem at once.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from .options import ConversionError, Options, sharing


NEVER = -1e4  # a bias whose exp is 0 in every type, half precision included


@dataclass(frozen=True)
class Rule:
    """Names of tensors here and in the toolkit. Each side joined on axis 0 holds the same numbers.

    With `transposed`, each of the toolkit's tensors is transposed first.
    """

    ours: tuple[str, ...]
    toolkit: tuple[str, ...]
    transposed: bool = False


class Table:
    """A mapping table; see the module's docstring.

    `parameters` are the toolkit's names for `weight` and `bias`. `ignored` are regular expressions for the names of
    tensors that need no conversion, such as position tables that our model computes.
    """

    def __init__(self, text: str, parameters: tuple[str, str] = ("weight", "bias"), ignored: Iterable[str] = ()):
        self.rows = [line.split() for line in text.strip().splitlines() if line.strip()]
        if wrong := [row for row in self.rows if len(row) != 2]:
            raise ValueError(f"Each row of a table has two names: {wrong}")
        self.parameters = parameters
        self.ignored = re.compile("|".join(ignored)) if ignored else None

    def rules(self, config: VaswaniConfig) -> list[Rule]:
        """Expands each row for every layer and parameter of the model that `config` describes."""
        layers = {"e": config.encoder_layers, "d": config.decoder_layers}
        shapes = our_shapes(config)
        rules = []
        for ours, toolkit in self.rows:
            stack = next((name for name in layers if f"{{{name}}}" in ours), None)
            for number in range(layers[stack]) if stack else [0]:
                rules += self._row(numbered(ours, stack, number), numbered(toolkit, stack, number), shapes)
        return rules

    def _row(self, ours: str, toolkit: str, shapes: Mapping[str, torch.Size]) -> Iterable[Rule]:
        transposed = toolkit.endswith(".T")
        ours, toolkit = expanded(ours), expanded(toolkit.removesuffix(".T"))
        if any(name in shapes for name in ours):  # a row of tensors
            yield Rule(tuple(ours), tuple(toolkit), transposed)
            return
        for parameter, name in zip(("weight", "bias"), self.parameters, strict=True):
            rule = Rule(
                tuple(f"{module}.{parameter}" for module in ours),
                tuple(parameter_name(module, parameter, name) for module in toolkit),
                transposed and parameter == "weight",
            )
            if all(tensor in shapes for tensor in rule.ours):
                yield rule

    def read(self, tensors: Mapping[str, torch.Tensor], config: VaswaniConfig) -> dict[str, torch.Tensor]:
        """Converts the toolkit's tensors to ours, in float32.

        Raises:
            ConversionError: tensors are missing, unknown or have the wrong shape; the message names all.
        """
        if (layers := max(config.encoder_layers, config.decoder_layers)) > len(
            tensors
        ):  # checked before any layer is built
            raise ConversionError(
                f"The options say {layers} layers, but the checkpoint has only {len(tensors)} tensors."
            )
        shapes, ours, used, problems = our_shapes(config), {}, set(), []
        for rule in self.rules(config):
            if wrong := unusable(rule, tensors):
                problems += wrong
                used.update(rule.toolkit)
                continue
            used.update(rule.toolkit)
            expected = [shapes[name] for name in rule.ours]
            whole = joined([tensors[name].float() for name in rule.toolkit], rule.transposed)
            if len(expected[0]) == 1:  # Marian's vectors are [1, n]
                whole = whole.flatten()
            if whole.shape != (sum(shape[0] for shape in expected), *expected[0][1:]):
                problems.append(shape_mismatch(rule, tensors, expected))
                continue
            ours.update(zip(rule.ours, whole.split([shape[0] for shape in expected]), strict=True))
        problems += [
            f"{name} is not part of this model" for name in tensors if name not in used | self._ignored(tensors)
        ]
        if not problems:
            problems = [f"{name} is missing" for name in shapes if name not in ours]
        if problems:
            raise ConversionError.from_problems("The tensors do not match the recorded options", problems)
        return {name: tensor.contiguous() for name, tensor in ours.items()}

    def _ignored(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if self.ignored and self.ignored.fullmatch(name)}

    def write(self, ours: Mapping[str, torch.Tensor], config: VaswaniConfig) -> dict[str, torch.Tensor]:
        """Converts our tensors to the toolkit's. Joined tensors are divided evenly among their names."""
        tensors = {}
        for rule in self.rules(config):
            whole = torch.cat([ours[name] for name in rule.ours])
            for name, part in zip(rule.toolkit, whole.chunk(len(rule.toolkit)), strict=True):
                tensors[name] = (part.T if rule.transposed else part).contiguous()
        return tensors


def unusable(rule: Rule, tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """Returns the problems with the tensors of a rule, if any."""
    if missing := [f"{name} is missing" for name in rule.toolkit if name not in tensors]:
        return missing
    kinds = {name: tensors[name].dtype for name in rule.toolkit}
    return [f"{name} is {kind}, not floating-point" for name, kind in kinds.items() if not kind.is_floating_point]


def joined(parts: list[torch.Tensor], transposed: bool) -> torch.Tensor:
    """The parts joined on axis 0; an empty tensor if their shapes do not match."""
    try:
        return torch.cat([part.mT if transposed else part for part in parts])
    except RuntimeError:
        return torch.empty(0)


def shape_mismatch(rule: Rule, tensors: Mapping[str, torch.Tensor], expected: list[torch.Size]) -> str:
    stored = " + ".join(str(list(tensors[name].shape)) for name in rule.toolkit)
    return f"{', '.join(rule.toolkit)}: {stored} does not fit {[list(shape) for shape in expected]}"


def matrices(tensors: Mapping[str, torch.Tensor], names: Sequence[str], options: Options) -> list[torch.Tensor]:
    """Returns the matrices called `names`, such as the embeddings, whose shapes the configuration is read from.

    Raises:
        ConversionError: options were refused, or a matrix is missing or does not have two axes.
    """
    missing = [name for name in names if name not in tensors]
    vectors = [name for name in names if name in tensors and tensors[name].dim() != 2]
    if missing or vectors:
        options.finish()  # refused options explain the missing matrices
    if missing:
        what = f"Not a translation model of {options.toolkit}: the state dict has no tensors"
        raise ConversionError.from_problems(what, missing)
    if vectors:
        raise ConversionError.from_problems("These tensors must be matrices", vectors)
    return [tensors[name] for name in names]


def shared(
    source: torch.Tensor, target: torch.Tensor, softmax: torch.Tensor,
    same: Callable[[torch.Tensor, torch.Tensor], bool] = operator.is_,
) -> str:  # fmt: skip
    """`share_embeddings` of the configuration (section 3.4): which of the three matrices are shared.

    If only source and target share a matrix, it is stored twice.
    """
    tied = same(target, softmax)
    return sharing(tied and same(source, target), tied)


def with_unused_rows(
    tensors: Mapping[str, torch.Tensor], names: Iterable[str], bias: str, size: int
) -> dict[str, torch.Tensor]:
    """Extends the embeddings and the pre-softmax matrix called `names`, and its `bias`, to `size` tokens.

    Added rows are zero and are never generated. Tensors of other shapes stay: the mapping table refuses them.
    """
    tensors = dict(tensors)
    for name in (*names, bias):
        tensor, axis = tensors[name], -1 if name == bias else 0
        if tensor.dim() in (1, 2) and (missing := size - tensor.shape[axis]) > 0:
            added = (0, missing) if name == bias else (0, 0, 0, missing)
            tensors[name] = torch.nn.functional.pad(tensor, added, value=NEVER if name == bias else 0.0)
    return tensors


def our_shapes(config: VaswaniConfig) -> dict[str, torch.Size]:
    """The name and shape of every tensor in our state dict. A shared matrix appears under each of its names.

    Raises:
        ConversionError: a size is too large for a tensor.
    """
    try:
        with torch.device("meta"):
            model = VaswaniForConditionalGeneration(config)
    except (RuntimeError, OverflowError) as error:
        raise ConversionError(f"These options do not describe a valid model: {error}") from None
    return {name: tensor.shape for name, tensor in model.state_dict().items() if name != "model.shared.weight"}


def numbered(name: str, stack: str | None, number: int) -> str:
    """Replaces `{e}` and `{e+1}` by numbers."""
    if stack is None:
        return name
    return name.replace(f"{{{stack}}}", str(number)).replace(f"{{{stack}+1}}", str(number + 1))


def count_layers(names: Iterable[str], prefix: str) -> int:
    """Counts the different numbers that follow `prefix` in the names of tensors."""
    return len({name[len(prefix) :].partition(".")[0] for name in names if name.startswith(prefix)})


def parameter_name(module: str, parameter: str, name: str) -> str:
    """`ffn_[W|b]1` becomes ffn_W1 or ffn_b1, depending on `parameter`; other modules have a parameter `name`."""
    spot = re.search(r"\[(.+)\|(.+)\]", module)
    if spot is None:
        return f"{module}.{name}"
    return module[: spot.start()] + spot[1 if parameter == "weight" else 2] + module[spot.end() :]


def expanded(name: str) -> list[str]:
    """`{q,k,v}_proj` becomes q_proj, k_proj, v_proj."""
    before, brace, rest = name.partition("{")
    if not brace:
        return [name]
    choices, _, after = rest.partition("}")
    return [f"{before}{choice}{after}" for choice in choices.split(",")]
