// The lines of a scene. In: the value {rows, problems, parts, making, open, can_direct, note}; see web/scene_list.py.
// Out: submit {line} perform from here, play {line, take}, retry {line, note, direction, seed}, select {line},
//      apply {line, take}, like {line, take}, edit {line, how}, input {part}.
// The player's event "tableread:sounding" says which lines are heard.
//
// Words of a visitor reach the page through textContent and attributes only. A row keeps its nodes while its
// line lives, so that focus and what is typed stay.

const labelled = (node, label) => {
  if (node.getAttribute("aria-label") !== label) node.setAttribute("aria-label", label);
};

window.tableread_lines?.abort(); // drawn anew: the old listeners go
const gone = new AbortController();
window.tableread_lines = gone;

let heardLines = [];
let opening = null; // the line that was just opened: its panel gets the focus when it comes

// ---------------------------------------------------------------- the frame

const frame = () => {
  const root = element.querySelector(".tr-scene-lines"); // Gradio may have replaced what was inside the element
  if (root.firstChild) return root;
  const note = make("p", "tr-note");
  note.setAttribute("role", "status");
  note.setAttribute("aria-live", "polite");
  const problems = make("div", "tr-problems");
  problems.setAttribute("role", "group");
  problems.setAttribute("aria-label", "Problems in the script");
  const told = make("p", "tr-problems-told");
  told.setAttribute("aria-live", "polite");
  problems.append(told, make("ol", "tr-problem-list"));
  const list = make("ol", "tr-lines");
  list.setAttribute("aria-label", "Lines of the scene");
  const parts = make("label", "tr-field tr-parts", "Part of the script");
  parts.append(make("select", "tr-input"));
  root.append(note, parts, problems, make("p", "tr-empty"), list);
  return root;
};

// ---------------------------------------------------------------- problems

const drawProblems = (root, problems) => {
  root.querySelector(".tr-problems").hidden = !problems.length;
  const count = problems.length === 1 ? "One thing in the script:" : `${problems.length} things in the script:`;
  put(root.querySelector(".tr-problems-told"), problems.length ? count : "");
  const list = root.querySelector(".tr-problem-list");
  while (list.children.length > problems.length) list.lastChild.remove();
  problems.forEach(({ row, column, sentence }, index) => {
    let item = list.children[index];
    if (!item) {
      item = make("li");
      item.append(button("problem", "", "tr-problem"));
      list.append(item);
    }
    const link = item.firstChild;
    put(link, `Row ${row}, column ${column}: ${sentence}`);
    Object.assign(link.dataset, { row, column });
    link.title = "Go there in the script";
  });
};

// ---------------------------------------------------------------- parts

const drawParts = (root, parts) => {
  root.querySelector(".tr-parts").hidden = parts.length < 2;
  const select = root.querySelector(".tr-parts select");
  while (select.children.length > parts.length) select.lastChild.remove();
  parts.forEach(({ name, told, chosen }, index) => {
    const option = select.children[index] || select.appendChild(make("option"));
    if (option.textContent !== told) option.textContent = told;
    option.value = name;
    if (chosen) select.value = name;
  });
};

const goTo = (row, column) => {
  const field = document.querySelector("#script textarea");
  if (!field) return;
  const rows = field.value.split("\n");
  const start = rows.slice(0, row - 1).reduce((sum, each) => sum + each.length + 1, 0);
  const letters = [...(rows[row - 1] ?? "")].slice(0, column - 1).join("").length; // columns count characters
  field.focus();
  field.setSelectionRange(start + letters, start + (rows[row - 1] ?? "").length);
  const high = parseFloat(getComputedStyle(field).lineHeight) || 20;
  field.scrollTop = Math.max(0, (row - 4) * high);
};

// ---------------------------------------------------------------- a row

