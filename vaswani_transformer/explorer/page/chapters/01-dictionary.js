import { prose } from "../lib/dom.js";

export default { id: "dictionary", number: 1, title: "Attention is a soft dictionary", paper: "section 3.2", render };

function render(root, state) {
  root.append(prose(String.raw`<p>To be written.</p>`));
}
