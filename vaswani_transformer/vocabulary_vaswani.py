"""Other sizes of the vocabularies, and embeddings that are shared no more (section 3.4, `share_embeddings`)."""

from torch import nn


class VocabularyMixin:
    """For encoder and decoder without the pre-softmax transformation."""

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding):
        if self.config.share_embeddings == "all":
            self.shared = value
            self.decoder.embed_tokens = value
        self.encoder.embed_tokens = value

    def resize_token_embeddings(self, *args, **kwargs) -> nn.Embedding:
        """Resizes the source vocabulary, and the target's with it where they are one."""
        embeddings = super().resize_token_embeddings(*args, **kwargs)
        if self.config.share_embeddings == "all":
            self.config.decoder_vocab_size = embeddings.num_embeddings
        return embeddings

    def untie_embeddings(self):
        """Gives source and target copies of the matrix that they share, for them to train apart."""
        for stack in (self.encoder, self.decoder):
            untie(stack.embed_tokens)
        if hasattr(self, "shared"):
            del self.shared
        self.config.share_embeddings = "none"
        self._tied_weights_keys, self.all_tied_weights_keys = None, {}


def untie(module: nn.Module):
    module.weight = nn.Parameter(module.weight.detach().clone(), requires_grad=module.weight.requires_grad)


class HeadVocabularyMixin:
    """For the whole model, whose pre-softmax transformation has a row for each token of the target."""

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args, **kwargs) -> nn.Embedding:
        """Resizes the source vocabulary, and the target's with it where they are one."""
        if self.config.share_embeddings != "all":
            return self.model.resize_token_embeddings(new_num_tokens, *args, **kwargs)
        embeddings = super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        self._resize_target_side(embeddings)
        return embeddings

    def resize_decoder_token_embeddings(self, new_num_tokens: int, mean_resizing: bool = True) -> nn.Embedding:
        """Resizes the target vocabulary and the pre-softmax transformation of a model with two vocabularies.

        Raises:
            ValueError: source and target share one vocabulary.
        """
        if self.config.share_embeddings == "all":
            raise ValueError("Source and target share one vocabulary: use `resize_token_embeddings`.")
        decoder = self.model.decoder
        decoder.embed_tokens = self._get_resized_embeddings(
            decoder.embed_tokens, new_num_tokens, mean_resizing=mean_resizing
        )
        self._resize_target_side(decoder.embed_tokens)
        return decoder.embed_tokens

    def untie_embeddings(self):
        """Gives source, target and pre-softmax copies of the matrix that they share, for them to train apart."""
        untie(self.lm_head)
        self.model.untie_embeddings()
        self._tied_weights_keys, self.all_tied_weights_keys = None, {}

    def _resize_target_side(self, embeddings: nn.Embedding):
        self.config.decoder_vocab_size = embeddings.num_embeddings
        # Where the two share a matrix, `resize_token_embeddings` of the library has resized the transformation already.
        if self.lm_head.out_features != embeddings.num_embeddings or self.config.share_embeddings == "none":
            self.lm_head = self._get_resized_lm_head(self.lm_head, embeddings.num_embeddings)
        self.tie_weights()
