// The list of a session's takes. In: the value, a list of {line, facts}. Out: submit {index} when one is chosen.
// Words of a visitor reach the page through textContent only.

const make = (tag, name) => Object.assign(document.createElement(tag), { className: name });

const row = (index) => {
  const item = make("li", "tr-take");
  const button = make("button", "tr-take-button");
  button.type = "button";
  button.dataset.index = index;
  button.append(make("span", "tr-take-line"), make("span", "tr-take-facts"));
  item.append(button);
  return item;
};

const choose = (index) => {
  for (const each of element.querySelectorAll("button")) each.setAttribute("aria-pressed", each.dataset.index === String(index));
};

const draw = () => {
  const list = element.querySelector("ol"); // Gradio may have replaced what was inside the element
  const takes = props.value || [];
  while (list.children.length > takes.length) list.lastChild.remove();
  while (list.children.length < takes.length) list.append(row(list.children.length));
  takes.forEach((take, index) => {
    list.children[index].querySelector(".tr-take-line").textContent = take.line;
    list.children[index].querySelector(".tr-take-facts").textContent = take.facts;
  });
  choose(0);
  element.querySelector(".tr-takes-empty").hidden = takes.length > 0;
};

element.addEventListener("click", (event) => {
  const button = event.target.closest(".tr-take-button");
  if (!button) return;
  choose(button.dataset.index);
  trigger("submit", { index: Number(button.dataset.index) });
});

draw();
watch("value", draw);
