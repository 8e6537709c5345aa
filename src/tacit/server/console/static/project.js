/* Pages that write a project file. Without this script bounds and categories are typed. */
"use strict";

(() => {
  const find = (id) => document.getElementById(id);

  /* The lines of the file that the page is about are in view. */
  const here = find("here");
  if (here) here.parentElement.scrollTop = here.offsetTop - here.parentElement.offsetTop - 60;

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.high !== undefined) {
      find("low").value = button.dataset.low;
      find("high").value = button.dataset.high;
      find("declare").requestSubmit();
    }
    if (button?.id === "list-them") {
      const values = [...find("view").querySelectorAll("section[aria-labelledby=there] tbody [data-value]")];
      find("categories").value = values.map((each) => each.dataset.value).join("\n");
      find("declare").requestSubmit();
    }
  });
})();
