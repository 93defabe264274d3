"""A tokenizer for converted models whose tokens a single tokenizer.json cannot express.

Repositories of such models contain a copy of this file. It adds four features to a plain tokenizer.json, each only if
the saved settings enable it: a separate vocabulary for the target, pieces that are in the segmentation but not in the
model, Moses' tokenizer around it, and tensor2tensor's escapes.
"""

import os
import re
import unicodedata

from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerFast


class VaswaniTokenizer(PreTrainedTokenizerFast):
    """A tokenizer with a source and a target side, which may have separate vocabularies (section 5.1 shares one).

    `tokenizer(text)` encodes a source, `tokenizer(text_target=text)` a target; both return `input_ids` [S] and
    `attention_mask` [S] for one text, and [B, S] for several with `padding=True` and `return_tensors="pt"`. Decoding,
    and ids to tokens, always refer to the target. `vocab_size`, `get_vocab` and tokens to ids refer to the source.

    Settings (in `tokenizer_config.json`, all optional):
        known_tokens, target_known_tokens: The number of rows of each side's embedding. Pieces with higher ids, which
            the segmentation needs as intermediate steps, become the unknown token.
        surfaces, target_surfaces: The ids of tokens whose characters the segmentation does not know.
        moses_source, moses_target: Language codes. Texts first go through Moses' tokenizer, and translations at the
            end through its detokenizer. Needs the package sacremoses.
        moses_normalize, moses_clean: Whether Moses normalises punctuation first; whether it then also replaces
            full-width punctuation and removes control characters.
        moses_dash_splits, moses_escape: Whether Moses splits at hyphens (default: no); whether it writes characters
            such as "&" as "&amp;" (default: yes).
        escape: "t2t" for tensor2tensor's way of splitting and escaping.

    Raises:
        ValueError: A text has pieces that are not in the vocabulary, which has no unknown token, or a lone surrogate.
        ImportError: The settings name Moses, and sacremoses is not installed.
    """

    vocab_files_names = {"tokenizer_file": "tokenizer.json", "target_tokenizer_file": "target_tokenizer.json"}
    model_input_names = ["input_ids", "attention_mask"]
    _tokenizer: Tokenizer  # the library's own attribute: the side in use
    _source_side: Tokenizer | None = None
    _target_side: Tokenizer | None = None

    @classmethod
    def from_sides(cls, source: Tokenizer, target: Tokenizer | None = None, **settings) -> "VaswaniTokenizer":
        """Combine the tokenizers of the two sides. Without `target`, one serves both.

        `settings` are those of the class, and special tokens such as `pad_token`.
        """
        tokenizer = cls(tokenizer_object=source, **settings)
        if target is not None:
            tokenizer._set_target(target)
        return tokenizer

    # Loading and saving. With an `__init__` here, the library would rebuild the tokenizer while loading it.

    @classmethod
    def from_pretrained(cls, *args, **kwargs) -> "VaswaniTokenizer":
        tokenizer = super().from_pretrained(*args, **kwargs)
        path = tokenizer.init_kwargs.pop("target_tokenizer_file", None)
        if path is not None:
            tokenizer._set_target(Tokenizer.from_file(path))
        return tokenizer

    def _set_target(self, target: Tokenizer):
        self._source_side, self._target_side = self._tokenizer, target

    def _save_pretrained(self, save_directory, file_names, legacy_format=None, filename_prefix=None):
        self._switch_to_input_mode()
        saved = super()._save_pretrained(save_directory, file_names, legacy_format, filename_prefix)
        if self._target_side is None:
            return saved
        name = self.vocab_files_names["target_tokenizer_file"]
        path = os.path.join(str(save_directory), f"{filename_prefix}-{name}" if filename_prefix else name)
        self._target_side.save(path)
        return (*saved, path)

    # The two sides.

    @property
    def _in_target_mode(self) -> bool:
        return self.__dict__.get("_target_mode", False)

    def _switch_to_input_mode(self):
        self._target_mode = False
        if self._source_side is not None:
            self._tokenizer = self._source_side

    def _switch_to_target_mode(self):
        self._target_mode = True
        if self._target_side is not None:
            self._tokenizer = self._target_side

    def _setting(self, name: str, default=None):
        """The setting `name` of the side in use."""
        if self._in_target_mode and self._target_side is not None:
            name = f"target_{name}"
        return self.init_kwargs.get(name, default)

    # Encoding.

    def _encode_plus(self, text, text_pair=None, is_split_into_words: bool = False, **kwargs):
        if not is_split_into_words:
            text, text_pair = self._prepared(text), self._prepared(text_pair)
        try:
            return super()._encode_plus(
                text=text, text_pair=text_pair, is_split_into_words=is_split_into_words, **kwargs
            )
        except BaseException:
            self._switch_to_input_mode()
            raise

    def _prepared(self, text):
        if isinstance(text, str):
            return self._prepare(text)
        return [self._prepared(part) for part in text] if isinstance(text, list | tuple) else text

    def _prepare(self, text: str) -> str:
        if (half := re.search("[\ud800-\udfff]", text)) is not None:
            raise ValueError(f"Invalid Unicode (a lone surrogate) at position {half.start()} of a text. Remove it.")
        language = self.init_kwargs.get("moses_target" if self._in_target_mode else "moses_source")
        if language:
            text = self._moses(language).tokenize(text)
        if self.init_kwargs.get("escape") == "t2t":
            text = t2t_escape(text, self._alphabet())
        return text

    def _convert_encoding(self, encoding: Encoding, *args, **kwargs):
        data, encodings = super()._convert_encoding(encoding, *args, **kwargs)
        data["input_ids"] = [self._known_ids(part) for part in encodings]
        return data, encodings

    def _known_ids(self, encoding: Encoding) -> list[int]:
        ids = encoding.ids
        first, end = self._hidden()
        surfaces = self._setting("surfaces")
        if first == end and not surfaces:
            return ids
        unk = self.unk_token_id
        if unk is None and any(first <= i < end for i in ids):
            raise ValueError(
                "A text has characters that are not in the vocabulary, and the tokenizer has no unknown token. Remove "
                "them from the text."
            )
        ids = [unk if first <= i < end else i for i in ids]
        if surfaces:
            ids = [surfaces.get(token, i) if i == unk else i for i, token in zip(ids, encoding.tokens, strict=True)]
        return ids

    def _hidden(self) -> tuple[int, int]:
        """The ids [first, end) of pieces without an embedding."""
        end = self._tokenizer.get_vocab_size(with_added_tokens=False)
        return min(self._setting("known_tokens", end), end), end

    # The public vocabulary: the source's, without hidden pieces. Ids to tokens are the target's.

    @property
    def vocab_size(self) -> int:
        return self._hidden()[0]

    def __len__(self) -> int:
        first, end = self._hidden()
        size = super().__len__()
        return first if size == end else size  # added tokens come after the hidden pieces

    def get_vocab(self) -> dict[str, int]:
        first, end = self._hidden()
        return {token: i for token, i in super().get_vocab().items() if not first <= i < end}

    def _convert_token_to_id_with_added_voc(self, token: str) -> int | None:
        i = super()._convert_token_to_id_with_added_voc(token)
        first, end = self._hidden()
        return self.unk_token_id if i is not None and first <= i < end else i

    # Decoding always refers to targets. It does not change the mode, because another thread may be encoding.

    @property
    def _decoding_side(self) -> Tokenizer:
        return self._tokenizer if self._target_side is None else self._target_side

    def convert_ids_to_tokens(self, ids, skip_special_tokens: bool = False):
        side = self._decoding_side
        if isinstance(ids, int):
            return side.id_to_token(ids)
        skipped = set(self.all_special_ids) if skip_special_tokens else ()
        return [side.id_to_token(int(i)) for i in ids if int(i) not in skipped]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        decoder = self._decoding_side.decoder
        return self._finish(" ".join(tokens) if decoder is None else decoder.decode(tokens))

    def _decode(self, token_ids, skip_special_tokens: bool = False, clean_up_tokenization_spaces=None, **kwargs) -> str:
        ids = [token_ids] if isinstance(token_ids, int) else token_ids
        text = self._finish(self._decoding_side.decode(ids, skip_special_tokens=skip_special_tokens))
        return self.clean_up_tokenization(text) if clean_up_tokenization_spaces else text

    def _finish(self, text: str) -> str:
        if self.init_kwargs.get("escape") == "t2t":
            text = t2t_unescape(text)
        language = self.init_kwargs.get("moses_target")
        return self._moses(language).detokenize(text) if language else text

    # Helpers, created when first needed.

    def _moses(self, language: str) -> "Moses":
        by_language = self.__dict__.setdefault("_moses_by_language", {})
        if language not in by_language:
            names = ("normalize", "clean", "dash_splits", "escape")
            options = {name: self.init_kwargs.get(f"moses_{name}") for name in names}
            by_language[language] = Moses(language, **{n: value for n, value in options.items() if value is not None})
        return by_language[language]

    def _alphabet(self) -> set[str]:
        name = "_target_alphabet" if self._in_target_mode else "_source_alphabet"
        if name not in self.__dict__:
            setattr(self, name, {c for token in self._tokenizer.get_vocab() for c in token} | set("\\_u;0123456789"))
        return getattr(self, name)


