// The cast as cards. In: the value {cards, kinds, voices, cant, open}; see web/scene_list.py.
// Out: submit {who, kind, ready, description, scene} another voice, select {who} clips and files of a character ("" closes them),
//      delete {who} forget a voice, play {who, by, count} a casting call.
// Words of a visitor reach the page through textContent, values and attributes only.

const field = (name, label, tag = "input") => {
  const wrap = make("label", "tr-field");
  const input = make(tag, "tr-input");
  input.name = name;
  if (tag === "input") Object.assign(input, { type: "text", maxLength: 2000, autocomplete: "off" });
  wrap.append(make("span", "", label), input);
  return wrap;
};
const set = (input, value) => {
  if (document.activeElement !== input && input.value !== value) input.value = value;
};

let clipsOf = null; // whose place for clips is open

const frame = () => {
  const root = element.querySelector(".tr-scene-cast");
  if (root.firstChild) return root;
  const list = make("ol", "tr-cards");
  list.setAttribute("aria-label", "Cast");
  const rest = make("details", "tr-more-cards");
  const more = make("ol", "tr-cards");
  more.setAttribute("aria-label", "More of the cast");
  rest.append(make("summary"), more);
  const note = make("p", "tr-note");
  note.setAttribute("role", "status");
  note.setAttribute("aria-live", "polite");
  root.append(note, list, rest, make("p", "tr-cant"));
  return root;
};

const newCard = ({ kinds, voices }) => {
  const card = make("li", "tr-card");
  const head = make("p", "tr-card-head");
  head.append(make("bdi", "tr-card-name"), make("span", "tr-card-lines"));
  const fields = make("div", "tr-card-fields");
  const kind = field("kind", "Voice", "select");
  for (const each of kinds) {
    const option = make("option", "", each.able ? each.name : `${each.name} (not with this model)`);
    Object.assign(option, { value: each.id, disabled: !each.able });
    kind.lastChild.append(option);
  }
  const ready = field("ready", "Who", "select");
  for (const each of voices) {
    const option = make("option", "", each.about);
    option.value = each.id;
    ready.lastChild.append(option);
  }
  fields.append(kind, ready, field("description", "Description"), field("scene", "Scene"));
  const tools = make("div", "tr-tools");
  tools.append(button("select", "Clips and files"), button("voices", "Hear other voices"), button("seeds", "Hear other takes"), button("delete", "Forget this voice"));
  card.append(head, fields, make("p", "tr-card-about"), tools);
  return card;
};

const drawCard = (card, data) => {
  const find = (name) => card.querySelector(name);
  card.dataset.who = data.key;
  put(find(".tr-card-name"), data.name);
  put(find(".tr-card-lines"), data.lines === 1 ? "1 line" : `${data.lines} lines`);
  for (const name of ["kind", "ready", "description", "scene"]) {
    const input = find(`[name=${name}]`);
    set(input, data[name]);
    input.setAttribute("aria-label", `${input.parentNode.firstChild.textContent} of ${data.name}`);
  }
  find("[name=ready]").parentNode.hidden = data.kind !== "ready";
  for (const name of ["description", "scene"]) find(`[name=${name}]`).parentNode.hidden = data.kind !== "described";
  put(find(".tr-card-about"), data.kind === "clips" ? data.about : "");
  const [clips, voices, seeds, forget] = find(".tr-tools").children;
  clips.hidden = data.kind !== "clips";
  forget.hidden = !data.mine;
  for (const each of [clips, voices, seeds, forget]) each.setAttribute("aria-label", `${each.textContent}: ${data.name}`);
};

const draw = () => {
  const root = frame();
  const value = props.value?.cards ? props.value : { cards: [], kinds: [], voices: [], cant: [], open: 8 };
  const [first, second] = root.querySelectorAll("ol");
  const parts = [value.cards.slice(0, value.open), value.cards.slice(value.open)];
  [first, second].forEach((list, part) => {
    const cards = parts[part];
    while (list.children.length > cards.length) list.lastChild.remove();
    while (list.children.length < cards.length) list.append(newCard(value));
    cards.forEach((data, index) => drawCard(list.children[index], data));
  });
  root.querySelector("details").hidden = !parts[1].length;
  root.querySelector("summary").textContent = `${parts[1].length} more`;
  tell(root.querySelector(".tr-note"), value.note || "");
  put(root.querySelector(".tr-cant"), value.cant.join(" "));
  if (clipsOf && !value.cards.some((each) => each.key === clipsOf && each.kind === "clips")) openClips("");
};

const openClips = (who) => {
  clipsOf = who;
  trigger("select", { who });
};

const give = (card) => {
  const data = { who: card.dataset.who };
  for (const name of ["kind", "ready", "description", "scene"]) data[name] = card.querySelector(`[name=${name}]`).value;
  trigger("submit", data);
  if (data.kind === "clips") openClips(data.who); // and there is the place for them
};

element.addEventListener("change", ({ target }) => {
  const card = target.closest(".tr-card");
  if (card) give(card);
});
element.addEventListener("click", ({ target }) => {
  const node = target.closest("button[data-act]");
  if (!node) return;
  const who = node.closest(".tr-card").dataset.who;
  if (node.dataset.act === "select") return openClips(who);
  if (node.dataset.act === "delete") return trigger("delete", { who });
  window.tableread?.asked();
  trigger("play", { who, by: node.dataset.act });
});

draw();
watch("value", draw);