const newRow = (id) => {
  const item = make("li", "tr-line");
  item.dataset.line = id;
  const before = make("div", "tr-before");
  const body = make("div", "tr-body");
  const head = make("p", "tr-head");
  head.append(make("span", "tr-number"), make("bdi", "tr-who"), make("bdi", "tr-direction"), make("span", "tr-dual"));
  const words = make("p", "tr-words-line");
  words.dir = "auto";
  const spoken = make("p", "tr-spoken");
  spoken.append(make("span", "tr-spoken-tag", "spoken: "), make("bdi", "tr-spoken-text"), make("span", "tr-steps"));
  const facts = make("p", "tr-facts");
  facts.append(make("span", "tr-cut"), make("span", "tr-star-mark"), make("span", "tr-take-facts-line"), make("span", "tr-stale"), make("span", "tr-memo"));
  const trouble = make("p", "tr-trouble-line");
  trouble.setAttribute("role", "alert");
  const tools = make("div", "tr-tools");
  tools.append(button("play", "Play"), button("submit", "From here"), button("select", "Takes", "tr-open"));
  const panel = make("div", "tr-panel");
  body.append(head, words, spoken, trouble, facts, tools, panel);
  item.append(before, body);
  return item;
};

const drawRow = (item, row, value) => {
  const find = (name) => item.querySelector(name);
  const place = `line ${row.number}, ${row.who}`;
  const marks = [...row.landmarks];
  if (row.beat) marks.push(`a pause of ${row.beat} s`);
  const before = find(".tr-before");
  while (before.children.length > marks.length) before.lastChild.remove();
  marks.forEach((text, index) => {
    const node = before.children[index] || before.appendChild(make("p", "tr-landmark"));
    node.dir = "auto";
    put(node, text);
  });
  put(find(".tr-number"), String(row.number));
  put(find(".tr-who"), row.who);
  put(find(".tr-direction"), row.direction ? `(${row.direction})` : "");
  put(find(".tr-dual"), row.dual ? "together with the line before" : "");
  put(find(".tr-words-line"), row.text);
  put(find(".tr-spoken-text"), row.spoken);
  put(find(".tr-steps"), row.steps ? ` · ${row.steps}` : "");
  find(".tr-spoken").hidden = !row.spoken && !row.steps;
  find(".tr-spoken-tag").hidden = !row.spoken;
  const { take } = row;
  put(find(".tr-cut"), take?.cut ? "cut" : "");
  put(find(".tr-star-mark"), take?.star ? "★" : "");
  const many = row.takes > 1 ? ` · ${row.takes} takes` : "";
  put(find(".tr-take-facts-line"), value.making === row.id ? "being performed …" : take ? take.facts + many : "");
  put(find(".tr-stale"), row.stale);
  put(find(".tr-memo"), { pinned: "pinned in memory", forgotten: "forgotten" }[row.memory] || "");
  find(".tr-facts").hidden = ![...find(".tr-facts").children].some((each) => !each.hidden);
  put(find(".tr-trouble-line"), row.trouble);
  const [play, from, more] = find(".tr-tools").children;
  play.disabled = !take?.sound;
  labelled(play, take?.sound ? `Play ${place}` : `${place} has no sound yet`);
  labelled(from, `Perform from ${place}`);
  labelled(more, `Retake, takes and memory of ${place}`);
  const open = value.open?.line === row.id;
  more.setAttribute("aria-expanded", String(open));
  item.classList.toggle("tr-is-making", value.making === row.id);
  item.classList.toggle("tr-has-trouble", Boolean(row.trouble));
  drawPanel(item, row, open ? value.open : null, value.can_direct);
};

// ---------------------------------------------------------------- what an opened row shows

const field = (name, label, hint, most) => {
  const wrap = make("label", "tr-field");
  const input = make("input", "tr-input");
  Object.assign(input, { name, placeholder: hint, maxLength: most, type: "text", autocomplete: "off" });
  wrap.append(make("span", "", label), input);
  return wrap;
};

