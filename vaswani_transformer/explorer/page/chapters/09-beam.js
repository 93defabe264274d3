import { prose } from "../lib/dom.js";

export default { id: "beam", number: 9, title: "The beam at work", paper: "section 6.1", render };

function render(root, state) {
  root.append(prose(String.raw`<p>To be written.</p>`));
}
