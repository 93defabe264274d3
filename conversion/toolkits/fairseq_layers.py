"""Tables shared by fairseq and two models of transformers derived from it, MarianMTModel and FSMT.

`layers` returns the rows for the tensors of layers. `TRANSFORMERS_OPTIONS` are options that the two models share.
"""

LAYERS = """
    model.encoder.layers.{e}.self_attn.qkv_proj      encoder.layers.{e}.self_attn.{q,k,v}_proj
    model.encoder.layers.{e}.self_attn.out_proj      encoder.layers.{e}.self_attn.out_proj
    model.encoder.layers.{e}.self_attn_norm          encoder.layers.{e}.self_attn_layer_norm
    model.encoder.layers.{e}.feed_forward.fc1        encoder.layers.{e}.fc1
    model.encoder.layers.{e}.feed_forward.fc2        encoder.layers.{e}.fc2
    model.encoder.layers.{e}.feed_forward_norm       encoder.layers.{e}.final_layer_norm

    model.decoder.layers.{d}.self_attn.qkv_proj      decoder.layers.{d}.self_attn.{q,k,v}_proj
    model.decoder.layers.{d}.self_attn.out_proj      decoder.layers.{d}.self_attn.out_proj
    model.decoder.layers.{d}.self_attn_norm          decoder.layers.{d}.self_attn_layer_norm
    model.decoder.layers.{d}.cross_attn.q_proj       decoder.layers.{d}.encoder_attn.q_proj
    model.decoder.layers.{d}.cross_attn.kv_proj      decoder.layers.{d}.encoder_attn.{k,v}_proj
    model.decoder.layers.{d}.cross_attn.out_proj     decoder.layers.{d}.encoder_attn.out_proj
    model.decoder.layers.{d}.cross_attn_norm         decoder.layers.{d}.encoder_attn_layer_norm
    model.decoder.layers.{d}.feed_forward.fc1        decoder.layers.{d}.fc1
    model.decoder.layers.{d}.feed_forward.fc2        decoder.layers.{d}.fc2
    model.decoder.layers.{d}.feed_forward_norm       decoder.layers.{d}.final_layer_norm
    """

TRANSFORMERS_OPTIONS = """
    d_model                     d_model
    d_ff                        encoder_ffn_dim
    decoder_d_ff                decoder_ffn_dim
    encoder_layers              encoder_layers
    decoder_layers              decoder_layers
    encoder_attention_heads     encoder_attention_heads
    decoder_attention_heads     decoder_attention_heads
    dropout                     dropout
    attention_dropout           attention_dropout
    activation_dropout          activation_dropout
    activation_function         activation_function
    norm_position               = post
    final_norm                  = False
    layer_norm_eps              = 1e-5
    position_layout             = concatenated
    attention_bias              = True
    scale_embedding             scale_embedding
    zero_pad_embedding          = False
    label_smoothing_type        = uniform
    pad_token_id                pad_token_id
    eos_token_id                eos_token_id
    bos_token_id                bos_token_id
    decoder_start_token_id      decoder_start_token_id
    """


def layers(prefix: str = "") -> str:
    """Returns rows of a mapping.Table, with `prefix` before the toolkit's names."""
    rows = [line.split() for line in LAYERS.splitlines() if line.strip()]
    return "\n".join(f"{ours} {prefix}{name}" for ours, name in rows)
