// The chapters in order.
import recurrence from "./00-recurrence.js";
import dictionary from "./01-dictionary.js";
import attention from "./02-attention.js";
import heads from "./03-heads.js";
import positions from "./04-positions.js";
import encoder from "./05-encoder.js";
import decoder from "./06-decoder.js";
import training from "./07-training.js";
import explorer from "./08-explorer.js";
import beam from "./09-beam.js";

export const chapters = [recurrence, dictionary, attention, heads, positions, encoder, decoder, training, explorer, beam];
