import { prose } from "../lib/dom.js";

export default { id: "recurrence", number: 0, title: "Without recurrence", paper: "section 4, Table 1", render };

function render(root, state) {
  root.append(prose(String.raw`<p>To be written.</p>`));
}
