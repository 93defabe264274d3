import { prose } from "../lib/dom.js";

export default { id: "training", number: 7, title: "How it learns", paper: "section 5", render };

function render(root, state) {
  root.append(prose(String.raw`<p>To be written.</p>`));
}