const drawPanel = (item, row, open, canDirect) => {
  const panel = item.querySelector(".tr-panel");
  panel.hidden = !open;
  if (!open) return void panel.replaceChildren();
  if (!panel.firstChild) {
    const form = make("form", "tr-retake");
    form.append(
      field("note", "Note", canDirect ? "colder, slower" : "this model can't be directed", 200),
      field("direction", "Direction", row.direction || "as in the script", 200),
      field("seed", "Seed", "the next one", 20),
    );
    const go = make("button", "tr-do tr-go", "Retake");
    go.type = "submit";
    form.append(go);
    panel.append(form, make("ol", "tr-take-rows"), make("div", "tr-memory"));
  }
  for (const name of ["note", "direction"]) panel.querySelector(`[name=${name}]`).disabled = !canDirect;
  labelled(panel.querySelector("form"), `Retake line ${row.number}`);
  drawTakes(panel.querySelector(".tr-take-rows"), row, open.takes);
  drawMemory(panel.querySelector(".tr-memory"), open.memory);
  if (opening === row.id) {
    opening = null;
    panel.querySelector("input:not(:disabled)")?.focus();
  }
};

const drawTakes = (list, row, takes) => {
  labelled(list, `Takes of line ${row.number}`);
  while (list.children.length > takes.length) list.lastChild.remove();
  takes.forEach((take, index) => {
    let item = list.children[index];
    if (!item) {
      item = make("li", "tr-take-row");
      const words = make("div", "tr-take-words");
      words.append(make("b", "tr-take-name"), make("span", "tr-take-cut"), make("bdi", "tr-take-wish"), make("span", "tr-take-told"));
      item.append(words, button("hear", "Play"), button("apply", "Use"), button("like", "☆", "tr-star"));
      list.append(item);
    }
    const name = `take ${index + 1} of line ${row.number}`;
    item.dataset.take = take.id;
    item.classList.toggle("tr-accepted", take.accepted);
    put(item.querySelector(".tr-take-name"), `Take ${index + 1}`);
    put(item.querySelector(".tr-take-cut"), take.cut ? "cut" : "");
    put(item.querySelector(".tr-take-wish"), take.wish);
    put(item.querySelector(".tr-take-told"), `${take.facts} · seed ${take.seed}`);
    const [, hear, use, star] = item.children;
    hear.disabled = !take.sound;
    labelled(hear, `Play ${name}`);
    hear.title = "All takes of a line are played equally loud";
    use.textContent = take.accepted ? "In use" : "Use";
    use.setAttribute("aria-pressed", String(take.accepted));
    labelled(use, take.accepted ? `${name} is in use` : `Use ${name}`);
    star.textContent = take.star ? "★" : "☆";
    star.setAttribute("aria-pressed", String(take.star));
    labelled(star, `Star ${name}`);
  });
};

const drawMemory = (box, memory) => {
  if (!box.firstChild) {
    const bar = make("div", "tr-bar");
    bar.append(make("i"));
    box.append(make("p", "tr-memory-told"), bar, make("ol", "tr-memory-lines"));
  }
  put(box.querySelector(".tr-memory-told"), memory.told);
  box.querySelector(".tr-bar").hidden = memory.share === undefined;
  box.querySelector("i").style.width = `${Math.min(100, 100 * (memory.share ?? 0))}%`;
  const list = box.querySelector(".tr-memory-lines");
  while (list.children.length > memory.lines.length) list.lastChild.remove();
  memory.lines.forEach(({ id, number, text, how }, index) => {
    let item = list.children[index];
    if (!item) {
      item = make("li", "tr-memory-line");
      item.append(make("bdi", "tr-memory-text"), make("span", "tr-memory-how"), button("pin", "Pin"), button("forget", "Forget"));
      list.append(item);
    }
    item.dataset.line = id;
    put(item.querySelector(".tr-memory-text"), `${number}  ${text}`);
    put(item.querySelector(".tr-memory-how"), how);
    for (const [at, state, word] of [[2, "pinned", "Pin"], [3, "forgotten", "Forget"]]) {
      item.children[at].setAttribute("aria-pressed", String(how === state));
      labelled(item.children[at], `${word} line ${number}`);
    }
  });
};

