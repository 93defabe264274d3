import { prose } from "../lib/dom.js";

export default { id: "heads", number: 3, title: "Multi-head attention", paper: "section 3.2.2", render };

function render(root, state) {
  root.append(prose(String.raw`<p>To be written.</p>`));
}
