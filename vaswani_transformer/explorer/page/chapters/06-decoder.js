import { prose } from "../lib/dom.js";

export default { id: "decoder", number: 6, title: "The decoder block", paper: "sections 3.1 and 3.2.3", render };

function render(root, state) {
  root.append(prose(String.raw`<p>To be written.</p>`));
}
