import { prose } from "../lib/dom.js";

export default { id: "positions", number: 4, title: "Where a word stands", paper: "section 3.5", render };

function render(root, state) {
  root.append(prose(String.raw`<p>To be written.</p>`));
}
