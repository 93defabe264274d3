import { prose } from "../lib/dom.js";

export default { id: "explorer", number: 8, title: "The attention explorer", paper: "Figures 3 to 5", render };

function render(root, state) {
  root.append(prose(String.raw`<p>To be written.</p>`));
}