class Moses:
    """Moses' normalizer, tokenizer and detokenizer for one language, from the package sacremoses.

    Raises:
        ImportError: sacremoses is not installed.
    """

    def __init__(
        self,
        language: str,
        normalize: bool = False,
        clean: bool = False,
        dash_splits: bool = False,
        escape: bool = True,
    ):
        try:
            import sacremoses
        except ImportError:
            raise ImportError(
                "This model was trained on text that was tokenized by Moses. Install sacremoses: pip install sacremoses"
            ) from None
        self.normalizer = None
        if normalize:
            options = dict(pre_replace_unicode_punct=clean, post_remove_control_chars=clean)
            self.normalizer = sacremoses.MosesPunctNormalizer(lang=language, **options)
        self.tokenizer = sacremoses.MosesTokenizer(lang=language)
        self.detokenizer = sacremoses.MosesDetokenizer(lang=language)
        self.options = {"aggressive_dash_splits": dash_splits, "escape": escape, "return_str": True}

    def tokenize(self, text: str) -> str:
        if self.normalizer is not None:
            text = self.normalizer.normalize(text)
        return self.tokenizer.tokenize(text, **self.options)

    def detokenize(self, text: str) -> str:
        return self.detokenizer.detokenize(text.split())


def is_alphanumeric(character: str) -> bool:
    return unicodedata.category(character)[0] in "LN"


