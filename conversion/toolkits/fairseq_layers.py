"""How fairseq names its layers, and so do the models that came from it to transformers, under `model.`"""

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


def layers(prefix: str = "") -> str:
    """Rows of a mapping.Table, with `prefix` before the names of the toolkit."""
    rows = [line.split() for line in LAYERS.splitlines() if line.strip()]
    return "\n".join(f"{ours} {prefix}{name}" for ours, name in rows)
