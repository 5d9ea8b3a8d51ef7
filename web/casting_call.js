// A casting call: one line, read by several, nobody named. In: the value {speaker, text, asked, candidates}; see
// web/casting.py. Out: play {letter} hear one again, submit {letter} choose one.
// Words of a visitor reach the page through textContent and attributes only.

window.tableread_call?.abort();
const gone = new AbortController();
window.tableread_call = gone;
let heardNow = [];

const frame = () => {
  const root = element.querySelector(".tr-scene-call");
  if (root.firstChild) return root;
  const told = make("p", "tr-call-told");
  told.setAttribute("aria-live", "polite");
  const words = make("p", "tr-call-line");
  words.dir = "auto";
  const list = make("ol", "tr-candidates");
  list.setAttribute("aria-label", "Candidates");
  root.append(told, words, list);
  return root;
};

const draw = () => {
  const root = frame();
  const call = props.value?.candidates ? props.value : null;
  root.hidden = !call;
  if (!call) return;
  const chosen = call.candidates.find((each) => each.chosen);
  const missing = call.asked - call.candidates.length;
  const state = chosen ? `${chosen.letter} plays ${call.speaker} now.` : missing ? `${missing} of ${call.asked} have still to read.` : "Choose by ear; who they are shows afterwards.";
  put(root.querySelector(".tr-call-told"), `Casting call for ${call.speaker}. ${state}`);
  put(root.querySelector(".tr-call-line"), call.text);
  const list = root.querySelector("ol");
  while (list.children.length > call.candidates.length) list.lastChild.remove();
  call.candidates.forEach((each, index) => {
    let item = list.children[index];
    if (!item) {
      item = make("li", "tr-candidate");
      item.append(make("b", "tr-letter"), make("span", "tr-call-facts"), button("play", "Play"), button("submit", "Choose"));
      list.append(item);
    }
    item.dataset.letter = each.letter;
    item.classList.toggle("tr-accepted", each.chosen);
    put(item.children[0], each.letter);
    put(item.children[1], [each.seconds, each.about].filter(Boolean).join(" · "));
    item.children[2].setAttribute("aria-label", `Play candidate ${each.letter}`);
    item.children[3].setAttribute("aria-label", `Choose candidate ${each.letter}`);
    item.children[3].setAttribute("aria-pressed", String(each.chosen));
    item.children[3].textContent = each.chosen ? "Chosen" : "Choose";
  });
  light();
};

const light = (scroll = false) => {
  for (const item of element.querySelectorAll(".tr-candidate")) {
    const heard = heardNow.includes(`candidate ${item.dataset.letter}`);
    item.classList.toggle("tr-is-heard", heard);
    if (heard && scroll) show(item);
  }
};

window.addEventListener(
  "tableread:sounding",
  ({ detail }) => {
    heardNow = detail.lines;
    light(true);
  },
  { signal: gone.signal },
);
element.addEventListener("click", ({ target }) => {
  const node = target.closest("button[data-act]");
  if (!node) return;
  if (node.dataset.act === "play") window.tableread?.asked();
  trigger(node.dataset.act, { letter: node.closest(".tr-candidate").dataset.letter });
});

draw();
watch("value", draw);