def t2t_escape(text: str, alphabet: set[str]) -> str:
    """Write the words of a text as tensor2tensor does, each followed by "_".

    A word has either only letters and digits, or only other characters. A single space between two words is left out.
    Characters outside `alphabet` are written as their numbers.
    """
    runs: list[str] = []
    for character in text.strip():
        if runs and is_alphanumeric(character) == is_alphanumeric(runs[-1][-1]):
            runs[-1] += character
        else:
            runs.append(character)
    words = [run.replace("\\", "\\\\").replace("_", "\\u") for run in runs if run != " "]
    return "".join("".join(c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in word) + "_" for word in words)


def t2t_unescape(escaped: str) -> str:
    """Invert `t2t_escape`. Invalid escapes stay as they are; a number that is not a character becomes U+3013."""

    def character(match: re.Match) -> str:
        if match[1] is None:
            return "_" if match[0] == "\\u" else "\\"
        try:
            return chr(int(match[1]))
        except (ValueError, OverflowError):
            return "\u3013"

    words = [re.sub(r"\\u|\\\\|\\([0-9]+);", character, word) for word in escaped.split("_")]
    text = ""
    was_alphanumeric = False
    for word in filter(None, words):
        text += f" {word}" if text and was_alphanumeric and is_alphanumeric(word[0]) else word
        was_alphanumeric = is_alphanumeric(word[0])
    return text


__all__ = ["VaswaniTokenizer"]