// ---------------------------------------------------------------- all of it

const draw = () => {
  const root = frame();
  const value = props.value?.rows ? props.value : { rows: [], problems: [], note: "" };
  tell(root.querySelector(".tr-note"), value.note || "");
  drawParts(root, value.parts || []);
  drawProblems(root, value.problems);
  put(root.querySelector(".tr-empty"), value.rows.length ? "" : "Write lines as NAME: words, or paste a play or Fountain.");
  const list = root.querySelector(".tr-lines");
  const known = new Map([...list.children].map((item) => [item.dataset.line, item]));
  const ids = new Set(value.rows.map((row) => row.id));
  for (const [id, item] of known) if (!ids.has(id)) item.remove();
  value.rows.forEach((row, index) => {
    const item = known.get(row.id) || newRow(row.id);
    if (list.children[index] !== item) list.insertBefore(item, list.children[index] || null);
    drawRow(item, row, value);
  });
  light();
};

const light = (scroll = false) => {
  for (const item of element.querySelectorAll(".tr-line")) {
    const heard = heardLines.includes(item.dataset.line);
    item.classList.toggle("tr-is-heard", heard);
    if (heard) item.setAttribute("aria-current", "true");
    else item.removeAttribute("aria-current");
  }
  const first = scroll && element.querySelector(".tr-is-heard");
  if (first && !element.contains(document.activeElement?.closest?.("input"))) show(first);
};

window.addEventListener(
  "tableread:sounding",
  ({ detail }) => {
    heardLines = detail.lines;
    light(true);
  },
  { signal: gone.signal },
);

const idOf = (node) => node.closest(".tr-line").dataset.line;
const takeOf = (node) => node.closest(".tr-take-row").dataset.take;
const ask = (name, data) => {
  window.tableread?.asked();
  trigger(name, data);
};

const acts = {
  problem: (node) => goTo(Number(node.dataset.row), Number(node.dataset.column)),
  play: (node) => ask("play", { line: idOf(node), take: "" }),
  hear: (node) => ask("play", { line: idOf(node), take: takeOf(node) }),
  submit: (node) => ask("submit", { line: idOf(node) }),
  select: (node) => {
    const open = node.getAttribute("aria-expanded") === "true";
    opening = open ? null : idOf(node);
    trigger("select", { line: open ? "" : idOf(node) });
  },
  apply: (node) => trigger("apply", { line: idOf(node), take: takeOf(node) }),
  like: (node) => trigger("like", { line: idOf(node), take: takeOf(node) }),
  pin: (node) => memo(node, "pinned"),
  forget: (node) => memo(node, "forgotten"),
};
const memo = (node, how) => {
  const off = node.getAttribute("aria-pressed") === "true";
  trigger("edit", { line: node.closest(".tr-memory-line").dataset.line, how: off ? "" : how });
};

element.addEventListener(
  "click",
  (event) => {
    const node = event.target.closest("button[data-act]");
    if (node && !node.disabled) acts[node.dataset.act](node);
  },
  { signal: gone.signal },
);
element.addEventListener(
  "change",
  (event) => {
    if (event.target.closest(".tr-parts")) trigger("input", { part: event.target.value });
  },
  { signal: gone.signal },
);
element.addEventListener(
  "submit",
  (event) => {
    event.preventDefault();
    const { note, direction, seed } = event.target.elements;
    ask("retry", { line: idOf(event.target), note: note.value, direction: direction.value, seed: seed.value });
  },
  { signal: gone.signal },
);

draw();
watch("value", draw);
