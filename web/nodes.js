// What the scene's lists are drawn with; web/scene_list.py puts it in front of each of their scripts.
// Words of a visitor reach the page through textContent, values and attributes only.

const make = (tag, name = "", text = "") => {
  const node = document.createElement(tag);
  node.className = name;
  node.textContent = text;
  return node;
};
const put = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
  node.hidden = !text;
};
const button = (act, text, name = "") => {
  const node = make("button", `tr-do ${name}`.trim(), text);
  node.type = "button";
  node.dataset.act = act;
  return node;
};
const show = (node) => {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  node.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
};
// A sentence for whoever just did something, perhaps far from here.
const tell = (node, text) => {
  const isNew = Boolean(text) && node.textContent !== text;
  put(node, text);
  if (isNew) show(node);
};
