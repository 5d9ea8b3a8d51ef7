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
