import { prose } from "../lib/dom.js";

export default { id: "encoder", number: 5, title: "The encoder block", paper: "sections 3.1 and 3.3, equation 2", render };

function render(root, state) {
  root.append(prose(String.raw`<p>To be written.</p>`));
}
